/* SPDX-License-Identifier: Apache-2.0 */
/* The table of actions, shared by CLONE_SIGHAND; sigaction's effects, and what exec keeps. */
#include <stdlib.h>
#include <string.h>

#include "platform/abi/sigframe.h"
#include "sentry/signal/signal_priv.h"

struct sighand *sighand_new(void)
{
	struct sighand *sh = calloc(1, sizeof(*sh));

	if (sh)
		ref_init(&sh->ref);
	return sh;
}

struct sighand *sighand_dup(struct sighand *sh, struct kernel *k)
{
	struct sighand *n = sighand_new();

	if (!n)
		return NULL;
	lock_acquire(&k->tasks_lock);
	memcpy(n->action, sh->action, sizeof(n->action));
	lock_release(&k->tasks_lock);
	return n;
}

void sighand_put(struct sighand *sh)
{
	if (sh && ref_put(&sh->ref))
		free(sh);
}

/* Caught signals go back to the default, ignored ones stay ignored (flush_signal_handlers). */
void signal_exec(struct task *t)
{
	struct kernel *k = t->k;
	struct sighand *old = t->sighand, *n = NULL;

	/* Shared beyond the thread group (CLONE_SIGHAND without CLONE_THREAD): gets its own. */
	if (ref_read(&old->ref) > 1)
		n = sighand_dup(old, k);
	lock_acquire(&k->tasks_lock);
	if (n) {
		t->sighand = n;
		sighand_put(old);
	}
	for (int i = 0; i < LINUX_NSIG; i++) {
		struct linux_sigaction *sa = &t->sighand->action[i];

		if (sa->handler != LINUX_SIG_IGN)
			sa->handler = LINUX_SIG_DFL;
		sa->flags = 0;
		sa->mask = 0;
		sa->restorer = 0;
	}
	t->altstack.ss_sp = NULL;
	t->altstack.ss_size = 0;
	t->restore_mask = 0;
	lock_release(&k->tasks_lock);
}

/* The new action makes signals of this number unwanted: those already queued go. */
static void drop_ignored(struct task *t, int signo)
{
	struct linux_sigaction *sa = &t->sighand->action[signo - 1];
	struct task *i;

	if (sa->handler != LINUX_SIG_IGN &&
	    !(sa->handler == LINUX_SIG_DFL && (SIGBIT(signo) & SIG_IGNORE_MASK)))
		return;
	sigpending_remove(t->k, &t->tg->pending, SIGBIT(signo));
	list_for_each(i, &t->tg->tasks, tg_node) {
		sigpending_remove(t->k, &i->pending, SIGBIT(signo));
		signal_recalc_locked(i);
	}
}

#define SA_KNOWN_FLAGS                                                                             \
	(SA_NOCLDSTOP | SA_NOCLDWAIT | SA_SIGINFO | SA_ONSTACK | SA_RESTART | SA_NODEFER |         \
	 SA_RESETHAND | LINUX_SA_RESTORER | 0x800u /* SA_EXPOSE_TAGBITS */)

int signal_set_action(struct task *t, int signo, const struct linux_sigaction *new_action,
		      struct linux_sigaction *old)
{
	if (signo < 1 || signo > LINUX_NSIG ||
	    (new_action && (SIGBIT(signo) & SIG_KERNEL_ONLY_MASK)))
		return -EINVAL;
	lock_acquire(&t->k->tasks_lock);
	struct linux_sigaction *sa = &t->sighand->action[signo - 1];

	if (old)
		*old = *sa;
	if (new_action) {
		*sa = *new_action;
		/* Unknown bits do not stick, so that programs can probe (SA_UNSUPPORTED). */
		sa->flags = (uint32_t)sa->flags & (uint32_t)SA_KNOWN_FLAGS;
		sa->mask &= ~SIG_KERNEL_ONLY_MASK;
		drop_ignored(t, signo);
	}
	lock_release(&t->k->tasks_lock);
	return 0;
}

/* ---- the alternate stack ---- */

static int on_altstack_range(const struct task *t, uint64_t sp)
{
	uint64_t base = (uint64_t)(uintptr_t)t->altstack.ss_sp;

	return sp > base && sp - base <= t->altstack.ss_size;
}

int altstack_contains(const struct task *t, uint64_t sp)
{
	return on_altstack_range(t, sp);
}

int altstack_state(const struct task *t, uint64_t sp)
{
	if (!t->altstack.ss_size)
		return SS_DISABLE;
	/* With autodisarm the stack was taken away when the handler was entered. */
	if ((uint32_t)t->altstack.ss_flags & LINUX_SS_AUTODISARM)
		return 0;
	return on_altstack_range(t, sp) ? SS_ONSTACK : 0;
}

void altstack_reset(struct task *t)
{
	t->altstack.ss_sp = NULL;
	t->altstack.ss_size = 0;
	t->altstack.ss_flags = SS_DISABLE;
}

int altstack_set(struct task *t, const stack_t *ss, uint64_t sp, uint64_t min_size)
{
	uint32_t mode = (uint32_t)ss->ss_flags & ~LINUX_SS_AUTODISARM;
	void *base = ss->ss_sp;
	size_t size = ss->ss_size;

	if (altstack_state(t, sp) == SS_ONSTACK)
		return -EPERM;
	if (mode != SS_DISABLE && mode != SS_ONSTACK && mode != 0)
		return -EINVAL;
	if (base == t->altstack.ss_sp && size == t->altstack.ss_size &&
	    ss->ss_flags == t->altstack.ss_flags)
		return 0;
	if (mode == SS_DISABLE) {
		base = NULL;
		size = 0;
	} else if (size < min_size) {
		return -ENOMEM;
	}
	t->altstack.ss_sp = base;
	t->altstack.ss_size = size;
	t->altstack.ss_flags = ss->ss_flags;
	return 0;
}
