/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The N_TTY line discipline: what the master writes becomes the slave's input, with editing, echo,
 * flow control and signals; what the slave writes goes out with OPOST processing.
 *
 * Theory of operation: the master's bytes first land in `pend`. ldisc_process_pending() feeds them
 * to the discipline while read_buf has room, when the master writes and again when a read made
 * room. In canonical mode read_buf holds finished lines up to canon_head, each ended by a position
 * marked in `eol`, and then the line being edited. An end-of-file is a marked 0 byte, which reads
 * do not return. A full buffer without a finished line takes further bytes over its last one, so
 * that a newline can always get in.
 *
 * Names of the steps follow Linux's n_tty.c, whose observable behaviour is the reference.
 */
#include <ctype.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <asm/termbits.h>

#include "vfs/dev/tty_priv.h"

#define TAB_MASK 0x1800u
#define TAB_EXPAND 0x1800u

/* ---- small helpers ---- */

static uint8_t read_at(const struct tty *t, uint32_t i)
{
	return t->read_buf[i & (TTY_READ_SIZE - 1)];
}

static int is_eol(const struct tty *t, uint32_t i)
{
	i &= TTY_READ_SIZE - 1;
	return (t->eol[i / 64] >> (i % 64)) & 1;
}

static void set_eol(struct tty *t, uint32_t i, int on)
{
	i &= TTY_READ_SIZE - 1;
	if (on)
		t->eol[i / 64] |= 1ull << (i % 64);
	else
		t->eol[i / 64] &= ~(1ull << (i % 64));
}

static void put(struct tty *t, uint8_t c)
{
	t->read_buf[t->read_head++ & (TTY_READ_SIZE - 1)] = c;
}

static int is_continuation(const struct tty *t, uint8_t c)
{
	return I_FLAG(t, IUTF8) && (c & 0xc0) == 0x80;
}

static int is_ctrl(uint8_t c)
{
	return c < 32 || c == 127;
}

static void wake_slave_input(struct tty *t)
{
	waitq_wake(&t->slave_wait, POLLIN | POLLRDNORM);
}

void tty_set_pktstatus(struct tty *t, uint32_t set, uint32_t clear)
{
	lock_assert_held(&t->lock);
	if (!t->packet)
		return;
	t->pktstatus = (t->pktstatus & ~clear) | set;
	if (set)
		waitq_wake(&t->master_wait, POLLIN | POLLRDNORM | POLLPRI);
}

/* ---- output ---- */

/* Without room the byte is lost: only echoes can get that far. */
static void out_byte(struct tty *t, uint8_t c)
{
	if (tty_out_used(t) < TTY_OUT_SIZE)
		t->out[t->out_head++ & (TTY_OUT_SIZE - 1)] = c;
}

/* One byte with OPOST; 0 when there is no room for what it becomes. */
static int output_char(struct tty *t, uint8_t c, uint32_t room)
{
	uint32_t spaces;

	if (!room)
		return 0;
	switch (c) {
	case '\n':
		if (O_FLAG(t, ONLRET))
			t->column = 0;
		if (O_FLAG(t, ONLCR)) {
			if (room < 2)
				return 0;
			t->canon_column = t->column = 0;
			out_byte(t, '\r');
			out_byte(t, '\n');
			return 1;
		}
		t->canon_column = t->column;
		break;
	case '\r':
		if (O_FLAG(t, ONOCR) && t->column == 0)
			return 1;
		if (O_FLAG(t, OCRNL)) {
			c = '\n';
			if (O_FLAG(t, ONLRET))
				t->canon_column = t->column = 0;
			break;
		}
		t->canon_column = t->column = 0;
		break;
	case '\t':
		spaces = 8 - (t->column & 7);
		if ((t->termios.oflag & TAB_MASK) == TAB_EXPAND) {
			if (room < spaces)
				return 0;
			t->column += spaces;
			while (spaces--)
				out_byte(t, ' ');
			return 1;
		}
		t->column += spaces;
		break;
	case '\b':
		if (t->column > 0)
			t->column--;
		break;
	default:
		if (is_ctrl(c))
			break;
		if (O_FLAG(t, OLCUC))
			c = (uint8_t)toupper(c);
		if (!is_continuation(t, c))
			t->column++;
	}
	out_byte(t, c);
	return 1;
}

