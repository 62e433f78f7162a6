/* SPDX-License-Identifier: Apache-2.0 */
/* prctl(2): a table of options. Options of other architectures and of features that are configured
 * out give EINVAL, as Linux does. */
#include <linux/prctl.h>
#include <linux/securebits.h>
#include <stdlib.h>
#include <string.h>

#include "platform/base/log.h"
#include "sentry/mm/mm.h"
#include "sentry/signal/signal.h"
#include "sentry/syscall/syscall.h"
#include "sentry/task/rusage.h"

#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#define PR_GET_MDWE 66
#define PR_MDWE_REFUSE_EXEC_GAIN 1
#endif
#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif
#ifndef PR_GET_AUXV
#define PR_GET_AUXV 0x41555856
#endif
#ifndef PR_SET_MEMORY_MERGE
#define PR_SET_MEMORY_MERGE 67
#define PR_GET_MEMORY_MERGE 68
#endif
#define PR_TIMING_STATISTICAL_MODE PR_TIMING_STATISTICAL
#define VMA_NAME_MAX 80

/* seccomp: PR_GET_SECCOMP, PR_SET_SECCOMP; weak, the seccomp part has them. */
long seccomp_prctl_get(struct task *t) __attribute__((weak));
long seccomp_prctl_set(struct task *t, uint64_t mode, uint64_t filter) __attribute__((weak));

typedef long (*prctl_fn)(struct task *t, const uint64_t *v);

static int rest_zero(const uint64_t *v, int from)
{
	for (int i = from; i < 5; i++)
		if (v[i])
			return 0;
	return 1;
}

static long set_pdeathsig(struct task *t, const uint64_t *v)
{
	if (v[1] > LINUX_NSIG)
		return -EINVAL;
	t->pdeath_signal = (int)v[1];
	return 0;
}

static long get_pdeathsig(struct task *t, const uint64_t *v)
{
	return put_user_u32(t, v[1], (uint32_t)t->pdeath_signal);
}

static long get_dumpable(struct task *t, const uint64_t *v)
{
	(void)v;
	return __atomic_load_n(&t->mm->dumpable, __ATOMIC_RELAXED);
}

static long set_dumpable(struct task *t, const uint64_t *v)
{
	if (v[1] > 1)
		return -EINVAL;
	__atomic_store_n(&t->mm->dumpable, (int)v[1], __ATOMIC_RELAXED);
	return 0;
}

static long get_keepcaps(struct task *t, const uint64_t *v)
{
	(void)v;
	return t->keep_caps;
}

static long set_keepcaps(struct task *t, const uint64_t *v)
{
	if (v[1] > 1)
		return -EINVAL;
	if (task_cred(t)->securebits & (1u << SECURE_KEEP_CAPS_LOCKED))
		return -EPERM;
	t->keep_caps = (int)v[1];
	return 0;
}

static long get_timing(struct task *t, const uint64_t *v)
{
	(void)t;
	(void)v;
	return PR_TIMING_STATISTICAL_MODE;
}

static long set_timing(struct task *t, const uint64_t *v)
{
	(void)t;
	return v[1] == PR_TIMING_STATISTICAL_MODE ? 0 : -EINVAL;
}

static long set_name(struct task *t, const uint64_t *v)
{
	char name[16] = { 0 };
	ssize_t n = copy_string_from_user(t, name, sizeof(name), v[1]);

	/* Longer names are cut. */
	if (n == -ENAMETOOLONG)
		n = copy_from_user(t, name, v[1], sizeof(name) - 1);
	if (n < 0)
		return -EFAULT;
	name[15] = '\0';
	lock_acquire(&t->k->tasks_lock);
	memcpy(t->comm, name, sizeof(name));
	lock_release(&t->k->tasks_lock);
	return 0;
}

static long get_name(struct task *t, const uint64_t *v)
{
	return copy_to_user(t, v[1], t->comm, sizeof(t->comm));
}

static long get_tsc(struct task *t, const uint64_t *v)
{
	return put_user_u32(t, v[1], PR_TSC_ENABLE);
}

static long set_tsc(struct task *t, const uint64_t *v)
{
	(void)t;
	return v[1] == PR_TSC_ENABLE ? 0 : -EINVAL; /* trapping rdtsc is not available */
}

static long get_securebits(struct task *t, const uint64_t *v)
{
	(void)v;
	return (long)(task_cred(t)->securebits | (t->keep_caps ? 1u << SECURE_KEEP_CAPS : 0));
}

