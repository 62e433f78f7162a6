/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The terminal object, shared by tty.c (files, job control), ldisc.c (the line discipline),
 * tty_ioctl.c and pty.c (pairs). One object is a whole pair: what the master writes is the slave's
 * input, what the slave writes (and the echo) is the master's.
 */
#ifndef CAISSON_VFS_TTY_PRIV_H
#define CAISSON_VFS_TTY_PRIV_H

#include "platform/base/ktimer.h"
#include "vfs/dev/tty.h"

#define TTY_READ_SIZE 4096u  /* N_TTY's line limit: 4095 and the newline */
#define TTY_PEND_SIZE 8192u  /* written by the master, not yet seen by the discipline */
#define TTY_OUT_SIZE 16384u  /* towards the master */
#define TTY_OUT_LIMIT 8192u  /* writers stop here; the rest is for echoes */
#define TTY_DISABLED_CHAR 0

struct tty {
	struct ref ref;
	struct lock lock; /* RANK_TTY: everything below but [I] */
	uint32_t index;	  /* [I] N of /dev/pts/N */
	struct inode *slave_inode; /* [I] of devpts; a reference */
	struct mount *mnt; /* [I] the devpts mount the master came from; a reference */

	struct linux_termios2 termios; /* of the slave; the master's fd speaks about it too */
	struct linux_winsize winsize;
	struct pid *session, *pgrp;    /* references */
	uint32_t slave_opens, master_opens;
	uint32_t hangups;	/* bumped by a hangup: files opened before are dead */
	uint32_t was_opened;	/* the slave has been open: its absence is a hangup for the master */
	uint32_t locked;	/* TIOCSPTLCK */
	uint32_t exclusive;	/* TIOCEXCL */
	uint32_t stopped;	/* output is stopped: by ^S or TCOOFF */
	uint32_t tco_stopped;	/* by TCOOFF: only TCOON starts it */
	uint32_t packet;	/* the master is in packet mode */
	uint32_t pktstatus;	/* TIOCPKT_* it has not read */

	/* input: ldisc.c. Indices run freely; & (TTY_READ_SIZE - 1) is the place. */
	uint8_t *read_buf;	/* allocated with the object, both rings too */
	uint32_t read_head, read_tail, canon_head;
	uint64_t eol[TTY_READ_SIZE / 64]; /* where lines end */
	uint64_t special[4];	/* characters that need a look */
	uint32_t icanon, raw, lnext, erasing, push;
	uint32_t column, canon_column;
	uint8_t *pend;		/* ring of TTY_PEND_SIZE */
	uint32_t pend_head, pend_tail;
	uint8_t *out;		/* ring of TTY_OUT_SIZE */
	uint32_t out_head, out_tail;

	/* a blocking read's VMIN/VTIME: see tty_read_slave() */
	struct ktimer vtimer;
	uint32_t vtimer_on, vtimer_fired;
	uint32_t read_want;	/* bytes a waiting read would be content with; 0: VMIN */

	struct waitq master_wait, slave_wait;
};

/* file->priv */
struct tty_file {
	struct tty *tty; /* a reference */
	uint32_t master; /* [I] */
	uint32_t hangups; /* [I] tty->hangups when it was opened */
};

extern const struct tty_hooks *g_tty_hooks;

static inline struct tty_file *tty_file(const struct file *f)
{
	return f->priv;
}
static inline int tty_hung_up(const struct tty_file *tf)
{
	return !tf->master && tf->hangups != __atomic_load_n(&tf->tty->hangups, __ATOMIC_ACQUIRE);
}

/* termios tests */
#define I_FLAG(t, f) ((t)->termios.iflag & (f))
#define O_FLAG(t, f) ((t)->termios.oflag & (f))
#define L_FLAG(t, f) ((t)->termios.lflag & (f))
#define CC(t, i) ((t)->termios.cc[i])

/* ---- tty.c ---- */
struct tty *tty_new(uint32_t index);
int tty_attach_file(struct tty *t, struct file *f, int master);
void tty_drop_ids(struct tty *t); /* lock held: forgets session and pgrp */
int tty_check_change(struct tty *t, int signo); /* 0, -EIO, -ERESTARTSYS; lock not held */
void tty_signal_foreground(struct tty *t, int signo); /* lock held or not */
/* Kills all open slave files and the session's hold (tty_vhangup). Lock not held. */
void tty_hangup(struct tty *t);
void tty_maybe_take_ctty(struct tty *t, struct file *f); /* opening without O_NOCTTY */

/* ---- ldisc.c; lock held ---- */
void ldisc_reset(struct tty *t);	  /* defaults of a fresh terminal */
void ldisc_settings_changed(struct tty *t, const struct linux_termios2 *old);
void ldisc_process_pending(struct tty *t); /* pend → discipline, as far as there is room */
uint32_t ldisc_readable(const struct tty *t, uint32_t amount); /* may a read of amount go on? */
uint32_t ldisc_count(const struct tty *t);  /* what FIONREAD says */
/* Takes bytes out: one line in canonical mode. *line: a line (or EOF) was finished. */
uint32_t ldisc_take(struct tty *t, uint8_t *buf, uint32_t size, int *line);
/* Output with OPOST: bytes of buf consumed. */
uint32_t ldisc_output(struct tty *t, const uint8_t *buf, uint32_t n);
void ldisc_flush_input(struct tty *t);
void ldisc_flush_output(struct tty *t);
void ldisc_stop(struct tty *t);
void ldisc_start(struct tty *t);

static inline uint32_t tty_out_used(const struct tty *t)
{
	return t->out_head - t->out_tail;
}
static inline uint32_t tty_write_room(const struct tty *t)
{
	return t->stopped || tty_out_used(t) >= TTY_OUT_LIMIT ? 0 : TTY_OUT_LIMIT - tty_out_used(t);
}
static inline uint32_t tty_pend_room(const struct tty *t)
{
	return TTY_PEND_SIZE - (t->pend_head - t->pend_tail);
}
void tty_set_pktstatus(struct tty *t, uint32_t set, uint32_t clear);

/* ---- tty_ioctl.c ---- */
long tty_ioctl(struct file *f, struct ioctl_req *r);

/* ---- devpts/devpts.c ---- */
extern const struct fs_type g_devpts_type;
/* The instance of a devpts inode, else NULL. Borrowed from its superblock. */
struct devpts;
struct devpts *devpts_of(struct inode *ino);
/* A fresh pair with its slave inode in the instance: a reference, or ERR_PTR(-ENOSPC, -ENOMEM). */
struct tty *devpts_new_pty(struct devpts *dp, const struct cred *cred);
/* The name disappears (master closed). */
void devpts_kill(struct tty *t);
/* The terminal behind a slave inode: a reference or NULL. */
struct tty *devpts_tty(struct inode *ino);

#endif
