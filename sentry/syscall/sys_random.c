/* SPDX-License-Identifier: Apache-2.0 */
/* getrandom(2), from the host's generator. */
#include <errno.h>
#include <sys/random.h>

#include "sentry/mm/mm.h"
#include "sentry/syscall/syscall.h"

#ifndef GRND_INSECURE
#define GRND_INSECURE 4
#endif

/* #hostcalls: getrandom */
SYSCALL_HANDLER(getrandom)
{
	uint64_t left = a->a[1] > INT32_MAX ? INT32_MAX : a->a[1], at = a->a[0], done = 0;
	uint32_t flags = (uint32_t)a->a[2];
	char buf[1024];

	if (flags & ~(uint32_t)(GRND_NONBLOCK | GRND_RANDOM | GRND_INSECURE))
		return -EINVAL;
	if ((flags & (GRND_RANDOM | GRND_INSECURE)) == (GRND_RANDOM | GRND_INSECURE))
		return -EINVAL;
	if (!guest_range_ok(at, left))
		return -EFAULT;
	while (left) {
		size_t n = left < sizeof(buf) ? left : sizeof(buf);
		ssize_t got = getrandom(buf, n, 0), put;

		if (got <= 0)
			break;
		put = copy_to_user_some(t, at + done, buf, (size_t)got);
		if (put <= 0)
			return done ? (long)done : -EFAULT;
		done += (uint64_t)put;
		left -= (uint64_t)put;
		if (put < got || (done > 256 && task_has_work(t)))
			break;
	}
	__builtin_memset(buf, 0, sizeof(buf));
	__asm__ volatile("" : : "r"(buf) : "memory"); /* keep the wipe */
	return (long)done;
}
