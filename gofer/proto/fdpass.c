/* SPDX-License-Identifier: Apache-2.0 */
/* SCM_RIGHTS behind fdpass.h. */
#include "gofer/proto/fdpass.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* #hostcalls: sendmsg */
int fdpass_send(int sock, const struct iovec *iov, size_t iov_count, int fd)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(int))];
	} ctl;
	struct msghdr m = { .msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = iov_count };

	if (fd >= 0) {
		memset(&ctl, 0, sizeof(ctl));
		m.msg_control = ctl.buf;
		m.msg_controllen = sizeof(ctl.buf);
		struct cmsghdr *c = CMSG_FIRSTHDR(&m);

		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(int));
	}
	for (;;) {
		if (sendmsg(sock, &m, MSG_NOSIGNAL) >= 0)
			return 0;
		if (errno != EINTR)
			return -errno;
	}
}

/* #hostcalls: recvmsg close */
ssize_t fdpass_recv(int sock, void *buf, size_t size, int *fd)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(2 * sizeof(int))]; /* two, so that a second one is noticed */
	} ctl;
	struct iovec iov = { buf, size };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	int got[2], count = 0, odd = 0;
	ssize_t n;

	if (fd) {
		*fd = -1;
		m.msg_control = ctl.buf;
		m.msg_controllen = sizeof(ctl.buf);
	}
	do {
		n = recvmsg(sock, &m, MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) {
			odd = 1;
			continue;
		}
		size_t k = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		for (size_t i = 0; i < k && count < 2; i++)
			memcpy(&got[count++], CMSG_DATA(c) + i * sizeof(int), sizeof(int));
	}
	if (odd || count > 1 || (m.msg_flags & (MSG_CTRUNC | MSG_TRUNC))) {
		for (int i = 0; i < count; i++)
			close(got[i]);
		return m.msg_flags & MSG_TRUNC ? -EMSGSIZE : -EPROTO;
	}
	if (count)
		*fd = got[0];
	return n;
}