uint32_t ldisc_output(struct tty *t, const uint8_t *buf, uint32_t n)
{
	uint32_t i = 0, room;

	lock_assert_held(&t->lock);
	room = tty_write_room(t);
	if (O_FLAG(t, OPOST)) {
		while (i < n && output_char(t, buf[i], tty_write_room(t)))
			i++;
	} else {
		for (; i < n && i < room; i++)
			out_byte(t, buf[i]);
	}
	if (i)
		waitq_wake(&t->master_wait, POLLIN | POLLRDNORM);
	return i;
}

/* ---- echo ---- */

static void echo_raw(struct tty *t, uint8_t c)
{
	if (O_FLAG(t, OPOST))
		output_char(t, c, TTY_OUT_SIZE - tty_out_used(t));
	else
		out_byte(t, c);
}

static void echo_char(struct tty *t, uint8_t c)
{
	if (L_FLAG(t, ECHOCTL) && is_ctrl(c) && c != '\t') {
		out_byte(t, '^');
		out_byte(t, c ^ 0100);
		t->column += 2;
		return;
	}
	echo_raw(t, c);
}

static void finish_erasing(struct tty *t)
{
	if (t->erasing) {
		echo_raw(t, '/');
		t->erasing = 0;
	}
}

static void echo_rub(struct tty *t)
{
	echo_raw(t, '\b');
	echo_raw(t, ' ');
	echo_raw(t, '\b');
}

/* Backs over a tab: how wide it was follows from what stands before it. */
static void echo_erase_tab(struct tty *t)
{
	uint32_t width = 0, i = t->read_head, back;
	int after_tab = 0;

	while (i != t->canon_head) {
		uint8_t c = read_at(t, --i);

		if (c == '\t') {
			after_tab = 1;
			break;
		}
		if (is_ctrl(c)) {
			if (L_FLAG(t, ECHOCTL))
				width += 2;
		} else if (!is_continuation(t, c)) {
			width++;
		}
	}
	if (!after_tab)
		width += t->canon_column;
	for (back = 8 - (width & 7); back; back--) {
		out_byte(t, '\b');
		if (t->column > 0)
			t->column--;
	}
}

static void echo_erased(struct tty *t, uint8_t c, uint32_t head, uint32_t count, int whole)
{
	if (L_FLAG(t, ECHOPRT)) {
		if (!t->erasing) {
			echo_raw(t, '\\');
			t->erasing = 1;
		}
		echo_char(t, c);
		while (--count > 0) {
			echo_raw(t, read_at(t, ++head));
			if (t->column > 0)
				t->column--;
		}
	} else if (whole && !L_FLAG(t, ECHOE)) {
		echo_char(t, CC(t, VERASE));
	} else if (c == '\t') {
		echo_erase_tab(t);
	} else {
		if (is_ctrl(c) && L_FLAG(t, ECHOCTL))
			echo_rub(t);
		if (!is_ctrl(c) || L_FLAG(t, ECHOCTL))
			echo_rub(t);
	}
}

/* VERASE, VWERASE and VKILL. */
static void eraser(struct tty *t, uint8_t key)
{
	enum { ERASE_CHAR, ERASE_WORD, ERASE_LINE } kind;
	int seen_alnum = 0;

	if (t->read_head == t->canon_head)
		return;
	if (key == CC(t, VERASE)) {
		kind = ERASE_CHAR;
	} else if (key == CC(t, VWERASE)) {
		kind = ERASE_WORD;
	} else {
		if (!L_FLAG(t, ECHO)) {
			t->read_head = t->canon_head;
			return;
		}
		if (!L_FLAG(t, ECHOK) || !L_FLAG(t, ECHOKE) || !L_FLAG(t, ECHOE)) {
			t->read_head = t->canon_head;
			finish_erasing(t);
			echo_char(t, CC(t, VKILL));
			if (L_FLAG(t, ECHOK))
				echo_raw(t, '\n');
			return;
		}
		kind = ERASE_LINE;
	}
	while (t->read_head != t->canon_head) {
		uint32_t head = t->read_head, count;
		uint8_t c;

		do {
			c = read_at(t, --head);
		} while (is_continuation(t, c) && head != t->canon_head);
		if (is_continuation(t, c))
			break; /* half a character: leave it */
		if (kind == ERASE_WORD) {
			if (isalnum(c) || c == '_')
				seen_alnum = 1;
			else if (seen_alnum)
				break;
		}
		count = t->read_head - head;
		t->read_head = head;
		if (L_FLAG(t, ECHO))
			echo_erased(t, c, head, count, kind == ERASE_CHAR);
		if (kind == ERASE_CHAR)
			break;
	}
	if (t->read_head == t->canon_head && L_FLAG(t, ECHO))
		finish_erasing(t);
}

