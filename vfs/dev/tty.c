/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Terminals as open files: read, write, poll, release, hangup, and the job control that asks the
 * sentry through tty_hooks. Bytes are the business of ldisc.c, pairs of pty.c.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <asm/termbits.h>

#include "platform/base/assert.h"
#include "vfs/dev/tty_priv.h"

const struct tty_hooks *g_tty_hooks;

void tty_set_hooks(const struct tty_hooks *hooks)
{
	g_tty_hooks = hooks;
}

/* ---- life ---- */

static void vtimer_fire(struct ktimer *kt)
{
	struct tty *t = kt->priv;

	lock_acquire(&t->lock);
	if (t->vtimer_on) {
		t->vtimer_on = 0;
		t->vtimer_fired = 1;
		waitq_wake(&t->slave_wait, POLLIN | POLLRDNORM);
	}
	lock_release(&t->lock);
}

struct tty *tty_new(uint32_t index)
{
	struct tty *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	/* One allocation for the three rings, the lock's memory not among what a guest can aim at. */
	t->read_buf = malloc(TTY_READ_SIZE + TTY_PEND_SIZE + TTY_OUT_SIZE);
	if (!t->read_buf) {
		free(t);
		return NULL;
	}
	t->pend = t->read_buf + TTY_READ_SIZE;
	t->out = t->pend + TTY_PEND_SIZE;
	ref_init(&t->ref);
	lock_init(&t->lock, RANK_TTY);
	waitq_init(&t->master_wait);
	waitq_init(&t->slave_wait);
	ktimer_init(&t->vtimer, vtimer_fire, t);
	t->index = index;
	t->locked = 1;
	ldisc_reset(t);
	lock_acquire(&t->lock);
	ldisc_settings_changed(t, NULL);
	lock_release(&t->lock);
	return t;
}

struct tty *tty_get(struct tty *t)
{
	ref_get(&t->ref);
	return t;
}

void tty_put(struct tty *t)
{
	if (!ref_put(&t->ref))
		return;
	ktimer_cancel_sync(&t->vtimer);
	lock_acquire(&t->lock);
	tty_drop_ids(t);
	lock_release(&t->lock);
	if (t->slave_inode)
		inode_put(t->slave_inode);
	if (t->mnt)
		mount_put(t->mnt);
	waitq_destroy(&t->master_wait);
	waitq_destroy(&t->slave_wait);
	lock_destroy(&t->lock);
	free(t->read_buf);
	free(t);
}

int tty_attach_file(struct tty *t, struct file *f, int master)
{
	struct tty_file *tf = calloc(1, sizeof(*tf));

	if (!tf)
		return -ENOMEM;
	tf->tty = tty_get(t);
	tf->master = (uint32_t)master;
	lock_acquire(&t->lock);
	tf->hangups = t->hangups;
	if (master) {
		t->master_opens++;
	} else {
		t->slave_opens++;
		t->was_opened = 1;
	}
	lock_release(&t->lock);
	f->ops = &g_tty_ops;
	f->priv = tf;
	f->mode |= FMODE_STREAM;
	return 0;
}

int file_is_tty(const struct file *f)
{
	return f->ops == &g_tty_ops && f->priv;
}

uint64_t tty_dev(const struct tty *t)
{
	return linux_makedev(PTY_SLAVE_MAJOR, t->index);
}

/* ---- job control ---- */

void tty_drop_ids(struct tty *t)
{
	lock_assert_held(&t->lock);
	if (t->session)
		g_tty_hooks->pid_put(t->session);
	if (t->pgrp)
		g_tty_hooks->pid_put(t->pgrp);
	t->session = t->pgrp = NULL;
}

void tty_signal_foreground(struct tty *t, int signo)
{
	if (g_tty_hooks && t->pgrp)
		g_tty_hooks->signal_pgrp(t->pgrp, signo);
}

int tty_foreground_nr(struct tty *t)
{
	int nr = -1;

	lock_acquire(&t->lock);
	if (g_tty_hooks && t->pgrp)
		nr = g_tty_hooks->pid_nr(t->pgrp);
	lock_release(&t->lock);
	return nr;
}

