/* SPDX-License-Identifier: Apache-2.0 */
/* Both ends of the control socket of client.h. */
#include "runtime/client.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* Through the directory's fd: the path below --root may be longer than a socket address. */
static void address(struct sockaddr_un *a, int dir)
{
	memset(a, 0, sizeof(*a));
	a->sun_family = AF_UNIX;
	snprintf(a->sun_path, sizeof(a->sun_path), "/proc/self/fd/%d/" CONTROL_SOCKET, dir);
}

int client_listen(int state_dir)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct sockaddr_un a;

	if (fd < 0)
		return -errno;
	address(&a, state_dir);
	unlinkat(state_dir, CONTROL_SOCKET, 0);
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) != 0 ||
	    fchmodat(state_dir, CONTROL_SOCKET, 0600, 0) != 0 || listen(fd, 64) != 0) {
		int err = -errno;

		close(fd);
		return err;
	}
	return fd;
}

int client_connect(int state_dir)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct sockaddr_un a;

	if (fd < 0)
		return -errno;
	address(&a, state_dir);
	if (connect(fd, (struct sockaddr *)&a, sizeof(a)) != 0) {
		int err = -errno;

		close(fd);
		return err;
	}
	return fd;
}

int client_send(int conn, const struct bootconf *m, const int *fds, int fd_count)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(CLIENT_FDS_MAX * sizeof(int))];
	} control = { 0 };
	struct iovec iov = { m->data, m->size };
	struct msghdr h = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (m->size > CLIENT_MESSAGE_MAX || fd_count > CLIENT_FDS_MAX)
		return -E2BIG;
	if (fd_count) {
		h.msg_control = control.buf;
		h.msg_controllen = CMSG_SPACE((size_t)fd_count * sizeof(int));
		struct cmsghdr *c = CMSG_FIRSTHDR(&h);

		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN((size_t)fd_count * sizeof(int));
		memcpy(CMSG_DATA(c), fds, (size_t)fd_count * sizeof(int));
	}
	ssize_t n;

	do
		n = sendmsg(conn, &h, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

int client_receive_fds(int conn, char *buf, struct bootconf *m, int *fds, int *fd_count)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(CLIENT_FDS_MAX * sizeof(int))];
	} control;
	struct iovec iov = { buf, CLIENT_MESSAGE_MAX };
	struct msghdr h = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.buf,
			    .msg_controllen = sizeof(control.buf) };
	ssize_t n;

	*fd_count = 0;
	do
		n = recvmsg(conn, &h, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return n < 0 ? -errno : 0;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&h); c; c = CMSG_NXTHDR(&h, c))
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
			*fd_count = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
			memcpy(fds, CMSG_DATA(c), (size_t)*fd_count * sizeof(int));
		}
	if (buf[n - 1] != '\0' || (h.msg_flags & MSG_TRUNC)) {
		for (int i = 0; i < *fd_count; i++)
			close(fds[i]);
		*fd_count = 0;
		return -EBADMSG;
	}
	*m = (struct bootconf){ .data = buf, .size = (size_t)n, .cap = CLIENT_MESSAGE_MAX };
	return 1;
}

int client_receive(int conn, char *buf, struct bootconf *m, int ms)
{
	struct pollfd p = { .fd = conn, .events = POLLIN };
	int fds[CLIENT_FDS_MAX], count;
	int r;

	do
		r = poll(&p, 1, ms);
	while (r < 0 && errno == EINTR);
	if (r == 0)
		return -ETIMEDOUT;
	r = client_receive_fds(conn, buf, m, fds, &count);
	for (int i = 0; i < count; i++)
		close(fds[i]);
	return r;
}

int client_ask(int state_dir, const char *cmd, const char *key, const char *value, char *buf,
	       struct bootconf *answer, int ms)
{
	int conn = client_connect(state_dir), r;
	struct bootconf m;

	if (conn < 0)
		return conn;
	bootconf_init(&m);
	r = bootconf_add(&m, "cmd", cmd);
	if (!r && key)
		r = bootconf_add(&m, key, value);
	if (!r)
		r = client_send(conn, &m, NULL, 0);
	bootconf_free(&m);
	if (!r)
		r = client_receive(conn, buf, answer, ms);
	close(conn);
	return r;
}
