/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The console of an interactive sandbox: a pty of the guest's own, whose master side vfs/hostfd's
 * pump connects to the runtime's terminal.
 */
#include "vfs/hostfd/console.h"

#include "sentry/boot.h"
#include "vfs/dev/tty.h"

#define DRAIN_MS 500

static struct file *g_master;
static struct console *g_pump;

int boot_console(struct kernel *k, const struct vfs_ctx *ctx, int in_fd, int out_fd, uint16_t rows,
		 uint16_t cols, struct file **slave)
{
	struct file *master;
	int err = console_pty_new(ctx, rows, cols, &master, slave);

	if (err)
		return err;
	g_master = file_get(master); /* for resizing */
	err = console_start(k->vfs, ctx->cred, master, in_fd, out_fd, &g_pump);
	if (err) {
		file_put(g_master);
		file_put(*slave);
		g_master = NULL;
	}
	return err;
}

void console_resize(uint16_t rows, uint16_t cols)
{
	if (g_master)
		tty_resize(g_master, rows, cols);
}

void console_drain(void)
{
	if (g_pump)
		console_flush(g_pump, DRAIN_MS);
}