/* As __tty_check_change: the background group of the terminal's own session is held back. */
int tty_check_change(struct tty *t, int signo)
{
	const struct tty_hooks *h = g_tty_hooks;
	struct pid *mine;
	struct tty *ctty;
	int background;

	if (!h)
		return 0;
	ctty = h->current_ctty();
	if (!ctty)
		return 0;
	background = ctty == t;
	tty_put(ctty);
	if (!background)
		return 0;
	mine = h->current_pgrp();
	lock_acquire(&t->lock);
	background = t->pgrp && t->pgrp != mine;
	lock_release(&t->lock);
	h->pid_put(mine);
	if (!background)
		return 0;
	if (h->current_ignores(signo))
		return signo == SIGTTIN ? -EIO : 0;
	if (h->current_pgrp_is_orphaned())
		return -EIO;
	mine = h->current_pgrp();
	h->signal_pgrp(mine, signo);
	h->pid_put(mine);
	return -ERESTARTSYS;
}

/* Opening a terminal makes it the controlling one of a session leader that has none. */
void tty_maybe_take_ctty(struct tty *t, struct file *f)
{
	const struct tty_hooks *h = g_tty_hooks;
	struct tty *has;
	int took = 0;

	if (!h || !(f->mode & FMODE_READ) || !h->current_is_session_leader())
		return;
	has = h->current_ctty();
	if (has) {
		tty_put(has);
		return;
	}
	lock_acquire(&t->lock);
	if (!t->session) {
		if (t->pgrp)
			h->pid_put(t->pgrp);
		t->session = h->current_session();
		t->pgrp = h->current_pgrp();
		took = 1;
	}
	lock_release(&t->lock);
	if (took)
		h->set_current_ctty(tty_get(t));
}

void tty_hangup(struct tty *t)
{
	struct pid *session;

	lock_acquire(&t->lock);
	__atomic_fetch_add(&t->hangups, 1, __ATOMIC_RELEASE);
	session = t->session;
	t->session = NULL;
	tty_drop_ids(t);
	t->stopped = t->tco_stopped = 0;
	t->exclusive = 0;
	ldisc_reset(t);
	ldisc_flush_input(t);
	ldisc_settings_changed(t, NULL);
	waitq_wake(&t->slave_wait, POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM | POLLHUP | POLLERR);
	lock_release(&t->lock);
	if (session) {
		g_tty_hooks->clear_session_ctty(session, t, 1);
		g_tty_hooks->pid_put(session);
	}
}

void tty_disassociate(int on_exit)
{
	const struct tty_hooks *h = g_tty_hooks;
	struct pid *session;
	struct tty *t;

	if (!h || !h->current_is_session_leader())
		return;
	t = h->current_ctty();
	if (!t)
		return;
	session = h->current_session();
	lock_acquire(&t->lock);
	if (t->session == session) {
		tty_signal_foreground(t, SIGHUP);
		if (!on_exit)
			tty_signal_foreground(t, SIGCONT);
		tty_drop_ids(t);
	}
	lock_release(&t->lock);
	h->clear_session_ctty(session, t, 0);
	h->pid_put(session);
	tty_put(t);
}

void tty_vhangup_current(void)
{
	struct tty *t = g_tty_hooks ? g_tty_hooks->current_ctty() : NULL;

	if (t) {
		tty_hangup(t);
		tty_put(t);
	}
}

/* ---- reading the slave ---- */

static void vtimer_stop(struct tty *t)
{
	lock_assert_held(&t->lock);
	if (t->vtimer_on)
		ktimer_cancel(&t->vtimer);
	t->vtimer_on = t->vtimer_fired = 0;
	t->read_want = 0;
}

/*
 * A blocking read without canonical mode has to wait on: remembers what would content it, and
 * starts its clock. -EAGAIN.
 */
static int wait_for_more(struct tty *t, uint32_t want, int restart_clock)
{
	uint64_t tenths = CC(t, VTIME);

	t->read_want = want;
	if (tenths && (!t->vtimer_on || restart_clock)) {
		t->vtimer_on = 1;
		ktimer_arm(&t->vtimer, mono_now_ns() + tenths * 100000000ull);
	}
	return -EAGAIN;
}