static long set_securebits(struct task *t, const uint64_t *v)
{
	const struct cred *old = task_cred(t);
	uint32_t locks = old->securebits & SECURE_ALL_LOCKS;
	struct cred *c;

	if (v[1] & ~(uint64_t)(SECURE_ALL_LOCKS | SECURE_ALL_BITS))
		return -EPERM;
	/* Locked bits, and locks themselves, stay. */
	if (((old->securebits & SECURE_ALL_LOCKS) & ~v[1]) ||
	    ((locks >> 1) & ((uint32_t)v[1] ^ old->securebits)))
		return -EPERM;
	if (!cred_has_cap(old, CAP_SETPCAP))
		return -EPERM;
	c = cred_dup(old);
	if (!c)
		return -ENOMEM;
	c->securebits = (uint32_t)v[1] & ~(1u << SECURE_KEEP_CAPS);
	t->keep_caps = (v[1] >> SECURE_KEEP_CAPS) & 1;
	task_set_cred(t, c);
	return 0;
}

static long capbset_read(struct task *t, const uint64_t *v)
{
	if (v[1] > CAP_LAST_CAP)
		return -EINVAL;
	return (long)(task_cred(t)->cap_bounding >> v[1] & 1);
}

static long capbset_drop(struct task *t, const uint64_t *v)
{
	struct cred *c;

	if (!cred_has_cap(task_cred(t), CAP_SETPCAP))
		return -EPERM;
	if (v[1] > CAP_LAST_CAP)
		return -EINVAL;
	c = cred_dup(task_cred(t));
	if (!c)
		return -ENOMEM;
	c->cap_bounding &= ~CAP_BIT(v[1]);
	task_set_cred(t, c);
	return 0;
}

static long cap_ambient(struct task *t, const uint64_t *v)
{
	const struct cred *old = task_cred(t);
	struct cred *c;

	if (v[1] == PR_CAP_AMBIENT_CLEAR_ALL) {
		if (!rest_zero(v, 2))
			return -EINVAL;
		c = cred_dup(old);
		if (!c)
			return -ENOMEM;
		c->cap_ambient = 0;
		task_set_cred(t, c);
		return 0;
	}
	if (!rest_zero(v, 3) || v[2] > CAP_LAST_CAP)
		return -EINVAL;
	if (v[1] == PR_CAP_AMBIENT_IS_SET)
		return (long)(old->cap_ambient >> v[2] & 1);
	if (v[1] != PR_CAP_AMBIENT_RAISE && v[1] != PR_CAP_AMBIENT_LOWER)
		return -EINVAL;
	if (v[1] == PR_CAP_AMBIENT_RAISE &&
	    (!(old->cap_permitted & old->cap_inheritable & CAP_BIT(v[2])) ||
	     (old->securebits & (1u << SECURE_NO_CAP_AMBIENT_RAISE))))
		return -EPERM;
	c = cred_dup(old);
	if (!c)
		return -ENOMEM;
	if (v[1] == PR_CAP_AMBIENT_RAISE)
		c->cap_ambient |= CAP_BIT(v[2]);
	else
		c->cap_ambient &= ~CAP_BIT(v[2]);
	task_set_cred(t, c);
	return 0;
}

static long set_timerslack(struct task *t, const uint64_t *v)
{
	t->timer_slack_ns = (int64_t)v[1] <= 0 ? 50000 : v[1];
	return 0;
}

static long get_timerslack(struct task *t, const uint64_t *v)
{
	(void)v;
	return (long)t->timer_slack_ns;
}

static long set_subreaper(struct task *t, const uint64_t *v)
{
	lock_acquire(&t->k->tasks_lock);
	t->tg->child_subreaper = v[1] != 0;
	lock_release(&t->k->tasks_lock);
	return 0;
}

static long get_subreaper(struct task *t, const uint64_t *v)
{
	return put_user_u32(t, v[1], (uint32_t)t->tg->child_subreaper);
}

static long set_no_new_privs(struct task *t, const uint64_t *v)
{
	if (v[1] != 1 || !rest_zero(v, 2))
		return -EINVAL;
	t->no_new_privs = 1;
	return 0;
}

static long get_no_new_privs(struct task *t, const uint64_t *v)
{
	if (!rest_zero(v, 1))
		return -EINVAL;
	return t->no_new_privs;
}

