/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Terminals: pseudo-terminal pairs with the N_TTY line discipline and job control. The VFS knows
 * no tasks; what a terminal needs to know about its caller, and the signals it sends, go through
 * `struct tty_hooks`, which the sentry fills in.
 *
 * Line discipline and echo run in the thread that writes to the master; there are no threads here.
 * Blocking rules are those of vfs.h. VMIN and VTIME need nothing from the sentry: a blocking read
 * that must wait on gives -EAGAIN, poll() reports POLLIN when the read may go on (its timeout has
 * passed, or enough is there), and the read called again returns what it has.
 *
 * `struct pid *` is the sentry's object for a process group or session. The terminal holds
 * references through pid_get/pid_put.
 */
#ifndef CAISSON_VFS_TTY_H
#define CAISSON_VFS_TTY_H

#include "platform/abi/termios.h"
#include "vfs/vfs.h"

struct pid;
struct tty;

/*
 * All hooks may be called with a terminal's lock (RANK_TTY) held, so they may take RANK_TASKS but
 * must not call back into the terminal; tty_put() in particular only with no lock held (or later).
 * "The caller" is the current task. Without hooks (unit tests) there is no job control.
 */
struct tty_hooks {
	/* The caller's process group and session: a reference each. */
	struct pid *(*current_pgrp)(void);
	struct pid *(*current_session)(void);
	int (*current_is_session_leader)(void);
	int (*current_has_cap)(int cap);
	/* 1 when signo is blocked or ignored by the caller. */
	int (*current_ignores)(int signo);
	/* 1 when the caller's process group is orphaned. */
	int (*current_pgrp_is_orphaned)(void);
	/* The caller's controlling terminal: a reference or NULL. */
	struct tty *(*current_ctty)(void);
	/* Makes tty (a reference is consumed) the caller's process's controlling terminal. */
	void (*set_current_ctty)(struct tty *tty);
	/*
	 * Takes the controlling terminal away from every process of the session that has tty as its
	 * own, dropping their references. With hangup the session leader gets SIGHUP and SIGCONT.
	 */
	void (*clear_session_ctty)(struct pid *session, struct tty *tty, int hangup);
	/* Sends a kernel signal (SI_KERNEL) to all of a process group. */
	void (*signal_pgrp)(struct pid *pgrp, int signo);
	/* A process group by number in the caller's pid namespace: a reference or NULL. */
	struct pid *(*find_pgrp)(int nr);
	/* 1 when some process of the group belongs to the session. */
	int (*pgrp_in_session)(struct pid *pgrp, struct pid *session);
	/* The number in the caller's pid namespace, 0 when not visible. */
	int (*pid_nr)(struct pid *p);
	struct pid *(*pid_get)(struct pid *p);
	void (*pid_put)(struct pid *p);
	/* An fd of the caller for f (consumed), close-on-exec with O_CLOEXEC in flags: TIOCGPTPEER.
	 * May be NULL. Called without a lock. */
	int (*install_fd)(struct file *f, uint32_t flags);
};
void tty_set_hooks(const struct tty_hooks *hooks); /* at boot, before any terminal exists */

struct tty *tty_get(struct tty *t);
void tty_put(struct tty *t);
/* For /proc/PID/stat's tty_nr: the device number, as new_encode_dev. */
uint64_t tty_dev(const struct tty *t);
/* The foreground process group's number for the caller, or -1 (/proc/PID/stat's tpgid). */
int tty_foreground_nr(struct tty *t);
/*
 * disassociate_ctty(): the session leader (the caller) exits or gives up its terminal. Sends
 * SIGHUP (and SIGCONT when not exiting) to the foreground group and frees the terminal of the
 * session, through the hooks. Call before the leader leaves its session. No lock held.
 */
void tty_disassociate(int on_exit);
/* vhangup(2): as for the caller's controlling terminal; the caller has CAP_SYS_TTY_CONFIG. */
void tty_vhangup_current(void);

/* 1 when f is a terminal (either side). */
int file_is_tty(const struct file *f);
/* Opens the other side of a master with O_* flags (TIOCGPTPEER, and without an fd the console). A
 * reference or ERR_PTR (-ENOTTY when f is no master). */
struct file *pty_open_peer(struct file *master, uint32_t flags, const struct cred *cred);

/*
 * The console of `caisson run --tty`: a pair in the devpts that ctx sees at /dev/pts (or a private
 * one when there is none), the slave being what /dev/console opens from then on. It becomes the
 * controlling terminal of the current task's session if that has none. Two references.
 */
int console_pty_new(const struct vfs_ctx *ctx, uint16_t rows, uint16_t cols, struct file **master,
		    struct file **slave);
/* Sets the size from outside (the runtime's resize message) with SIGWINCH to the foreground. */
void tty_resize(struct file *f, uint16_t rows, uint16_t cols);

/* ---- for the device table and devpts ---- */
#define PTY_SLAVE_MAJOR 136u
#define PTY_MAX 4096u /* kernel.pty.max */
extern const struct file_ops g_tty_ops;
int tty_open_current(struct inode *ino, struct file *f);
int tty_open_console(struct inode *ino, struct file *f);
int pty_open_ptmx(struct inode *ino, struct file *f);
int pty_open_slave(struct inode *ino, struct file *f);

#endif
