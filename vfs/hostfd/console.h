/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pump of `caisson run --tty`: carries bytes between the host's terminal and the master of the
 * sandbox's console pair. The runtime has put the host's terminal into raw mode, so that the
 * sandbox's line discipline is the only one, and restores it.
 */
#ifndef CAISSON_VFS_CONSOLE_H
#define CAISSON_VFS_CONSOLE_H

#include "vfs/vfs.h"

struct console;

/*
 * Starts the pump thread. Takes over both fds (they may not be the same number; dup one) and
 * consumes the reference on master. NULL in *out on error: -ENOMEM, -EAGAIN, -EBADF.
 */
int console_start(struct vfs *vfs, const struct cred *cred, struct file *master, int in_fd,
		  int out_fd, struct console **out);
/* At the sandbox's end: waits until the guest's output has reached the host, at most ms. */
void console_flush(struct console *c, unsigned ms);
/* A reference to the master, or NULL after a hangup. */
struct file *console_master(struct console *c);
/* Ends the pump, which lets go of the host's terminal, and forgets c. */
void console_stop(struct console *c);

#endif
