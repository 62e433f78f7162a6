/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ioctls of terminals: a table of commands, each on the pair (a master's descriptor speaks about
 * the slave's settings, as on Linux).
 */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <asm/termbits.h>
#include <sys/ioctl.h>

#include "platform/base/log.h"
#include "vfs/dev/tty_priv.h"

#ifndef TIOCGPTPEER
#define TIOCGPTPEER _IO('T', 0x41)
#endif

struct tty_call {
	struct file *f;
	struct tty_file *tf;
	struct tty *t;
	struct ioctl_req *r;
};

static int get_int(struct tty_call *c, int *v)
{
	return c->r->copy_in(c->r, v, c->r->arg, sizeof(*v)) < 0 ? -EFAULT : 0;
}

static int put_int(struct tty_call *c, int v)
{
	return c->r->copy_out(c->r, c->r->arg, &v, sizeof(v)) < 0 ? -EFAULT : 0;
}

static int caller_has(struct tty_call *c, int cap)
{
	return g_tty_hooks ? g_tty_hooks->current_has_cap(cap) : cred_has_cap(c->f->cred, cap);
}

/* ---- termios ---- */

static const uint32_t g_speeds[] = {
	0,	50,	75,	 110,	 134,	 150,	 200,	 300,
	600,	1200,	1800,	 2400,	 4800,	 9600,	 19200,	 38400,
};
static const uint32_t g_fast_speeds[] = {
	0,	57600,	115200,	 230400,  460800,  500000,  576000,  921600,
	1000000, 1152000, 1500000, 2000000, 2500000, 3000000, 3500000, 4000000,
};

/* The number behind a CBAUD code; BOTHER stands for the number given. */
static uint32_t speed_of(uint32_t code, uint32_t given)
{
	code &= CBAUD;
	if (code == BOTHER)
		return given;
	return code & CBAUDEX ? g_fast_speeds[code & 15] : g_speeds[code & 15];
}

static long ioctl_tcgets(struct tty_call *c)
{
	struct linux_termios2 tio;
	size_t n = c->r->cmd == TCGETS2 ? sizeof(tio) : LINUX_TERMIOS_SIZE;

	lock_acquire(&c->t->lock);
	tio = c->t->termios;
	lock_release(&c->t->lock);
	return c->r->copy_out(c->r, c->r->arg, &tio, n) < 0 ? -EFAULT : 0;
}

static long ioctl_tcgeta(struct tty_call *c)
{
	struct linux_termio old = { 0 };

	lock_acquire(&c->t->lock);
	old.iflag = (uint16_t)c->t->termios.iflag;
	old.oflag = (uint16_t)c->t->termios.oflag;
	old.cflag = (uint16_t)c->t->termios.cflag;
	old.lflag = (uint16_t)c->t->termios.lflag;
	old.line = c->t->termios.line;
	memcpy(old.cc, c->t->termios.cc, LINUX_NCC);
	lock_release(&c->t->lock);
	return c->r->copy_out(c->r, c->r->arg, &old, sizeof(old)) < 0 ? -EFAULT : 0;
}

static int usual_flow(const struct linux_termios2 *tio)
{
	return (tio->iflag & IXON) && tio->cc[VSTOP] == 19 && tio->cc[VSTART] == 17;
}

/* What a master in packet mode is told about new settings. */
static void report_settings(struct tty *t, const struct linux_termios2 *old)
{
	int extproc = ((old->lflag | t->termios.lflag) & EXTPROC) != 0;
	int was = usual_flow(old), is = usual_flow(&t->termios);

	if (was == is && !extproc)
		return;
	tty_set_pktstatus(t,
			  (is ? TIOCPKT_DOSTOP : TIOCPKT_NOSTOP) | (extproc ? TIOCPKT_IOCTL : 0),
			  TIOCPKT_DOSTOP | TIOCPKT_NOSTOP);
}

static void apply_termios(struct tty *t, struct linux_termios2 *tio)
{
	struct linux_termios2 old = t->termios;

	tio->cflag &= ~(uint32_t)(CSIZE | PARENB); /* a pty is 8 bits, no parity */
	tio->cflag |= CS8 | CREAD;
	t->termios = *tio;
	report_settings(t, &old);
	ldisc_settings_changed(t, &old);
}

/* TCSETS, TCSETSW and TCSETSF in their three layouts. Output is never pending: W is S here. */
static long ioctl_tcsets(struct tty_call *c)
{
	uint32_t cmd = c->r->cmd;
	int flush = cmd == TCSETSF || cmd == TCSETSF2 || cmd == TCSETAF;
	int two = cmd == TCSETS2 || cmd == TCSETSW2 || cmd == TCSETSF2;
	int one = cmd == TCSETA || cmd == TCSETAW || cmd == TCSETAF;
	struct linux_termios2 tio;
	struct linux_termio old;
	int err = tty_check_change(c->t, SIGTTOU);

	if (err)
		return err;
	lock_acquire(&c->t->lock);
	tio = c->t->termios;
	lock_release(&c->t->lock);
	if (one) {
		if (c->r->copy_in(c->r, &old, c->r->arg, sizeof(old)) < 0)
			return -EFAULT;
		tio.iflag = (tio.iflag & 0xffff0000u) | old.iflag;
		tio.oflag = (tio.oflag & 0xffff0000u) | old.oflag;
		tio.cflag = (tio.cflag & 0xffff0000u) | old.cflag;
		tio.lflag = (tio.lflag & 0xffff0000u) | old.lflag;
		tio.line = old.line;
		memcpy(tio.cc, old.cc, LINUX_NCC);
	} else if (c->r->copy_in(c->r, &tio, c->r->arg, two ? sizeof(tio) : LINUX_TERMIOS_SIZE) < 0) {
		return -EFAULT;
	}
	tio.ospeed = speed_of(tio.cflag, tio.ospeed);
	tio.ispeed = (tio.cflag >> IBSHIFT) & CBAUD ? speed_of(tio.cflag >> IBSHIFT, tio.ispeed)
						    : tio.ospeed;
	tio.line = 0;
	lock_acquire(&c->t->lock);
	if (flush)
		ldisc_flush_input(c->t);
	apply_termios(c->t, &tio);
	lock_release(&c->t->lock);
	return 0;
}

static long ioctl_locked(struct tty_call *c)
{
	struct linux_termios2 none = { 0 };

	if (c->r->cmd == TIOCSLCKTRMIOS)
		return caller_has(c, CAP_SYS_ADMIN) ? 0 : -EPERM;
	return c->r->copy_out(c->r, c->r->arg, &none, LINUX_TERMIOS_SIZE) < 0 ? -EFAULT : 0;
}

static long ioctl_softcar(struct tty_call *c)
{
	int v;

	if (c->r->cmd == TIOCGSOFTCAR)
		return put_int(c, (c->t->termios.cflag & CLOCAL) != 0);
	if (get_int(c, &v))
		return -EFAULT;
	lock_acquire(&c->t->lock);
	c->t->termios.cflag = (c->t->termios.cflag & ~(uint32_t)CLOCAL) | (v ? CLOCAL : 0);
	lock_release(&c->t->lock);
	return 0;
}

/* ---- size ---- */

static long ioctl_winsize(struct tty_call *c)
{
	struct linux_winsize ws;

	if (c->r->cmd == TIOCGWINSZ) {
		lock_acquire(&c->t->lock);
		ws = c->t->winsize;
		lock_release(&c->t->lock);
		return c->r->copy_out(c->r, c->r->arg, &ws, sizeof(ws)) < 0 ? -EFAULT : 0;
	}
	if (c->r->copy_in(c->r, &ws, c->r->arg, sizeof(ws)) < 0)
		return -EFAULT;
	lock_acquire(&c->t->lock);
	if (memcmp(&ws, &c->t->winsize, sizeof(ws)) != 0) {
		c->t->winsize = ws;
		tty_signal_foreground(c->t, SIGWINCH);
	}
	lock_release(&c->t->lock);
	return 0;
}

/* ---- job control ---- */

/* 1 when the terminal is the caller's controlling one. */
static int is_ctty(struct tty *t)
{
	struct tty *has = g_tty_hooks ? g_tty_hooks->current_ctty() : NULL;
	int is = has == t;

	if (has)
		tty_put(has);
	return is;
}

static long ioctl_getpgrp(struct tty_call *c)
{
	const struct tty_hooks *h = g_tty_hooks;
	struct pid *p;
	int nr = 0;

	/* A master may ask about its slave from outside the session. */
	if (!h || (!c->tf->master && !is_ctty(c->t)))
		return -ENOTTY;
	lock_acquire(&c->t->lock);
	p = c->r->cmd == TIOCGSID ? c->t->session : c->t->pgrp;
	if (p)
		nr = h->pid_nr(p);
	lock_release(&c->t->lock);
	if (!p && c->r->cmd == TIOCGSID)
		return -ENOTTY;
	return put_int(c, nr);
}

static long ioctl_setpgrp(struct tty_call *c)
{
	const struct tty_hooks *h = g_tty_hooks;
	struct pid *session, *pgrp, *old = NULL;
	int nr, err;

	if (!h)
		return -ENOTTY;
	err = tty_check_change(c->t, SIGTTOU);
	if (err)
		return err == -EIO ? -ENOTTY : err;
	if (get_int(c, &nr))
		return -EFAULT;
	if (nr < 0)
		return -EINVAL;
	if (!is_ctty(c->t))
		return -ENOTTY;
	pgrp = h->find_pgrp(nr);
	session = h->current_session();
	lock_acquire(&c->t->lock);
	if (c->t->session != session)
		err = -ENOTTY;
	else if (!pgrp)
		err = -ESRCH;
	else if (!h->pgrp_in_session(pgrp, session))
		err = -EPERM;
	if (!err) {
		old = c->t->pgrp;
		c->t->pgrp = pgrp;
		pgrp = NULL;
	}
	lock_release(&c->t->lock);
	if (old)
		h->pid_put(old);
	if (pgrp)
		h->pid_put(pgrp);
	h->pid_put(session);
	return err;
}

static long ioctl_sctty(struct tty_call *c)
{
	const struct tty_hooks *h = g_tty_hooks;
	struct pid *session, *robbed = NULL;
	struct tty *has;
	int err = 0;

	if (!h)
		return -EPERM;
	session = h->current_session();
	has = h->current_ctty();
	lock_acquire(&c->t->lock);
	if (h->current_is_session_leader() && c->t->session == session && has == c->t) {
		err = 1; /* it is so already */
	} else if (!h->current_is_session_leader() || has) {
		err = -EPERM;
	} else if (c->t->session && c->t->session != session) {
		if (c->r->arg == 1 && h->current_has_cap(CAP_SYS_ADMIN))
			robbed = h->pid_get(c->t->session);
		else
			err = -EPERM;
	}
	if (!err && !(c->f->mode & FMODE_READ) && !h->current_has_cap(CAP_SYS_ADMIN))
		err = -EPERM;
	if (!err) {
		tty_drop_ids(c->t);
		c->t->session = h->pid_get(session);
		c->t->pgrp = h->current_pgrp();
	}
	lock_release(&c->t->lock);
	if (robbed) {
		if (!err)
			h->clear_session_ctty(robbed, c->t, 0);
		h->pid_put(robbed);
	}
	if (!err)
		h->set_current_ctty(tty_get(c->t));
	if (has)
		tty_put(has);
	h->pid_put(session);
	return err < 0 ? err : 0;
}

static long ioctl_notty(struct tty_call *c)
{
	if (!is_ctty(c->t))
		return -ENOTTY;
	if (g_tty_hooks->current_is_session_leader())
		tty_disassociate(0);
	else
		g_tty_hooks->set_current_ctty(NULL);
	return 0;
}

static long ioctl_vhangup(struct tty_call *c)
{
	if (!caller_has(c, CAP_SYS_ADMIN))
		return -EPERM;
	tty_hangup(c->t);
	return 0;
}

/* ---- flow, flush, queues ---- */

static long ioctl_flush(struct tty_call *c)
{
	int err = tty_check_change(c->t, SIGTTOU);
	struct tty *t = c->t;

	if (err)
		return err;
	if (c->r->arg > TCIOFLUSH)
		return -EINVAL;
	lock_acquire(&t->lock);
	if (c->tf->master) {
		/* The master's input is the slave's output, and the other way round. */
		if (c->r->arg != TCOFLUSH) {
			t->out_tail = t->out_head;
			waitq_wake(&t->slave_wait, POLLOUT | POLLWRNORM);
		}
		if (c->r->arg != TCIFLUSH)
			ldisc_flush_input(t);
	} else {
		if (c->r->arg != TCOFLUSH)
			ldisc_flush_input(t);
		if (c->r->arg != TCIFLUSH)
			ldisc_flush_output(t);
	}
	lock_release(&t->lock);
	return 0;
}

/* A start or stop character sent to the other side, past all queues. */
static void send_char(struct tty *t, uint8_t ch)
{
	if (ch == TTY_DISABLED_CHAR || tty_out_used(t) == TTY_OUT_SIZE)
		return;
	t->out[t->out_head++ & (TTY_OUT_SIZE - 1)] = ch;
	waitq_wake(&t->master_wait, POLLIN | POLLRDNORM);
}

static long ioctl_xonc(struct tty_call *c)
{
	int err = tty_check_change(c->t, SIGTTOU);
	struct tty *t = c->t;

	if (err)
		return err;
	lock_acquire(&t->lock);
	switch (c->r->arg) {
	case TCOOFF:
		ldisc_stop(t);
		t->tco_stopped = 1;
		break;
	case TCOON:
		if (t->tco_stopped) {
			t->tco_stopped = 0;
			ldisc_start(t);
		}
		break;
	case TCIOFF:
		send_char(t, CC(t, VSTOP));
		break;
	case TCION:
		send_char(t, CC(t, VSTART));
		break;
	default:
		err = -EINVAL;
	}
	lock_release(&t->lock);
	return err;
}

static long ioctl_break(struct tty_call *c)
{
	/* Output has gone as soon as it is written; a pty has no line to break. */
	return tty_check_change(c->t, SIGTTOU);
}

static long ioctl_inq(struct tty_call *c)
{
	uint32_t n;

	lock_acquire(&c->t->lock);
	n = c->tf->master ? tty_out_used(c->t) : ldisc_count(c->t);
	lock_release(&c->t->lock);
	return put_int(c, (int)n);
}

static long ioctl_outq(struct tty_call *c)
{
	return put_int(c, 0); /* a pty's chars_in_buffer */
}

/* ---- odds and ends ---- */

static long ioctl_excl(struct tty_call *c)
{
	uint32_t cmd = c->r->cmd;

	if (cmd == TIOCGEXCL)
		return put_int(c, (int)c->t->exclusive);
	lock_acquire(&c->t->lock);
	c->t->exclusive = cmd == TIOCEXCL;
	lock_release(&c->t->lock);
	return 0;
}

static long ioctl_ldisc(struct tty_call *c)
{
	int v;

	if (c->r->cmd == TIOCGETD)
		return put_int(c, 0); /* N_TTY */
	if (get_int(c, &v))
		return -EFAULT;
	return v == 0 ? 0 : -EINVAL;
}

static long ioctl_dev(struct tty_call *c)
{
	uint32_t dev = (uint32_t)(c->tf->master ? linux_makedev(128, c->t->index) : tty_dev(c->t));

	return c->r->copy_out(c->r, c->r->arg, &dev, sizeof(dev)) < 0 ? -EFAULT : 0;
}

/* Typing for others: off, as with dev.tty.legacy_tiocsti=0, for everyone. */
static long ioctl_sti(struct tty_call *c)
{
	(void)c;
	log_once("tty: TIOCSTI is refused");
	return -EIO;
}

static long ioctl_cons(struct tty_call *c)
{
	(void)c;
	log_once("tty: TIOCCONS is refused");
	return -EPERM;
}

static long ioctl_nothing(struct tty_call *c)
{
	(void)c;
	return 0;
}

/* ---- masters only ---- */

static long ioctl_lock(struct tty_call *c)
{
	int v;

	if (c->r->cmd == TIOCGPTLCK)
		return put_int(c, (int)c->t->locked);
	if (get_int(c, &v))
		return -EFAULT;
	lock_acquire(&c->t->lock);
	c->t->locked = v != 0;
	lock_release(&c->t->lock);
	return 0;
}

static long ioctl_packet(struct tty_call *c)
{
	int v;

	if (c->r->cmd == TIOCGPKT)
		return put_int(c, (int)c->t->packet);
	if (get_int(c, &v))
		return -EFAULT;
	lock_acquire(&c->t->lock);
	if (v && !c->t->packet)
		c->t->pktstatus = 0;
	c->t->packet = v != 0;
	lock_release(&c->t->lock);
	return 0;
}

static long ioctl_ptn(struct tty_call *c)
{
	return put_int(c, (int)c->t->index);
}

static long ioctl_sig(struct tty_call *c)
{
	int signo = (int)c->r->arg;

	if (signo != SIGINT && signo != SIGQUIT && signo != SIGTSTP)
		return -EINVAL;
	lock_acquire(&c->t->lock);
	tty_signal_foreground(c->t, signo);
	lock_release(&c->t->lock);
	return 0;
}

static long ioctl_peer(struct tty_call *c)
{
	uint32_t flags = (uint32_t)c->r->arg;
	struct file *peer;

	if (!g_tty_hooks || !g_tty_hooks->install_fd)
		return -ENOTTY;
	peer = pty_open_peer(c->f, flags, c->f->cred);
	return IS_ERR(peer) ? PTR_ERR(peer) : g_tty_hooks->install_fd(peer, flags);
}

#define FOR_MASTER 1u

static const struct {
	uint32_t cmd;
	uint32_t flags;
	long (*fn)(struct tty_call *c);
} g_ioctls[] = {
	{ TCGETS, 0, ioctl_tcgets },
	{ TCGETS2, 0, ioctl_tcgets },
	{ TCGETA, 0, ioctl_tcgeta },
	{ TCSETS, 0, ioctl_tcsets },
	{ TCSETSW, 0, ioctl_tcsets },
	{ TCSETSF, 0, ioctl_tcsets },
	{ TCSETS2, 0, ioctl_tcsets },
	{ TCSETSW2, 0, ioctl_tcsets },
	{ TCSETSF2, 0, ioctl_tcsets },
	{ TCSETA, 0, ioctl_tcsets },
	{ TCSETAW, 0, ioctl_tcsets },
	{ TCSETAF, 0, ioctl_tcsets },
	{ TIOCGLCKTRMIOS, 0, ioctl_locked },
	{ TIOCSLCKTRMIOS, 0, ioctl_locked },
	{ TIOCGSOFTCAR, 0, ioctl_softcar },
	{ TIOCSSOFTCAR, 0, ioctl_softcar },
	{ TIOCGWINSZ, 0, ioctl_winsize },
	{ TIOCSWINSZ, 0, ioctl_winsize },
	{ TIOCGPGRP, 0, ioctl_getpgrp },
	{ TIOCGSID, 0, ioctl_getpgrp },
	{ TIOCSPGRP, 0, ioctl_setpgrp },
	{ TIOCSCTTY, 0, ioctl_sctty },
	{ TIOCNOTTY, 0, ioctl_notty },
	{ TIOCVHANGUP, 0, ioctl_vhangup },
	{ TCFLSH, 0, ioctl_flush },
	{ TCXONC, 0, ioctl_xonc },
	{ TCSBRK, 0, ioctl_break },
	{ TCSBRKP, 0, ioctl_break },
	{ TIOCSBRK, 0, ioctl_nothing },
	{ TIOCCBRK, 0, ioctl_nothing },
	{ FIONREAD, 0, ioctl_inq },
	{ TIOCOUTQ, 0, ioctl_outq },
	{ TIOCEXCL, 0, ioctl_excl },
	{ TIOCNXCL, 0, ioctl_excl },
	{ TIOCGEXCL, 0, ioctl_excl },
	{ TIOCGETD, 0, ioctl_ldisc },
	{ TIOCSETD, 0, ioctl_ldisc },
	{ TIOCGDEV, 0, ioctl_dev },
	{ TIOCSTI, 0, ioctl_sti },
	{ TIOCCONS, 0, ioctl_cons },
	{ TIOCSPTLCK, FOR_MASTER, ioctl_lock },
	{ TIOCGPTLCK, FOR_MASTER, ioctl_lock },
	{ TIOCPKT, FOR_MASTER, ioctl_packet },
	{ TIOCGPKT, FOR_MASTER, ioctl_packet },
	{ TIOCGPTN, FOR_MASTER, ioctl_ptn },
	{ TIOCSIG, FOR_MASTER, ioctl_sig },
	{ TIOCGPTPEER, FOR_MASTER, ioctl_peer },
};

long tty_ioctl(struct file *f, struct ioctl_req *r)
{
	struct tty_call c = { .f = f, .tf = tty_file(f), .r = r };

	c.t = c.tf->tty;
	if (tty_hung_up(c.tf))
		return r->cmd == TIOCSPGRP ? -ENOTTY : -EIO;
	for (size_t i = 0; i < sizeof(g_ioctls) / sizeof(g_ioctls[0]); i++)
		if (g_ioctls[i].cmd == r->cmd) {
			if ((g_ioctls[i].flags & FOR_MASTER) && !c.tf->master)
				return -ENOTTY;
			return g_ioctls[i].fn(&c);
		}
	return -ENOIOCTLCMD;
}
