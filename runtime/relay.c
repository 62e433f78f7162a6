/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of relay.h; the person's terminal is in raw mode meanwhile. */
#include "runtime/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define TTY_CHUNK 256u	/* POLLOUT of a terminal promises this much */
#define PIPE_CHUNK 4096u
#define DRAIN_MS 500

int relay_pty(int *slave, unsigned rows, unsigned cols)
{
	struct winsize ws = { .ws_row = (unsigned short)rows, .ws_col = (unsigned short)cols };
	int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), unlock = 0;
	struct termios t;

	if (master < 0)
		return -1;
	*slave = ioctl(master, TIOCSPTLCK, &unlock) ? -1 :
						      ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (*slave < 0) {
		close(master);
		return -1;
	}
	if (tcgetattr(*slave, &t) == 0) {
		cfmakeraw(&t);
		tcsetattr(*slave, TCSANOW, &t);
	}
	if (rows && cols)
		ioctl(master, TIOCSWINSZ, &ws);
	return master;
}

static void hang_up(struct relay *r)
{
	if (r->master >= 0)
		close(r->master);
	r->master = -1;
	r->in.len = 0;
}

void relay_poll(const struct relay *r, struct pollfd *p)
{
	int up = r->master >= 0;
	short events = (short)((r->out.len ? 0 : POLLIN) | (r->in.len ? POLLOUT : 0));

	p[0] = (struct pollfd){ .fd = up && events ? r->master : -1, .events = events };
	p[1] = (struct pollfd){ .fd = up && !r->in.len ? 0 : -1, .events = POLLIN };
	p[2] = (struct pollfd){ .fd = r->out.len ? 1 : -1, .events = POLLOUT };
}

/* 0, or -1 at the end. */
static int fill(struct relay_bytes *b, int fd)
{
	ssize_t n = read(fd, b->buf, sizeof(b->buf));

	if (n <= 0)
		return n < 0 && (errno == EINTR || errno == EAGAIN) ? 0 : -1;
	b->len = (size_t)n;
	b->off = 0;
	return 0;
}

static int drain(struct relay_bytes *b, int fd, size_t most)
{
	ssize_t n = write(fd, b->buf + b->off, b->len < most ? b->len : most);

	if (n < 0)
		return errno == EINTR || errno == EAGAIN ? 0 : -1;
	b->off += (size_t)n;
	b->len -= (size_t)n;
	return 0;
}

void relay_move(struct relay *r, const struct pollfd *p)
{
	if (!r->chunk) {
		r->chunk = isatty(1) ? TTY_CHUNK : PIPE_CHUNK;
		if (r->master >= 0)
			fcntl(r->master, F_SETFL, O_RDWR | O_NONBLOCK);
	}
	if (p[2].revents && r->out.len && drain(&r->out, 1, r->chunk)) {
		r->out.len = 0; /* nobody will ever see it */
		hang_up(r);
	}
	if (r->master >= 0 && p[0].revents & POLLOUT && r->in.len && drain(&r->in, r->master, TTY_CHUNK))
		hang_up(r);
	if (r->master >= 0 && p[0].revents & (POLLIN | POLLHUP | POLLERR) && !r->out.len &&
	    fill(&r->out, r->master))
		hang_up(r);
	if (r->master >= 0 && p[1].revents && !r->in.len && fill(&r->in, 0))
		hang_up(r);
}

void relay_drain(struct relay *r)
{
	struct pollfd p[RELAY_POLLS];

	for (;;) {
		relay_poll(r, p);
		p[1].fd = -1;
		p[0].events &= POLLIN;
		if ((p[0].fd < 0 && p[2].fd < 0) || poll(p, RELAY_POLLS, r->out.len ? DRAIN_MS : 0) <= 0)
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
