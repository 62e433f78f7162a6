/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first task: made from the boot configuration by spawn.c. With hold=1 its program is looked for
 * at once, so that a mistake shows while the sandbox is made, but runs at the runtime's word.
 */
#include <errno.h>

#include "platform/base/phase.h"
#include "sentry/boot.h"
#include "sentry/container.h"
#include "sentry/spawn.h"
#include "sentry/task/task_priv.h"

static struct spawn g_spawn;

static int conf_fd(struct kernel *k, const char *key)
{
	uint64_t v;

	if (bootconf_get_u64(k->conf, key, UINT64_MAX, &v))
		boot_fail(k, BOOT_EXIT_SETUP, "configuration: bad %s", key);
	return (int)(int64_t)v;
}

struct task *boot_init_task(struct kernel *k)
{
	struct spawn *s = &g_spawn;
	struct task *t;

	s->k = k;
	s->c = k->main;
	s->conf = k->conf;
	s->stdio[0] = conf_fd(k, "stdin_fd");
	s->stdio[1] = conf_fd(k, "stdout_fd");
	s->stdio[2] = conf_fd(k, "stderr_fd");
	t = spawn_task(s);
	if (!t || spawn_link(s, t, 1))
		boot_fail(k, s->code, "%s", s->why);
	k->main->console = s->console;
	boot_sysctls(k->main, t);
	return t;
}

void *boot_init_main(void *arg)
{
	struct task *t = arg;
	struct kernel *k = t->k;
	struct spawn *s = &g_spawn;

	current = t;
	if (bootconf_get(k->conf, "hold")) {
		if (spawn_check(s, t))
			boot_fail(k, s->code, "%s", s->why);
		control_hold(k->main);
	}
	if (spawn_exec(s, t))
		boot_fail(k, s->code, "%s", s->why);
	phase_mark("program");
	phase_log();
	if (bootconf_get(k->conf, "hold"))
		control_started(k->main);
	return task_main(t);
}
