/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of relay.h; the person's terminal is in raw mode meanwhile. */
#include "runtime/relay.h"

#include <errno.h>
#include <sys/ioctl.h>
#include <unistd.h>

void relay_poll(const struct relay *r, struct pollfd *p)
{
	p[0] = (struct pollfd){ .fd = r->master, .events = POLLIN };
	p[1] = (struct pollfd){ .fd = r->master < 0 || r->in_done ? -1 : 0, .events = POLLIN };
}

static void write_all(int fd, const char *buf, ssize_t n)
{
	while (n > 0) {
		ssize_t w = write(fd, buf, (size_t)n);

		if (w < 0 && errno == EINTR)
			continue;
		if (w < 0 && errno == EAGAIN) {
			struct pollfd p = { .fd = fd, .events = POLLOUT };

			poll(&p, 1, 1000);
			continue;
		}
		if (w <= 0)
			return;
		buf += w;
		n -= w;
	}
}

void relay_move(struct relay *r, const struct pollfd *p)
{
	char buf[4096];
	ssize_t n;

	if (r->master < 0)
		return;
	if (p[0].revents) {
		n = read(r->master, buf, sizeof(buf));
		if (n > 0) {
			write_all(1, buf, n);
		} else if (n == 0 || errno != EINTR) {
			close(r->master);
			r->master = -1;
			return;
		}
	}
	if (p[1].fd == 0 && p[1].revents) {
		n = read(0, buf, sizeof(buf));
		if (n > 0)
			write_all(r->master, buf, n);
		else if (n == 0 || errno != EINTR)
			r->in_done = 1;
	}
}

void relay_drain(struct relay *r)
{
	while (r->master >= 0) {
		struct pollfd p[2] = { { .fd = r->master, .events = POLLIN }, { .fd = -1 } };

		if (poll(p, 1, 0) <= 0 || !(p[0].revents & POLLIN))
			return;
		relay_move(r, p);
	}
}

void relay_resize(const struct relay *r)
{
	struct winsize ws;

	if (r->master >= 0 && ioctl(0, TIOCGWINSZ, &ws) == 0)
		ioctl(r->master, TIOCSWINSZ, &ws);
}