/* 1 when a read of `size` bytes may take what there is, 0 for a result of 0, or -EAGAIN. */
static int raw_read_may_go(struct tty *t, size_t size, int nonblock)
{
	uint32_t count = t->read_head - t->read_tail, vmin = CC(t, VMIN), want;

	want = vmin ? vmin : 1;
	if (size < want)
		want = (uint32_t)size;
	if (count >= want)
		return 1;
	if (!count) {
		if (!vmin && (!CC(t, VTIME) || t->vtimer_fired))
			return 0;
		if (nonblock)
			return -EAGAIN;
		if (!vmin)
			return wait_for_more(t, want, 0);
		/* With a minimum the clock starts at the first byte. */
		t->read_want = want;
		return -EAGAIN;
	}
	if (nonblock || t->vtimer_fired)
		return 1;
	return wait_for_more(t, want, 0);
}

static ssize_t tty_read_slave(struct file *f, struct uio *u)
{
	struct tty_file *tf = tty_file(f);
	struct tty *t = tf->tty;
	uint8_t buf[TTY_READ_SIZE];
	int may, line = 0, nonblock;
	uint32_t n = 0;
	ssize_t r;

	if (tty_hung_up(tf))
		return 0;
	r = tty_check_change(t, SIGTTIN);
	if (r)
		return r;
	if (!u->left)
		return 0;
	nonblock = (f->flags & O_NONBLOCK) != 0;
	lock_acquire(&t->lock);
	if (t->icanon && !L_FLAG(t, EXTPROC))
		may = ldisc_readable(t, 1) ? 1 : !t->master_opens ? -EIO : -EAGAIN;
	else
		may = raw_read_may_go(t, u->left, nonblock);
	if (may > 0) {
		n = ldisc_take(t, buf, u->left < sizeof(buf) ? (uint32_t)u->left : sizeof(buf), &line);
		ldisc_process_pending(t);
		waitq_wake(&t->master_wait, POLLOUT | POLLWRNORM);
	}
	if (may >= 0)
		vtimer_stop(t);
	lock_release(&t->lock);
	if (may <= 0)
		return may;
	if (!n)
		return 0;
	r = uio_copy_out(u, buf, n);
	explicit_bzero(buf, n); /* it may have been a password */
	return r;
}

/* ---- the master ---- */

static ssize_t tty_read_master(struct file *f, struct uio *u)
{
	struct tty *t = tty_file(f)->tty;
	uint8_t status;
	ssize_t done = 0, r = 0;

	if (!u->left)
		return 0;
	lock_acquire(&t->lock);
	if (t->packet && t->pktstatus) {
		status = (uint8_t)t->pktstatus;
		t->pktstatus = 0;
		r = uio_copy_out(u, &status, 1);
		lock_release(&t->lock);
		return r;
	}
	if (!tty_out_used(t)) {
		r = t->was_opened && !t->slave_opens ? -EIO : -EAGAIN;
		lock_release(&t->lock);
		return r;
	}
	if (t->packet) {
		status = TIOCPKT_DATA;
		r = uio_copy_out(u, &status, 1);
		done = r > 0 ? r : 0;
	}
	while (r >= 0 && u->left && tty_out_used(t)) {
		uint32_t at = t->out_tail & (TTY_OUT_SIZE - 1), n = tty_out_used(t);

		n = n < TTY_OUT_SIZE - at ? n : TTY_OUT_SIZE - at;
		n = n < u->left ? n : (uint32_t)u->left;
		r = uio_copy_out(u, t->out + at, n);
		if (r <= 0)
			break;
		t->out_tail += (uint32_t)r;
		done += r;
		if ((uint32_t)r < n)
			break;
	}
	if (tty_write_room(t))
		waitq_wake(&t->slave_wait, POLLOUT | POLLWRNORM);
	lock_release(&t->lock);
	return done ? done : r;
}

static ssize_t tty_write_master(struct file *f, struct uio *u)
{
	struct tty *t = tty_file(f)->tty;
	ssize_t done = 0, r = 0;

	lock_acquire(&t->lock);
	while (u->left) {
		uint32_t at = t->pend_head & (TTY_PEND_SIZE - 1), n = tty_pend_room(t);

		if (!n) {
			r = -EAGAIN;
			break;
		}
		n = n < TTY_PEND_SIZE - at ? n : TTY_PEND_SIZE - at;
		n = n < u->left ? n : (uint32_t)u->left;
		r = uio_copy_in(u, t->pend + at, n);
		if (r <= 0)
			break;
		t->pend_head += (uint32_t)r;
		done += r;
		/* The clock of a waiting read with VMIN and VTIME starts anew with each byte. */
		if (t->read_want && CC(t, VMIN))
			wait_for_more(t, t->read_want, 1);
		ldisc_process_pending(t);
		if ((uint32_t)r < n)
			break;
	}
	lock_release(&t->lock);
	return done ? done : r;
}

