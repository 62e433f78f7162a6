/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kernel with one process of a few threads, for tests of signals, timers and futexes: the
 * structures are made by hand, no guest runs, host threads are the test's own.
 */
#ifndef CAISSON_TASK_FIXTURE_H
#define CAISSON_TASK_FIXTURE_H

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "sentry/mm/mm.h"
#include "sentry/signal/signal_priv.h"
#include "sentry/task/task.h"
#include "sentry/time/timers.h"

#define FIX_THREADS 3
#define FIX_PAGE    0x200000ull /* four writable pages of guest memory */

struct fixture {
	struct kernel k;
	struct pid_ns ns;
	struct thread_group tg;
	struct task t[FIX_THREADS];
	struct pid *pid[FIX_THREADS];
	struct cred *cred;
	struct context *ctx;
};

static struct pid *fix_pid(struct fixture *f, int nr)
{
	struct pid *p = calloc(1, sizeof(*p) + sizeof(p->numbers[0]));

	ref_init(&p->ref);
	list_init(&p->pgrp_members);
	list_init(&p->session_members);
	waitq_init(&p->exit_wait);
	p->numbers[0].nr = nr;
	p->numbers[0].ns = &f->ns;
	return p;
}

static void fix_task(struct fixture *f, int i)
{
	struct task *t = &f->t[i];

	ref_init(&t->ref);
	t->k = &f->k;
	t->tg = &f->tg;
	t->pid = f->pid[i] = fix_pid(f, 100 + i);
	t->pid_ns = &f->ns;
	t->pid->task = t;
	t->cred = f->cred;
	lock_init(&t->ctx_lock, RANK_NONE);
	sigpending_init(&t->pending);
	waitq_init(&t->signalfd_wait);
	list_add_tail(&t->tg_node, &f->tg.tasks);
}

static inline struct fixture *fix_new(void)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct sighand *sh = sighand_new();

	g_kernel = &f->k;
	lock_init(&f->k.tasks_lock, RANK_TASKS);
	list_init(&f->k.groups);
	f->k.cpu_count = 2;
	f->cred = cred_new(1000, 1000, 0);
	ref_init(&f->tg.ref);
	f->tg.k = &f->k;
	list_init(&f->tg.tasks);
	list_init(&f->tg.children);
	list_init(&f->tg.node);
	list_init(&f->tg.sibling);
	waitq_init(&f->tg.child_wait);
	sigpending_init(&f->tg.pending);
	lock_init(&f->tg.rlimit_lock, RANK_LEAF);
	for (int i = 0; i < RLIM_NLIMITS; i++)
		f->tg.rlimits[i].rlim_cur = f->tg.rlimits[i].rlim_max = RLIM_INFINITY;
	f->tg.rlimits[RLIMIT_SIGPENDING].rlim_cur = 100;
	for (int i = 0; i < FIX_THREADS; i++) {
		fix_task(f, i);
		f->t[i].sighand = sh;
		f->tg.task_count++;
	}
	f->tg.leader = &f->t[0];
	f->tg.pid = f->pid[0];
	f->tg.pid->tg = &f->tg;
	f->tg.pgrp = f->tg.session = f->pid[0];
	list_add(&f->tg.pgrp_node, &f->pid[0]->pgrp_members);
	timers_group_init(&f->tg);
	current = &f->t[0];
	return f;
}

/* Guest memory on the fake platform; all threads share the first context. */
static inline void fix_memory(struct fixture *f)
{
	struct platform_options opt = { .name = "fake" };
	struct addrspace *as;
	struct mm *mm;

	ck_assert_int_eq(platform_start(&opt, &f->k.platform), 0);
	ck_assert_int_eq(addrspace_new(f->k.platform, &as, &f->ctx), 0);
	mm = mm_new(&f->k, as);
	ck_assert(mm && !IS_ERR(mm));
	for (int i = 0; i < FIX_THREADS; i++) {
		f->t[i].mm = mm;
		f->t[i].ctx = f->ctx;
	}
	ck_assert_int_eq(mm_map_in(mm, f->ctx, FIX_PAGE, 4 * 4096, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, NULL, 0, NULL, 0),
			 (int64_t)FIX_PAGE);
}

static inline void fix_action(struct fixture *f, int signo, uint64_t handler, uint64_t flags)
{
	f->t[0].sighand->action[signo - 1] = (struct linux_sigaction){
		.handler = handler, .flags = flags | LINUX_SA_RESTORER, .restorer = 0x777000
	};
}

static inline siginfo_t fix_info(int signo, int code, int value)
{
	siginfo_t si;

	memset(&si, 0, sizeof(si));
	si.si_signo = signo;
	si.si_code = code;
	si.si_pid = 55;
	si.si_value.sival_int = value;
	return si;
}

#endif
