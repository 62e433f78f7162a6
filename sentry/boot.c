/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Boot, in one ladder: isolation, memory, platform, filesystems, the first task, lockdown. Up to
 * the platform's start this is the process's only thread; after the lockdown no file, socket or
 * program can be opened any more. Then the first task gets its thread, and this one serves the
 * runtime.
 */
#include "sentry/boot.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "platform/base/log.h"
#include "platform/base/phase.h"
#include "platform/base/thread.h"
#include "platform/host/event.h"
#include "platform/host/memfile.h"
#include "sentry/container.h"
#include "sentry/ipc/ipc.h"
#include "sentry/isolate.h"
#include "sentry/loader/loader.h"
#include "sentry/loader/vdso_priv.h"
#include "sentry/syscall/syscall.h"
#include "sentry/task/task_priv.h"
#include "sentry/victim.h"

#define RELEASE_DEFAULT "6.12.0"

/* Other parts' starts; a part that is not linked is not there. */
int socket_layer_start(struct kernel *k) __attribute__((weak));
void proc_source_start(struct kernel *k) __attribute__((weak));
void tty_hooks_start(struct kernel *k) __attribute__((weak));
int timekeeper_start(struct kernel *k) __attribute__((weak));

static uint64_t conf_u64(struct kernel *k, const char *key, uint64_t dflt)
{
	uint64_t v;

	if (bootconf_get_u64(k->conf, key, dflt, &v))
		boot_fail(k, BOOT_EXIT_SETUP, "configuration: %s=%s is not a number", key,
			  bootconf_get(k->conf, key));
	return v;
}

static uint32_t host_cpus(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof(set), &set) == 0 ? (uint32_t)CPU_COUNT(&set) : 1;
}

static uint64_t host_memory(void)
{
	struct sysinfo si;

	return sysinfo(&si) == 0 ? (uint64_t)si.totalram * si.mem_unit : 1ull << 30;
}

static void read_settings(struct kernel *k)
{
	const char *release = bootconf_get(k->conf, "release");

	k->control_fd = (int)(int64_t)conf_u64(k, "control_fd", UINT64_MAX);
	k->cpu_count = (uint32_t)conf_u64(k, "cpus", host_cpus());
	if (k->cpu_count == 0 || k->cpu_count > 1024)
		k->cpu_count = host_cpus();
	k->memory_limit = conf_u64(k, "memory", 0);
	k->total_memory = k->memory_limit ? k->memory_limit : host_memory();
	k->strace = conf_u64(k, "strace", 0) != 0;
	k->boot_mono_ns = mono_now_ns();
	snprintf(k->release, sizeof(k->release), "%s", release ? release : RELEASE_DEFAULT);
}

/* "nopatch,...": ways to run with less, for tests and for finding faults. */
static uint32_t platform_flags(struct kernel *k)
{
	const char *list = bootconf_get(k->conf, "platform_flags");
	uint32_t flags = 0;

	while (list && *list) {
		size_t n = strcspn(list, ",");

		if (n == 7 && !strncmp(list, "nopatch", n))
			flags |= PLATFORM_NOPATCH;
		else if (n == 6 && !strncmp(list, "nostub", n))
			flags |= PLATFORM_NOSTUB;
		else if (n)
			log_warn("platform flag \"%.*s\" does not exist", (int)n, list);
		list += n + (list[n] == ',');
	}
	return flags;
}

static void start_platform(struct kernel *k)
{
	struct platform_options opt = {
		.name = bootconf_get(k->conf, "platform"),
		.memory_limit = k->memory_limit,
		.flags = platform_flags(k),
		.bring = syscall_bring_table(),
	};
	int err = memfile_start();

	if (err)
		boot_fail(k, BOOT_EXIT_SETUP, "no memory file: %s", strerror(-err));
	err = hostfd_watch_setup();
	if (err)
		boot_fail(k, BOOT_EXIT_SETUP, "host events: %s", strerror(-err));
	victim_begin();
	err = platform_start(&opt, &k->platform);
	victim_end();
	if (err)
		boot_fail(k, BOOT_EXIT_SETUP, "the platform can not start: %s", strerror(-err));
}

static void start_parts(struct kernel *k)
{
	int err = 0;

	if (tty_hooks_start)
		tty_hooks_start(k);
	if (proc_source_start)
		proc_source_start(k);
	if (timekeeper_start)
		err = timekeeper_start(k);
	k->init_ipc_ns = ipc_ns_new(k);
	if (!err && !k->init_ipc_ns)
		err = -ENOMEM;
	if (!err && socket_layer_start)
		err = socket_layer_start(k);
	if (!err)
		err = vdso_start(k);
	if (err)
		boot_fail(k, BOOT_EXIT_SETUP, "boot: %s", strerror(-err));
}

/* The container that is the sandbox's reason: in the initial namespaces. */
static void make_main(struct kernel *k)
{
	struct container *c = container_new(k);
	uint64_t gofer = conf_u64(k, "gofer_fd", UINT64_MAX);

	if (!c)
		boot_fail(k, BOOT_EXIT_SETUP, "out of memory");
	c->conf = k->conf;
	c->control_fd = k->control_fd;
	c->gofer_fd = gofer <= 65535 ? (int)gofer : -1;
	c->pids_limit = (uint32_t)conf_u64(k, "pids", 0);
	c->pid_ns = pid_ns_get(k->init_pid_ns);
	c->uts = uts_get(k->init_uts_ns);
	c->ipc = ipc_ns_get(k->init_ipc_ns);
	list_add_tail(&c->node, &k->containers);
	k->main = c;
	if (boot_mounts(c))
		boot_fail(k, c->code, "%s", c->why);
	k->init_mnt_ns = c->mnt_ns;
}

int kernel_boot(const struct bootconf *conf)
{
	struct kernel *k = calloc(1, sizeof(*k));
	const char *host = bootconf_get(conf, "hostname"), *dom = bootconf_get(conf, "domainname");
	struct task *init;
	int err;

	if (!k)
		return -ENOMEM;
	g_kernel = k;
	k->conf = conf;
	k->control_fd = -1;
	list_init(&k->groups);
	list_init(&k->containers);
	lock_init(&k->tasks_lock, RANK_TASKS);
	read_settings(k);
	kernel_start_clocks(k);
	vdso_clock_probe();
	victim_prepare();
	err = sentry_isolate(conf);
	if (err)
		boot_fail(k, BOOT_EXIT_SETUP, "the sentry can not isolate itself: %s", strerror(-err));
	phase_mark("isolated");
	start_platform(k);
	phase_mark("platform");
	k->vfs = vfs_new();
	k->init_uts_ns = uts_new(host ? host : "caisson", dom ? dom : "(none)");
	k->init_pid_ns = pid_ns_new(NULL);
	if (!k->vfs || !k->init_uts_ns || IS_ERR(k->init_pid_ns))
		boot_fail(k, BOOT_EXIT_SETUP, "out of memory");
	start_parts(k);
	phase_mark("parts");
	make_main(k);
	phase_mark("mounts");
	init = boot_init_task(k);
	phase_mark("task");
	err = sentry_lockdown();
	phase_mark("filter");
	if (err)
		boot_fail(k, BOOT_EXIT_SETUP, "the sentry's syscall filter: %s", strerror(-err));
	kernel_arm_timeout(k, conf_u64(k, "timeout_ms", 0));
	err = thread_start("task-1", boot_init_main, init);
	if (err)
		boot_fail(k, BOOT_EXIT_SETUP, "no thread for the first task: %s", strerror(-err));
	control_run(k->main);
	return 0;
}
