/* SPDX-License-Identifier: Apache-2.0 */
/* The cursor of uio.h and its kernel-memory flavour. Guest memory is the sentry's usermem. */
#include "platform/base/uio.h"

#include <errno.h>
#include <string.h>

#include "platform/base/assert.h"

void uio_advance(struct uio *u, size_t n)
{
	ASSERT(n <= u->left);
	u->left -= n;
	while (n) {
		size_t room = u->seg->len - u->seg_done;

		if (n < room) {
			u->seg_done += n;
			return;
		}
		n -= room;
		u->seg++;
		u->seg_count--;
		u->seg_done = 0;
	}
}

ssize_t uio_copy_out(struct uio *u, const void *src, size_t n)
{
	if (n > u->left)
		n = u->left;
	return n ? u->ops->copy_out(u, src, n) : 0;
}

ssize_t uio_copy_in(struct uio *u, void *dst, size_t n)
{
	if (n > u->left)
		n = u->left;
	return n ? u->ops->copy_in(u, dst, n) : 0;
}

ssize_t uio_zero_out(struct uio *u, size_t n)
{
	static const char zeros[4096];
	size_t done = 0;

	if (n > u->left)
		n = u->left;
	while (done < n) {
		size_t chunk = n - done < sizeof(zeros) ? n - done : sizeof(zeros);
		ssize_t r = uio_copy_out(u, zeros, chunk);

		if (r < 0)
			return done ? (ssize_t)done : r;
		done += (size_t)r;
		if ((size_t)r < chunk)
			break;
	}
	return (ssize_t)done;
}

static ssize_t kernel_copy(struct uio *u, void *buf, size_t n, int out)
{
	size_t done = 0;

	while (done < n) {
		char *at = (char *)(uintptr_t)u->seg->base + u->seg_done;
		size_t room = u->seg->len - u->seg_done;
		size_t chunk = n - done < room ? n - done : room;

		if (out)
			memcpy(at, (char *)buf + done, chunk);
		else
			memcpy((char *)buf + done, at, chunk);
		done += chunk;
		if (chunk == 0) { /* an empty segment */
			u->seg++;
			u->seg_count--;
			u->seg_done = 0;
			continue;
		}
		uio_advance(u, chunk);
	}
	return (ssize_t)done;
}

static ssize_t kernel_copy_out(struct uio *u, const void *src, size_t n)
{
	return kernel_copy(u, (void *)(uintptr_t)src, n, 1);
}

static ssize_t kernel_copy_in(struct uio *u, void *dst, size_t n)
{
	return kernel_copy(u, dst, n, 0);
}

static const struct uio_ops g_kernel_ops = {
	.copy_out = kernel_copy_out,
	.copy_in = kernel_copy_in,
};

void uio_init_kernel(struct uio *u, void *buf, size_t len)
{
	memset(u, 0, sizeof(*u));
	u->ops = &g_kernel_ops;
	u->one.base = (uint64_t)(uintptr_t)buf;
	u->one.len = len;
	u->seg = &u->one;
	u->seg_count = 1;
	u->left = len;
}