static long get_tid_address(struct task *t, const uint64_t *v)
{
	return put_user_u64(t, v[1], t->clear_child_tid);
}

static long get_seccomp(struct task *t, const uint64_t *v)
{
	(void)v;
	return seccomp_prctl_get ? seccomp_prctl_get(t) : 0;
}

static long set_seccomp(struct task *t, const uint64_t *v)
{
	return seccomp_prctl_set ? seccomp_prctl_set(t, v[1], v[2]) : -EINVAL;
}

/* Machine checks: the default policy, which can be asked for but not changed to killing early. */
static long mce_kill(struct task *t, const uint64_t *v)
{
	(void)t;
	if (!rest_zero(v, 3))
		return -EINVAL;
	if (v[1] == PR_MCE_KILL_CLEAR)
		return v[2] ? -EINVAL : 0;
	if (v[1] != PR_MCE_KILL_SET)
		return -EINVAL;
	return v[2] <= PR_MCE_KILL_DEFAULT ? 0 : -EINVAL;
}

static long mce_kill_get(struct task *t, const uint64_t *v)
{
	(void)t;
	return rest_zero(v, 1) ? PR_MCE_KILL_DEFAULT : -EINVAL;
}

static long thp_disable(struct task *t, const uint64_t *v)
{
	if (!rest_zero(v, 2))
		return -EINVAL;
	lock_acquire(&t->mm->lock);
	if (v[1])
		t->mm->def_flags |= VMA_NOHUGEPAGE;
	else
		t->mm->def_flags &= ~VMA_NOHUGEPAGE;
	lock_release(&t->mm->lock);
	return 0;
}

static long thp_disabled(struct task *t, const uint64_t *v)
{
	if (!rest_zero(v, 1))
		return -EINVAL;
	return (t->mm->def_flags & VMA_NOHUGEPAGE) != 0;
}

static long set_mdwe(struct task *t, const uint64_t *v)
{
	if (!rest_zero(v, 2) || v[1] & ~3ull || ((v[1] & 2) && !(v[1] & 1)))
		return -EINVAL;
	if (t->mm->mdwe && t->mm->mdwe != (int)v[1])
		return -EPERM;
	t->mm->mdwe = (int)v[1];
	return 0;
}

static long get_mdwe(struct task *t, const uint64_t *v)
{
	if (!rest_zero(v, 1))
		return -EINVAL;
	return t->mm->mdwe;
}

static int vma_name_ok(const char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s < 0x20 || (unsigned char)*s > 0x7e || strchr("\\`$[]", *s))
			return 0;
	return 1;
}

static long set_vma(struct task *t, const uint64_t *v)
{
	char name[VMA_NAME_MAX];
	ssize_t n;

	if (v[1] != PR_SET_VMA_ANON_NAME)
		return -EINVAL;
	if (!v[4])
		return mm_set_name(t, v[2], v[3], NULL);
	n = copy_string_from_user(t, name, sizeof(name), v[4]);
	if (n == -ENAMETOOLONG)
		return -EINVAL;
	if (n < 0)
		return n;
	if (!vma_name_ok(name))
		return -EINVAL;
	return mm_set_name(t, v[2], v[3], name);
}

static long get_auxv(struct task *t, const uint64_t *v)
{
	uint64_t auxv[64];
	size_t have, n;

	if (!rest_zero(v, 3))
		return -EINVAL;
	lock_acquire(&t->mm->lock);
	memcpy(auxv, t->mm->auxv, sizeof(auxv));
	lock_release(&t->mm->lock);
	/* Linux's saved_auxv has a fixed size, zeros at the end included. */
	have = sizeof(auxv) > 384 ? 384 : sizeof(auxv);
	n = v[2] < have ? v[2] : have;
	return copy_to_user(t, v[1], auxv, n) ? -EFAULT : (long)have;
}

static long get_speculation(struct task *t, const uint64_t *v)
{
	(void)t;
	if (!rest_zero(v, 2))
		return -EINVAL;
	switch (v[1]) {
	case PR_SPEC_STORE_BYPASS:
	case PR_SPEC_INDIRECT_BRANCH:
	case PR_SPEC_L1D_FLUSH:
		return PR_SPEC_NOT_AFFECTED;
	}
	return -ENODEV;
}