/* ---- flow control and flushing ---- */

void ldisc_stop(struct tty *t)
{
	lock_assert_held(&t->lock);
	if (t->stopped)
		return;
	t->stopped = 1;
	tty_set_pktstatus(t, TIOCPKT_STOP, TIOCPKT_START);
}

void ldisc_start(struct tty *t)
{
	lock_assert_held(&t->lock);
	if (!t->stopped || t->tco_stopped)
		return;
	t->stopped = 0;
	tty_set_pktstatus(t, TIOCPKT_START, TIOCPKT_STOP);
	waitq_wake(&t->slave_wait, POLLOUT | POLLWRNORM);
}

static void forget_input(struct tty *t)
{
	t->read_head = t->read_tail = t->canon_head = 0;
	memset(t->eol, 0, sizeof(t->eol));
	t->erasing = 0;
	t->push = 0;
}

void ldisc_flush_input(struct tty *t)
{
	lock_assert_held(&t->lock);
	forget_input(t);
	t->pend_tail = t->pend_head;
	tty_set_pktstatus(t, TIOCPKT_FLUSHREAD, 0);
	waitq_wake(&t->master_wait, POLLOUT | POLLWRNORM);
}

void ldisc_flush_output(struct tty *t)
{
	lock_assert_held(&t->lock);
	t->out_tail = t->out_head;
	tty_set_pktstatus(t, TIOCPKT_FLUSHWRITE, 0);
	waitq_wake(&t->slave_wait, POLLOUT | POLLWRNORM);
}

/* ---- input ---- */

static void receive_signal_char(struct tty *t, int signo, uint8_t c)
{
	tty_signal_foreground(t, signo);
	if (!L_FLAG(t, NOFLSH)) {
		t->out_tail = t->out_head;
		tty_set_pktstatus(t, TIOCPKT_FLUSHWRITE, 0);
		forget_input(t);
		tty_set_pktstatus(t, TIOCPKT_FLUSHREAD, 0);
		waitq_wake(&t->slave_wait, POLLOUT | POLLWRNORM);
	}
	if (I_FLAG(t, IXON))
		ldisc_start(t);
	if (L_FLAG(t, ECHO))
		echo_char(t, c);
}

static void store_plain(struct tty *t, uint8_t c)
{
	if (c == 0377 && I_FLAG(t, PARMRK))
		put(t, 0377);
	put(t, c);
}

static void echo_plain(struct tty *t, uint8_t c)
{
	if (!L_FLAG(t, ECHO))
		return;
	finish_erasing(t);
	if (c == '\n') {
		echo_raw(t, '\n');
		return;
	}
	if (t->canon_head == t->read_head)
		t->canon_column = t->column;
	echo_char(t, c);
}

/* The line being edited ends with c. */
static void finish_line(struct tty *t, uint8_t c)
{
	set_eol(t, t->read_head, 1);
	put(t, c);
	t->canon_head = t->read_head;
	wake_slave_input(t);
}

/* 1 when c was dealt with as an editing character. */
static int receive_canon(struct tty *t, uint8_t c)
{
	int iexten = L_FLAG(t, IEXTEN) != 0;

	if (c == CC(t, VERASE) || c == CC(t, VKILL) || (c == CC(t, VWERASE) && iexten)) {
		eraser(t, c);
		return 1;
	}
	if (c == CC(t, VLNEXT) && iexten) {
		t->lnext = 1;
		if (L_FLAG(t, ECHO)) {
			finish_erasing(t);
			if (L_FLAG(t, ECHOCTL)) {
				echo_raw(t, '^');
				echo_raw(t, '\b');
			}
		}
		return 1;
	}
	if (c == CC(t, VREPRINT) && L_FLAG(t, ECHO) && iexten) {
		finish_erasing(t);
		echo_char(t, c);
		echo_raw(t, '\n');
		for (uint32_t i = t->canon_head; i != t->read_head; i++)
			echo_char(t, read_at(t, i));
		return 1;
	}
	if (c == '\n') {
		if (L_FLAG(t, ECHO) || L_FLAG(t, ECHONL))
			echo_raw(t, '\n');
		finish_line(t, c);
		return 1;
	}
	if (c == CC(t, VEOF)) {
		finish_line(t, TTY_DISABLED_CHAR);
		return 1;
	}
	if (c == CC(t, VEOL) || (c == CC(t, VEOL2) && iexten)) {
		if (L_FLAG(t, ECHO)) {
			if (t->canon_head == t->read_head)
				t->canon_column = t->column;
			echo_char(t, c);
		}
		if (c == 0377 && I_FLAG(t, PARMRK))
			put(t, 0377);
		finish_line(t, c);
		return 1;
	}
	return 0;
}

