/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host files given to the sandbox as open files: the stdio of `caisson run`. A guest sees them as
 * files of the host's type, with the host's offset and end-of-file, but can do no ioctl on them
 * except FIONREAD: a terminal of the host never passes into the sandbox (isatty() is false there);
 * interactive use goes through console.h.
 *
 * The host's open file description may be shared with other processes, so its flags are never
 * changed; every host call here is one that can not block.
 */
#ifndef CAISSON_VFS_HOSTFD_H
#define CAISSON_VFS_HOSTFD_H

#include "vfs/vfs.h"

/*
 * Takes over fd (closed with the last reference, on error too). Returns a reference or ERR_PTR:
 * -EBADF, -EINVAL for directories and other types that make no sense, -ENOMEM.
 */
struct file *hostfd_file_new(struct vfs *vfs, const struct cred *cred, int fd);

#endif
