/* SPDX-License-Identifier: Apache-2.0 */
/* What the file system calls share: the *at() preamble, limits, waiting. */
#ifndef CAISSON_FS_UTIL_H
#define CAISSON_FS_UTIL_H

#include <fcntl.h>

#include "sentry/syscall/syscall.h"

#define MAX_RW_COUNT	  (0x7fffffffull & ~(GUEST_PAGE_SIZE - 1))
#define LINUX_O_LARGEFILE 0100000u

/* One (dirfd, path) argument pair, and who asks. */
struct at_path {
	struct vfs_ctx ctx;
	struct path start_path;	  /* of f */
	const struct path *start; /* NULL: the cwd */
	struct file *f;		  /* dirfd's file: a reference, or NULL */
	char *name;		  /* the path, owned */
};

#define AT_BEGIN_EMPTY 1u /* an empty path names dirfd's file itself */
#define AT_BEGIN_NULL  2u /* and so does a NULL pointer */

/*
 * Copies the path and looks up dirfd when it matters: -EFAULT, -ENAMETOOLONG, -EBADF, -ENOENT.
 * On success at_end() must follow.
 */
int at_begin(struct task *t, struct at_path *ap, int dirfd, uint64_t upath, uint32_t flags);
void at_end(struct at_path *ap);
/* A second pair (rename, link) under the first one's ctx. */
int at_begin_second(struct task *t, struct at_path *ap, const struct at_path *first, int dirfd,
		    uint64_t upath, uint32_t flags);
void at_end_second(struct at_path *ap);
/* Resolves it: LOOKUP_EMPTY is added when the name is empty. A reference in *out. */
int at_lookup(struct at_path *ap, uint32_t lookup_flags, struct path *out);

/* RLIMIT_FSIZE as file_write() wants it. */
uint64_t fsize_limit(struct task *t);
/* After a write gave err: SIGXFSZ for EFBIG by limit, SIGPIPE for EPIPE. Returns err. */
long write_error(struct task *t, long err);
/*
 * The file would block: -EAGAIN for O_NONBLOCK, else sleeps until `events` show. 0: try again.
 */
int wait_or_eagain(struct task *t, struct file *f, uint32_t events);
/* Reads and writes with blocking; the uio is consumed. pos NULL: the file's own. */
long file_read_blocking(struct task *t, struct file *f, struct uio *u, const int64_t *pos,
			int nowait);
long file_write_blocking(struct task *t, struct file *f, struct uio *u, const int64_t *pos,
			 int rwf);
/* Finishes the open of a FIFO: waits for the other end. Consumes f on failure. */
int open_finish(struct task *t, struct file *f);

#endif