static void receive_special(struct tty *t, uint8_t c)
{
	if (I_FLAG(t, IXON)) {
		if (c == CC(t, VSTART)) {
			ldisc_start(t);
			return;
		}
		if (c == CC(t, VSTOP)) {
			ldisc_stop(t);
			return;
		}
	}
	if (L_FLAG(t, ISIG)) {
		int signo = c == CC(t, VINTR)   ? SIGINT
			    : c == CC(t, VQUIT) ? SIGQUIT
			    : c == CC(t, VSUSP) ? SIGTSTP
						: 0;

		if (signo) {
			receive_signal_char(t, signo, c);
			return;
		}
	}
	if (I_FLAG(t, IXON) && I_FLAG(t, IXANY))
		ldisc_start(t);
	if (c == '\r') {
		if (I_FLAG(t, IGNCR))
			return;
		if (I_FLAG(t, ICRNL))
			c = '\n';
	} else if (c == '\n' && I_FLAG(t, INLCR)) {
		c = '\r';
	}
	if (t->icanon && receive_canon(t, c))
		return;
	echo_plain(t, c);
	store_plain(t, c);
}

static void receive_char(struct tty *t, uint8_t c)
{
	int lnext = t->lnext;

	t->lnext = 0;
	if (I_FLAG(t, ISTRIP))
		c &= 0x7f;
	if (I_FLAG(t, IUCLC) && L_FLAG(t, IEXTEN))
		c = (uint8_t)tolower(c);
	if (L_FLAG(t, EXTPROC)) {
		put(t, c);
		return;
	}
	if (!lnext && ((t->special[c / 64] >> (c % 64)) & 1)) {
		receive_special(t, c);
		return;
	}
	if (I_FLAG(t, IXON) && I_FLAG(t, IXANY))
		ldisc_start(t);
	echo_plain(t, c);
	store_plain(t, c);
}

/* Room for input; makes some by taking back the last byte of a line that is too long. */
static uint32_t receive_room(struct tty *t)
{
	int room = (int)(TTY_READ_SIZE - (t->read_head - t->read_tail));

	if (I_FLAG(t, PARMRK))
		room = (room + 2) / 3;
	room--;
	if (room > 0)
		return (uint32_t)room;
	if (!t->icanon || t->canon_head != t->read_tail)
		return 0;
	if (room < 0)
		t->read_head--;
	return 1;
}

void ldisc_process_pending(struct tty *t)
{
	uint32_t out_before = t->out_head, room;

	lock_assert_held(&t->lock);
	while (t->pend_head != t->pend_tail && (room = receive_room(t)) > 0) {
		uint32_t at = t->pend_tail & (TTY_PEND_SIZE - 1), n;

		if (!t->raw) {
			t->pend_tail++;
			receive_char(t, t->pend[at]);
			continue;
		}
		n = t->pend_head - t->pend_tail;
		n = n < room ? n : room;
		n = n < TTY_PEND_SIZE - at ? n : TTY_PEND_SIZE - at;
		t->pend_tail += n;
		for (uint32_t i = 0; i < n; i++)
			put(t, t->pend[at + i]);
	}
	if ((!t->icanon || L_FLAG(t, EXTPROC)) && t->read_head != t->read_tail)
		wake_slave_input(t);
	if (t->out_head != out_before)
		waitq_wake(&t->master_wait, POLLIN | POLLRDNORM);
}

/* ---- reading ---- */

uint32_t ldisc_readable(const struct tty *t, uint32_t amount)
{
	if (t->icanon && !L_FLAG(t, EXTPROC))
		return t->canon_head != t->read_tail;
	return t->read_head - t->read_tail >= amount;
}

uint32_t ldisc_count(const struct tty *t)
{
	uint32_t n;

	if (!L_FLAG(t, ICANON))
		return t->read_head - t->read_tail;
	n = t->canon_head - t->read_tail;
	for (uint32_t i = t->read_tail; i != t->canon_head; i++)
		if (is_eol(t, i) && read_at(t, i) == TTY_DISABLED_CHAR)
			n--;
	return n;
}