/* ---- writing the slave ---- */

static ssize_t tty_write_slave(struct file *f, struct uio *u)
{
	struct tty_file *tf = tty_file(f);
	struct tty *t = tf->tty;
	uint8_t buf[2048];
	ssize_t done = 0, r;

	if (tty_hung_up(tf))
		return -EIO;
	if (L_FLAG(t, TOSTOP)) {
		r = tty_check_change(t, SIGTTOU);
		if (r)
			return r;
	}
	while (u->left) {
		struct uio ahead = *u;
		uint32_t n;

		if (u->seg == &u->one)
			ahead.seg = &ahead.one;
		/* Guest bytes are copied ahead of the cursor; only what was taken counts. */
		r = uio_copy_in(&ahead, buf, sizeof(buf));
		if (r <= 0)
			return done ? done : r;
		lock_acquire(&t->lock);
		n = t->master_opens ? ldisc_output(t, buf, (uint32_t)r) : 0;
		if (!t->master_opens)
			r = -EIO;
		lock_release(&t->lock);
		if (r < 0)
			return done ? done : r;
		uio_advance(u, n);
		done += n;
		if (n < (uint32_t)r)
			return done ? done : -EAGAIN;
	}
	return done;
}

/* ---- file operations ---- */

static ssize_t tty_read_op(struct file *f, struct uio *u, int64_t *pos)
{
	(void)pos;
	return tty_file(f)->master ? tty_read_master(f, u) : tty_read_slave(f, u);
}

static ssize_t tty_write_op(struct file *f, struct uio *u, int64_t *pos)
{
	(void)pos;
	return tty_file(f)->master ? tty_write_master(f, u) : tty_write_slave(f, u);
}

static uint32_t tty_poll_op(struct file *f, struct poll_table *pt)
{
	struct tty_file *tf = tty_file(f);
	struct tty *t = tf->tty;
	uint32_t mask = 0, amount;

	poll_wait(pt, tf->master ? &t->master_wait : &t->slave_wait);
	if (tty_hung_up(tf))
		return POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM | POLLERR | POLLHUP;
	lock_acquire(&t->lock);
	if (tf->master) {
		if (tty_out_used(t))
			mask |= POLLIN | POLLRDNORM;
		if (t->packet && t->pktstatus)
			mask |= POLLPRI | POLLIN | POLLRDNORM;
		if (t->was_opened && !t->slave_opens)
			mask |= POLLHUP;
		if (tty_pend_room(t))
			mask |= POLLOUT | POLLWRNORM;
	} else {
		amount = !CC(t, VTIME) && CC(t, VMIN) ? CC(t, VMIN) : 1;
		if (t->read_want)
			amount = t->read_want;
		if (ldisc_readable(t, amount) || t->vtimer_fired)
			mask |= POLLIN | POLLRDNORM;
		if (!t->master_opens)
			mask |= POLLHUP;
		if (tty_write_room(t))
			mask |= POLLOUT | POLLWRNORM;
	}
	lock_release(&t->lock);
	return mask;
}

static void tty_release_op(struct file *f)
{
	struct tty_file *tf = f->priv;
	struct tty *t;
	int last = 0;

	if (!tf)
		return; /* the open failed */
	t = tf->tty;
	lock_acquire(&t->lock);
	if (tf->master) {
		last = --t->master_opens == 0;
	} else if (--t->slave_opens == 0) {
		vtimer_stop(t);
		waitq_wake(&t->master_wait, POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM | POLLHUP);
	}
	lock_release(&t->lock);
	if (last) {
		devpts_kill(t);
		tty_hangup(t);
	}
	tty_put(t);
	free(tf);
}

const struct file_ops g_tty_ops = {
	.read = tty_read_op,
	.write = tty_write_op,
	.poll = tty_poll_op,
	.ioctl = tty_ioctl,
	.release = tty_release_op,
};
