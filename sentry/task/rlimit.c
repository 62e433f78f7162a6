/* SPDX-License-Identifier: Apache-2.0 */
/* Resource limits of processes: defaults at boot and reading them. Setting is sys_rlimit.c. */
#include "sentry/task/task_priv.h"

uint64_t rlimit_cur(struct task *t, int which)
{
	struct thread_group *tg = t->tg;
	uint64_t v;

	lock_acquire(&tg->rlimit_lock);
	v = tg->rlimits[which].rlim_cur;
	lock_release(&tg->rlimit_lock);
	return v;
}

/* Linux's INIT_RLIMITS, with the open-file and lock limits current distributions boot with. */
void rlimits_default(struct rlimit *r)
{
	for (int i = 0; i < RLIM_NLIMITS; i++)
		r[i].rlim_cur = r[i].rlim_max = RLIM_INFINITY;
	r[RLIMIT_STACK].rlim_cur = 8u << 20;
	r[RLIMIT_CORE].rlim_cur = 0;
	r[RLIMIT_NOFILE].rlim_cur = 1024;
	r[RLIMIT_NOFILE].rlim_max = 1048576;
	r[RLIMIT_MEMLOCK].rlim_cur = r[RLIMIT_MEMLOCK].rlim_max = 8u << 20;
	r[RLIMIT_SIGPENDING].rlim_cur = r[RLIMIT_SIGPENDING].rlim_max = 31000;
	r[RLIMIT_MSGQUEUE].rlim_cur = r[RLIMIT_MSGQUEUE].rlim_max = 819200;
	r[RLIMIT_NICE].rlim_cur = r[RLIMIT_NICE].rlim_max = 0;
	r[RLIMIT_RTPRIO].rlim_cur = r[RLIMIT_RTPRIO].rlim_max = 0;
}