uint32_t ldisc_take(struct tty *t, uint8_t *buf, uint32_t size, int *line)
{
	int canon = t->icanon && !L_FLAG(t, EXTPROC);
	uint32_t end = canon ? t->canon_head : t->read_head, n = 0;

	lock_assert_held(&t->lock);
	*line = 0;
	while (t->read_tail != end) {
		uint8_t c = read_at(t, t->read_tail);
		int eol = canon && is_eol(t, t->read_tail);

		/* An end of file right behind a full buffer goes with it. */
		if (eol && c == TTY_DISABLED_CHAR && !t->push) {
			set_eol(t, t->read_tail++, 0);
			*line = 1;
			break;
		}
		if (n == size)
			break;
		buf[n++] = c;
		if (eol) {
			set_eol(t, t->read_tail++, 0);
			t->push = 0;
			*line = 1;
			break;
		}
		t->read_tail++;
	}
	return n;
}

/* ---- settings ---- */

void ldisc_reset(struct tty *t)
{
	static const uint8_t cc[LINUX_NCCS] = {
		[VINTR] = 3,   [VQUIT] = 28,   [VERASE] = 127, [VKILL] = 21,	[VEOF] = 4,
		[VMIN] = 1,    [VSTART] = 17,  [VSTOP] = 19,   [VSUSP] = 26,	[VREPRINT] = 18,
		[VDISCARD] = 15, [VWERASE] = 23, [VLNEXT] = 22,
	};

	t->termios = (struct linux_termios2){
		.iflag = ICRNL | IXON,
		.oflag = OPOST | ONLCR,
		.cflag = B38400 | CS8 | CREAD,
		.lflag = ISIG | ICANON | ECHO | ECHOE | ECHOK | ECHOCTL | ECHOKE | IEXTEN,
		.ispeed = 38400,
		.ospeed = 38400,
	};
	memcpy(t->termios.cc, cc, sizeof(cc));
}

static void mark(struct tty *t, uint8_t c)
{
	t->special[c / 64] |= 1ull << (c % 64);
}

static void build_special(struct tty *t)
{
	memset(t->special, 0, sizeof(t->special));
	if (I_FLAG(t, IGNCR | ICRNL))
		mark(t, '\r');
	if (I_FLAG(t, INLCR))
		mark(t, '\n');
	if (t->icanon) {
		mark(t, CC(t, VERASE));
		mark(t, CC(t, VKILL));
		mark(t, CC(t, VEOF));
		mark(t, '\n');
		mark(t, CC(t, VEOL));
		if (L_FLAG(t, IEXTEN)) {
			mark(t, CC(t, VWERASE));
			mark(t, CC(t, VLNEXT));
			mark(t, CC(t, VEOL2));
			if (L_FLAG(t, ECHO))
				mark(t, CC(t, VREPRINT));
		}
	}
	if (I_FLAG(t, IXON)) {
		mark(t, CC(t, VSTART));
		mark(t, CC(t, VSTOP));
	}
	if (L_FLAG(t, ISIG)) {
		mark(t, CC(t, VINTR));
		mark(t, CC(t, VQUIT));
		mark(t, CC(t, VSUSP));
	}
	t->special[0] &= ~(1ull << TTY_DISABLED_CHAR);
}

/* Between canonical and raw what was typed stays, as one line that may go on ("push"). */
static void switch_canon(struct tty *t)
{
	memset(t->eol, 0, sizeof(t->eol));
	if (!L_FLAG(t, ICANON) || t->read_head == t->read_tail) {
		t->canon_head = t->read_tail;
		t->push = 0;
	} else {
		set_eol(t, t->read_head - 1, 1);
		t->canon_head = t->read_head;
		t->push = 1;
	}
	t->erasing = 0;
	t->lnext = 0;
}

void ldisc_settings_changed(struct tty *t, const struct linux_termios2 *old)
{
	lock_assert_held(&t->lock);
	if (!old || ((old->lflag ^ t->termios.lflag) & (ICANON | EXTPROC)))
		switch_canon(t);
	t->icanon = L_FLAG(t, ICANON) != 0;
	t->raw = !I_FLAG(t, ISTRIP | IUCLC | IGNCR | ICRNL | INLCR | IXON | PARMRK) && !t->icanon &&
		 !L_FLAG(t, ISIG | ECHO | EXTPROC) && !t->lnext;
	build_special(t);
	/* Nobody could start it any more. */
	if (!I_FLAG(t, IXON) && old && (old->iflag & IXON))
		ldisc_start(t);
	ldisc_process_pending(t);
	waitq_wake(&t->slave_wait, POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM);
}
