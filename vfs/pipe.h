/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pipes and FIFOs, and splice/tee/vmsplice over them. Bytes live in kernel pages of 4 KiB that
 * exist only while they hold data. Nothing here blocks: -EAGAIN, and the caller waits on
 * file_poll(). Any thread.
 *
 * A write may be partial when the pipe fills up (over PIPE_BUF bytes). For a descriptor without
 * O_NONBLOCK the sentry goes on with the rest until all is written, an error, or a signal, as
 * Linux does. -EPIPE from a write means that SIGPIPE is due to the writer.
 */
#ifndef CAISSON_VFS_PIPE_H
#define CAISSON_VFS_PIPE_H

#include "vfs/vfs.h"

/*
 * pipe2(2): out[0] the read end, out[1] the write end, a reference each. flags: O_CLOEXEC is
 * ignored here, O_NONBLOCK and O_DIRECT (packet mode) kept; O_NOTIFICATION_PIPE is -ENOPKG and
 * any other bit -EINVAL. -ENFILE, -ENOMEM.
 */
int pipe_new(struct vfs *vfs, const struct cred *cred, uint32_t flags, struct file *out[2]);

/* 1 when f is a pipe or FIFO end (not O_PATH). */
int file_is_pipe(const struct file *f);

/* F_GETPIPE_SZ: bytes; -EBADF when f is no pipe. */
int64_t pipe_get_size(struct file *f);
/* F_SETPIPE_SZ: the new size; -EBADF, -EINVAL, -EPERM over the limits, -EBUSY. */
int64_t pipe_set_size(struct file *f, uint64_t size, const struct cred *cred);

/*
 * The second half of opening a FIFO. 0: open (also for files that are no FIFO). -EAGAIN: the other
 * end is not there yet; wait on the queue and ask again. When a signal interrupts the wait the
 * caller drops the file.
 */
int fifo_open_wait(struct file *f);
struct waitq *fifo_open_waitq(struct file *f);

/* fs.pipe-max-size, fs.pipe-user-pages-soft and -hard, for /proc/sys. */
struct pipe_limits {
	uint32_t max_size;
	uint32_t user_pages_soft, user_pages_hard; /* 0: none */
};
extern struct pipe_limits g_pipe_limits;

/* What a splice has to wait for after -EAGAIN: this file (borrowed) and these poll events. */
struct splice_wait {
	struct file *file;
	uint32_t events;
};

/*
 * splice(2) once: one of the two is a pipe. Positions may be NULL: the file's own. Checks modes
 * (-EBADF), positions on pipes (-ESPIPE), same pipe and O_APPEND (-EINVAL). Returns bytes moved,
 * 0 at the end of input, -EAGAIN with *wait filled. flags are validated by the caller.
 */
ssize_t splice_once(struct file *in, int64_t *in_pos, struct file *out, int64_t *out_pos,
		    size_t len, uint64_t fsize_limit, struct splice_wait *wait);
/* tee(2) once. */
ssize_t tee_once(struct file *in, struct file *out, size_t len, struct splice_wait *wait);
/* vmsplice(2) once: into the pipe when f is open for writing, else out of it. */
ssize_t vmsplice_once(struct file *f, struct uio *u);

#endif
