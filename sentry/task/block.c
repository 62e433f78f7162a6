/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sleeping and waking. A task sleeps on its own wake word, a futex: task_wake stores 1 and wakes,
 * the sleeper takes the 1 back. A wake that comes before the sleep leaves the 1 there, so it is
 * not lost; a stale 1 is a spurious wake, which every caller's loop takes in its stride.
 *
 * Work bits are set before the wake word, so a sleeper that was woken by task_kick sees them.
 */
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sentry/task/task_priv.h"

/* #hostcalls: futex */
static void futex_wake_word(uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1, NULL, NULL, 0);
}

/* Waits while *word is 0. -ETIMEDOUT, or 0 for anything else. */
static int futex_wait_word(uint32_t *word, uint64_t deadline_ns)
{
	struct timespec ts, *tp = NULL;

	if (deadline_ns != NO_DEADLINE) {
		ts.tv_sec = (time_t)(deadline_ns / 1000000000u);
		ts.tv_nsec = (long)(deadline_ns % 1000000000u);
		tp = &ts;
	}
	/* The bitset form takes an absolute CLOCK_MONOTONIC time. */
	if (syscall(SYS_futex, word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, 0, tp, NULL,
		    FUTEX_BITSET_MATCH_ANY) == 0)
		return 0;
	return errno == ETIMEDOUT ? -ETIMEDOUT : 0;
}

void task_wake(struct task *t)
{
	if (!__atomic_exchange_n(&t->wake_word, 1, __ATOMIC_SEQ_CST))
		futex_wake_word(&t->wake_word);
}

void task_kick(struct task *t, uint32_t work)
{
	__atomic_fetch_or(&t->work, work, __ATOMIC_SEQ_CST);
	task_wake(t);
	if (t == current)
		return;
	lock_acquire(&t->ctx_lock);
	if (t->ctx)
		context_interrupt(t->ctx);
	lock_release(&t->ctx_lock);
}

int task_waiter_wake(struct waiter *w, uint32_t events)
{
	(void)events;
	task_wake(w->priv);
	return 1;
}

int task_has_work(struct task *t)
{
	return (__atomic_load_n(&t->work, __ATOMIC_SEQ_CST) &
		(TASK_WORK_SIGNAL | TASK_WORK_EXIT | TASK_WORK_STOP)) != 0;
}

static int sleep_until(struct task *t, uint64_t deadline_ns, uint32_t interrupting)
{
	int err = 0;

	lock_assert_none_held();
	/* A failure is the call's own copy that another thread has taken the memory from. */
	if (t->copies)
		(void)user_copies_now(t);
	if (__atomic_exchange_n(&t->wake_word, 0, __ATOMIC_SEQ_CST))
		return 0;
	if (__atomic_load_n(&t->work, __ATOMIC_SEQ_CST) & interrupting)
		return -ERESTARTSYS;
	if (t->state == TASK_RUNNING)
		__atomic_store_n(&t->state, TASK_SLEEPING, __ATOMIC_RELAXED);
	t->ru.nvcsw++;
	err = futex_wait_word(&t->wake_word, deadline_ns);
	if (t->state == TASK_SLEEPING)
		__atomic_store_n(&t->state, TASK_RUNNING, __ATOMIC_RELAXED);
	if (__atomic_exchange_n(&t->wake_word, 0, __ATOMIC_SEQ_CST))
		err = 0;
	return err;
}

int task_sleep(struct task *t, uint64_t deadline_ns)
{
	return sleep_until(t, deadline_ns, TASK_WORK_SIGNAL | TASK_WORK_EXIT | TASK_WORK_STOP);
}

int task_sleep_killable(struct task *t, uint64_t deadline_ns)
{
	return sleep_until(t, deadline_ns, TASK_WORK_EXIT);
}

/* ---- waiting for a file ---- */

#define WAIT_QUEUES_MAX 4 /* no file's readiness hangs on more queues */

struct file_wait {
	struct poll_table pt;
	struct task *t;
	uint32_t events;
	size_t count;
	struct waiter w[WAIT_QUEUES_MAX];
};

static void file_wait_add(struct poll_table *pt, struct waitq *q)
{
	struct file_wait *fw = container_of(pt, struct file_wait, pt);

	if (fw->count == WAIT_QUEUES_MAX)
		return;
	struct waiter *w = &fw->w[fw->count++];

	waiter_init(w, fw->events | POLLERR | POLLHUP, task_waiter_wake, fw->t);
	waitq_add(q, w);
}

int task_wait_file(struct task *t, struct file *f, uint32_t events, uint64_t deadline_ns)
{
	struct file_wait fw = { .pt = { .add = file_wait_add }, .t = t, .events = events };
	int err = 0;

	if (file_poll(f, &fw.pt) & (events | POLLERR | POLLHUP))
		goto out;
	do {
		err = task_sleep(t, deadline_ns);
	} while (!err && !(file_poll(f, NULL) & (events | POLLERR | POLLHUP)));
out:
	for (size_t i = 0; i < fw.count; i++)
		waitq_del(&fw.w[i]);
	return err;
}
