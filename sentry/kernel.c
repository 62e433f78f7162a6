/* SPDX-License-Identifier: Apache-2.0 */
/* The end of the sandbox: how it ended is reported once, and everything goes. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "platform/base/ktimer.h"
#include "platform/base/log.h"
#include "platform/base/phase.h"
#include "platform/base/thread.h"
#include "sentry/boot.h"
#include "sentry/container.h"
#include "sentry/task/task_priv.h"

struct kernel *g_kernel;
static struct ktimer g_timeout;

void kernel_start_clocks(struct kernel *k)
{
	k->boot_mono_ns = mono_now_ns();
}

static void timeout_fires(struct ktimer *tm)
{
	struct kernel *k = tm->priv;

	kernel_exit(k, "timeout", SIGKILL);
}

void kernel_arm_timeout(struct kernel *k, uint64_t timeout_ms)
{
	if (!timeout_ms)
		return;
	ktimer_init(&g_timeout, timeout_fires, k);
	ktimer_arm(&g_timeout, k->boot_mono_ns + timeout_ms * 1000000u);
}

static void report(struct kernel *k, struct bootconf *m)
{
	if (k->control_fd >= 0 &&
	    control_send(k->control_fd, m, 0) != (ssize_t)m->size)
		log_warn("the result could not be reported: %s", strerror(errno));
}

/* Only the first caller goes on; the process ends under the others. #hostcalls: futex */
static void once(void)
{
	static int ended;

	while (__atomic_exchange_n(&ended, 1, __ATOMIC_SEQ_CST))
		thread_nap(UINT64_MAX);
}

static uint64_t timeval_ms(const struct timeval *tv)
{
	return (uint64_t)tv->tv_sec * 1000 + (uint64_t)tv->tv_usec / 1000;
}

/* #hostcalls: getrusage exit_group */
void kernel_exit(struct kernel *k, const char *reason, int wait_status)
{
	struct rusage self, stubs;
	struct bootconf m;
	int sig = WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : 0;

	once();
	phase_mark("exit");
	if (k->main)
		console_drain(k->main->console);
	platform_stop(k->platform);
	phase_mark("stopped");
	phase_log();
	getrusage(RUSAGE_SELF, &self);
	getrusage(RUSAGE_CHILDREN, &stubs);
	bootconf_init(&m);
	bootconf_add(&m, "reason", reason);
	if (sig)
		bootconf_add_u64(&m, "signal", (uint64_t)sig);
	else
		bootconf_add_u64(&m, "exit_code", (uint64_t)WEXITSTATUS(wait_status));
	bootconf_add_u64(&m, "wall_ms", (mono_now_ns() - k->boot_mono_ns) / 1000000u);
	bootconf_add_u64(&m, "cpu_ms", timeval_ms(&self.ru_utime) + timeval_ms(&self.ru_stime) +
					       timeval_ms(&stubs.ru_utime) +
					       timeval_ms(&stubs.ru_stime));
	bootconf_add_u64(&m, "peak_memory_kb", (uint64_t)(self.ru_maxrss + stubs.ru_maxrss));
	report(k, &m);
	_exit(0);
}

void boot_fail(struct kernel *k, int exit_code, const char *fmt, ...)
{
	struct bootconf m;
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	once();
	/* The runtime says it to the user; twice is once too often. */
	log_at(k->control_fd >= 0 ? LOG_INFO : LOG_ERROR, "%s", text);
	if (k->platform)
		platform_stop(k->platform);
	bootconf_init(&m);
	bootconf_add(&m, "reason", "setup-error");
	bootconf_add_u64(&m, "exit_code", (uint64_t)exit_code);
	bootconf_add(&m, "message", text);
	bootconf_add_u64(&m, "wall_ms", (mono_now_ns() - k->boot_mono_ns) / 1000000u);
	report(k, &m);
	_exit(exit_code);
}
