/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The consoles of interactive processes: a pty of the guest's own each, whose master side
 * vfs/hostfd's pump connects to a terminal of the runtime's.
 */
#include "vfs/hostfd/console.h"

#include <errno.h>
#include <stdlib.h>

#include "sentry/boot.h"
#include "vfs/dev/tty.h"

#define DRAIN_MS 500

struct console_link {
	struct console *pump; /* [I] */
};

int console_open(struct kernel *k, const struct vfs_ctx *ctx, int in_fd, int out_fd, uint16_t rows,
		 uint16_t cols, struct file **slave, struct console_link **link)
{
	struct console_link *l = calloc(1, sizeof(*l));
	struct file *master;
	int err = l ? console_pty_new(ctx, rows, cols, &master, slave) : -ENOMEM;

	if (err) {
		free(l);
		return err;
	}
	err = console_start(k->vfs, ctx->cred, master, in_fd, out_fd, &l->pump);
	if (err) {
		file_put(*slave);
		free(l);
		return err;
	}
	*link = l;
	return 0;
}

void console_close(struct console_link *link)
{
	console_stop(link->pump);
	free(link);
}

void console_resize(struct console_link *link, uint16_t rows, uint16_t cols)
{
	struct file *master = link ? console_master(link->pump) : NULL;

	if (!master)
		return;
	tty_resize(master, rows, cols);
	file_put(master);
}

void console_drain(struct console_link *link)
{
	if (link)
		console_flush(link->pump, DRAIN_MS);
}
