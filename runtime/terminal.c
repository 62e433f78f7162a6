/* SPDX-License-Identifier: Apache-2.0 */
/* Terminal modes of terminal.h. */
#include "runtime/terminal.h"

#include <sys/ioctl.h>
#include <termios.h>

static struct termios g_saved;
static int g_fd = -1;

void terminal_raw(int fd)
{
	struct termios raw;

	if (tcgetattr(fd, &g_saved) != 0)
		return;
	raw = g_saved;
	cfmakeraw(&raw);
	if (tcsetattr(fd, TCSANOW, &raw) == 0)
		g_fd = fd;
}

void terminal_restore(void)
{
	if (g_fd >= 0)
		tcsetattr(g_fd, TCSADRAIN, &g_saved);
	g_fd = -1;
}

void terminal_size(int fd, unsigned *rows, unsigned *cols)
{
	struct winsize ws;

	*rows = 24;
	*cols = 80;
	if (ioctl(fd, TIOCGWINSZ, &ws) == 0 && ws.ws_row && ws.ws_col) {
		*rows = ws.ws_row;
		*cols = ws.ws_col;
	}
}
