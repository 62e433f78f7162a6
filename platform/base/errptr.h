/* SPDX-License-Identifier: Apache-2.0 */
/* Pointers that carry a negative errno, and the kernel-internal restart codes. */
#ifndef CAISSON_ERRPTR_H
#define CAISSON_ERRPTR_H

#include <errno.h>
#include <stdint.h>

/* Internal results of interrupted calls; they never reach the guest. The numbers are Linux's. */
#define ERESTARTSYS 512		  /* restart if the handler has SA_RESTART, else EINTR */
#define ERESTARTNOINTR 513	  /* always restart */
#define ERESTARTNOHAND 514	  /* restart if no handler runs, else EINTR */
#define ENOIOCTLCMD 515		  /* ioctl unknown here: becomes ENOTTY */
#define ERESTART_RESTARTBLOCK 516 /* restart through restart_syscall(2), else EINTR */

#define MAX_ERRNO 4095

static inline void *ERR_PTR(long err)
{
	return (void *)err;
}

static inline long PTR_ERR(const void *p)
{
	return (long)p;
}

static inline int IS_ERR(const void *p)
{
	return (uintptr_t)p >= (uintptr_t)-MAX_ERRNO;
}

#endif