static long set_speculation(struct task *t, const uint64_t *v)
{
	(void)t;
	if (!rest_zero(v, 3))
		return -EINVAL;
	switch (v[1]) {
	case PR_SPEC_STORE_BYPASS:
	case PR_SPEC_INDIRECT_BRANCH:
	case PR_SPEC_L1D_FLUSH:
		return -ENXIO; /* no control */
	}
	return -ENODEV;
}

static long set_memory_merge(struct task *t, const uint64_t *v)
{
	(void)t;
	return v[1] > 1 || !rest_zero(v, 2) ? -EINVAL : v[1] ? -EINVAL : 0;
}

static long get_memory_merge(struct task *t, const uint64_t *v)
{
	(void)t;
	return rest_zero(v, 1) ? 0 : -EINVAL;
}

static long set_io_flusher(struct task *t, const uint64_t *v)
{
	if (!cred_has_cap(task_cred(t), CAP_SYS_RESOURCE))
		return -EPERM;
	return v[1] > 1 || !rest_zero(v, 2) ? -EINVAL : 0;
}

static long get_io_flusher(struct task *t, const uint64_t *v)
{
	if (!cred_has_cap(task_cred(t), CAP_SYS_RESOURCE))
		return -EPERM;
	return rest_zero(v, 1) ? 0 : -EINVAL;
}

static long set_ptracer(struct task *t, const uint64_t *v)
{
	(void)t;
	(void)v;
	return -EINVAL; /* Yama is configured out */
}

static const struct {
	int option;
	prctl_fn fn;
} g_options[] = {
	{ PR_SET_PDEATHSIG, set_pdeathsig },
	{ PR_GET_PDEATHSIG, get_pdeathsig },
	{ PR_GET_DUMPABLE, get_dumpable },
	{ PR_SET_DUMPABLE, set_dumpable },
	{ PR_GET_KEEPCAPS, get_keepcaps },
	{ PR_SET_KEEPCAPS, set_keepcaps },
	{ PR_GET_TIMING, get_timing },
	{ PR_SET_TIMING, set_timing },
	{ PR_SET_NAME, set_name },
	{ PR_GET_NAME, get_name },
	{ PR_GET_SECCOMP, get_seccomp },
	{ PR_SET_SECCOMP, set_seccomp },
	{ PR_CAPBSET_READ, capbset_read },
	{ PR_CAPBSET_DROP, capbset_drop },
	{ PR_GET_TSC, get_tsc },
	{ PR_SET_TSC, set_tsc },
	{ PR_GET_SECUREBITS, get_securebits },
	{ PR_SET_SECUREBITS, set_securebits },
	{ PR_SET_TIMERSLACK, set_timerslack },
	{ PR_GET_TIMERSLACK, get_timerslack },
	{ PR_MCE_KILL, mce_kill },
	{ PR_MCE_KILL_GET, mce_kill_get },
	{ PR_SET_CHILD_SUBREAPER, set_subreaper },
	{ PR_GET_CHILD_SUBREAPER, get_subreaper },
	{ PR_SET_NO_NEW_PRIVS, set_no_new_privs },
	{ PR_GET_NO_NEW_PRIVS, get_no_new_privs },
	{ PR_GET_TID_ADDRESS, get_tid_address },
	{ PR_SET_THP_DISABLE, thp_disable },
	{ PR_GET_THP_DISABLE, thp_disabled },
	{ PR_CAP_AMBIENT, cap_ambient },
	{ PR_GET_SPECULATION_CTRL, get_speculation },
	{ PR_SET_SPECULATION_CTRL, set_speculation },
	{ PR_SET_IO_FLUSHER, set_io_flusher },
	{ PR_GET_IO_FLUSHER, get_io_flusher },
	{ PR_SET_PTRACER, set_ptracer },
	{ PR_SET_VMA, set_vma },
	{ PR_GET_AUXV, get_auxv },
	{ PR_SET_MDWE, set_mdwe },
	{ PR_GET_MDWE, get_mdwe },
	{ PR_SET_MEMORY_MERGE, set_memory_merge },
	{ PR_GET_MEMORY_MERGE, get_memory_merge },
};

SYSCALL_HANDLER(prctl)
{
	int option = (int)a->a[0];

	for (size_t i = 0; i < sizeof(g_options) / sizeof(*g_options); i++)
		if (g_options[i].option == option)
			return g_options[i].fn(t, a->a);
	log_once("prctl: option %d is not known", option);
	return -EINVAL;
}
