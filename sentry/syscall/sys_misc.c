/* SPDX-License-Identifier: Apache-2.0 */
/* What the system says of itself, and calls that fit nowhere else. */
#include <linux/membarrier.h>
#include <linux/reboot.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>

#include "platform/base/hash.h"
#include "platform/base/fence.h"
#include "platform/base/log.h"
#include "platform/host/memfile.h"
#include "sentry/fd/fdtable.h"
#include "sentry/mm/mm.h"
#include "sentry/syscall/syscall.h"
#include "vfs/dev/dev.h"
#include "vfs/dev/tty.h"

#define VERSION_STRING "#1 SMP PREEMPT_DYNAMIC Caisson"

/* ---- names ---- */

SYSCALL_HANDLER(uname)
{
	struct utsname u;

	memset(&u, 0, sizeof(u));
	strcpy(u.sysname, "Linux");
	lock_acquire(&t->uts->lock);
	memcpy(u.nodename, t->uts->nodename, sizeof(t->uts->nodename));
	memcpy(u.domainname, t->uts->domainname, sizeof(t->uts->domainname));
	lock_release(&t->uts->lock);
	/* PER_LINUX programs from the 2.6 days may ask for a name they understand (UNAME26). */
	snprintf(u.release, sizeof(u.release), "%s",
		 t->personality & UNAME26 ? "2.6.60" : t->k->release);
	strcpy(u.version, VERSION_STRING);
	strcpy(u.machine, "x86_64");
	return copy_to_user(t, a->a[0], &u, sizeof(u));
}

static long set_name(struct task *t, const struct sysargs *a, char *field)
{
	char name[65] = { 0 };
	int len = (int)a->a[1];

	if (!cred_has_cap(task_cred(t), CAP_SYS_ADMIN))
		return -EPERM;
	if (len < 0 || len > 64)
		return -EINVAL;
	if (copy_from_user(t, name, a->a[0], (size_t)len))
		return -EFAULT;
	lock_acquire(&t->uts->lock);
	memcpy(field, name, sizeof(name));
	lock_release(&t->uts->lock);
	return 0;
}

SYSCALL_HANDLER(sethostname)
{
	return set_name(t, a, t->uts->nodename);
}

SYSCALL_HANDLER(setdomainname)
{
	return set_name(t, a, t->uts->domainname);
}

/* ---- the machine ---- */

#define SYSINFO_SIZE 112 /* struct sysinfo of the 64-bit ABI */

SYSCALL_HANDLER(sysinfo)
{
	struct kernel *k = t->k;
	struct sysinfo si;
	uint64_t total = k->total_memory, used = memfile_used();
	struct thread_group *tg;

	_Static_assert(sizeof(si) == SYSINFO_SIZE, "struct sysinfo");
	memset(&si, 0, sizeof(si));
	lock_acquire(&k->tasks_lock);
	si.procs = (uint16_t)(k->task_count > UINT16_MAX ? UINT16_MAX : k->task_count);
	list_for_each(tg, &k->groups, node)
		if (tg->leader && tg->leader->mm)
			used += tg->leader->mm->rss_pages * GUEST_PAGE_SIZE;
	lock_release(&k->tasks_lock);
	si.uptime = (long)((mono_now_ns() - k->boot_mono_ns + 999999999u) / 1000000000u);
	si.totalram = total;
	si.freeram = used < total ? total - used : 0;
	si.sharedram = memfile_used();
	si.mem_unit = 1;
	return copy_to_user(t, a->a[0], &si, sizeof(si));
}

SYSCALL_HANDLER(getcpu)
{
	/* The guest's threads are not bound to CPUs of its own count: any one is true for a moment. */
	uint32_t cpu = (uint32_t)(t->task_id % t->k->cpu_count);

	if (a->a[0] && put_user_u32(t, a->a[0], cpu))
		return -EFAULT;
	if (a->a[1] && put_user_u32(t, a->a[1], 0))
		return -EFAULT;
	return 0;
}

SYSCALL_HANDLER(personality)
{
	uint32_t old = t->personality;

	if ((uint32_t)a->a[0] != UINT32_MAX)
		t->personality = (uint32_t)a->a[0];
	return (long)old;
}

/*
 * Every command that Linux could offer is a full barrier here at worst: each of these calls goes
 * through the sentry, and the guest threads that matter are stopped and started by interrupts.
 */
SYSCALL_HANDLER(membarrier)
{
	const uint32_t known = MEMBARRIER_CMD_GLOBAL | MEMBARRIER_CMD_GLOBAL_EXPEDITED |
			       MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED |
			       MEMBARRIER_CMD_PRIVATE_EXPEDITED |
			       MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED |
			       MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE |
			       MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE;
	uint32_t cmd = (uint32_t)a->a[0];
	struct task *i;

	if (a->a[1])
		return -EINVAL;
	if (cmd == MEMBARRIER_CMD_QUERY)
		return (long)known;
	if ((cmd & (cmd - 1)) || !(cmd & known))
		return -EINVAL;
	if (cmd & (MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED |
		   MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED |
		   MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE))
		return 0;
	/* An interrupt makes each running thread pass through the host kernel: a barrier on it. */
	lock_acquire(&t->k->tasks_lock);
	list_for_each(i, &t->tg->tasks, tg_node)
		if (i != t && i->state == TASK_RUNNING)
			task_kick(i, 0);
	lock_release(&t->k->tasks_lock);
	fence_full();
	return 0;
}

/* ---- kcmp ---- */

/* The order must be stable but must not give away addresses: they are hashed with the boot key. */
static long compare(const void *x, const void *y)
{
	uint64_t hx = hash_bytes(&x, sizeof(x), 0), hy = hash_bytes(&y, sizeof(y), 0);

	return x == y ? 0 : hx < hy ? 1 : 2;
}

static struct file *file_of(struct task *of, uint64_t fd)
{
	struct fdtable *ft = NULL;
	struct file *f;

	lock_acquire(&of->k->tasks_lock);
	if (of->files)
		ft = fdtable_get(of->files);
	lock_release(&of->k->tasks_lock);
	if (!ft)
		return NULL;
	f = fd <= INT32_MAX ? fdtable_file(ft, (int)fd, NULL) : NULL;
	fdtable_put(ft);
	return f;
}

static long kcmp_files(struct task *x, struct task *y, uint64_t fx, uint64_t fy)
{
	struct file *a = file_of(x, fx), *b = file_of(y, fy);
	long r = a && b ? compare(a, b) : -EBADF;

	if (a)
		file_put(a);
	if (b)
		file_put(b);
	return r;
}

SYSCALL_HANDLER(kcmp)
{
	struct task *x = task_find(t, (int)a->a[0]), *y = task_find(t, (int)a->a[1]);
	long r = x && y ? 0 : -ESRCH;

	if (!r)
		r = task_may_access(t, x, 0);
	if (!r)
		r = task_may_access(t, y, 0);
	if (!r)
		switch ((int)a->a[2]) {
		case KCMP_FILE:
			r = kcmp_files(x, y, a->a[3], a->a[4]);
			break;
		case KCMP_VM:
			r = compare(x->mm, y->mm);
			break;
		case KCMP_FILES:
			r = compare(x->files, y->files);
			break;
		case KCMP_FS:
			r = compare(x->fs, y->fs);
			break;
		case KCMP_SIGHAND:
			r = compare(x->sighand, y->sighand);
			break;
		case KCMP_IO:
			r = 0;
			break;
		case KCMP_SYSVSEM:
			r = compare(x->tg->sem_undo, y->tg->sem_undo);
			break;
		case KCMP_EPOLL_TFD:
			r = -EOPNOTSUPP;
			break;
		default:
			r = -EINVAL;
		}
	task_put(x);
	task_put(y);
	return r;
}

/* ---- the kernel log ---- */

enum {
	SYSLOG_CLOSE,
	SYSLOG_OPEN,
	SYSLOG_READ,
	SYSLOG_READ_ALL,
	SYSLOG_READ_CLEAR,
	SYSLOG_CLEAR,
	SYSLOG_CONSOLE_OFF,
	SYSLOG_CONSOLE_ON,
	SYSLOG_CONSOLE_LEVEL,
	SYSLOG_SIZE_UNREAD,
	SYSLOG_SIZE_BUFFER,
};

SYSCALL_HANDLER(syslog)
{
	int type = (int)a->a[0], len = (int)a->a[2];
	struct uio u;
	ssize_t n;

	if (type != SYSLOG_READ_ALL && type != SYSLOG_SIZE_BUFFER &&
	    !cred_has_cap(task_cred(t), CAP_SYSLOG) && !cred_has_cap(task_cred(t), CAP_SYS_ADMIN))
		return -EPERM;
	switch (type) {
	case SYSLOG_CLOSE:
	case SYSLOG_OPEN:
	case SYSLOG_CONSOLE_OFF:
	case SYSLOG_CONSOLE_ON:
		return 0;
	case SYSLOG_READ:
	case SYSLOG_READ_ALL:
	case SYSLOG_READ_CLEAR:
		if (!a->a[1] || len < 0)
			return -EINVAL;
		if (!len)
			return 0;
		n = uio_init_user(t, &u, a->a[1], (uint64_t)len);
		if (n)
			return n;
		return kmsg_read_all(&u, type != SYSLOG_READ_ALL);
	case SYSLOG_CLEAR:
		kmsg_clear();
		return 0;
	case SYSLOG_CONSOLE_LEVEL:
		return len < 1 || len > 8 ? -EINVAL : 0;
	case SYSLOG_SIZE_UNREAD:
		return (long)kmsg_size_unread();
	case SYSLOG_SIZE_BUFFER:
		return KMSG_BUF_SIZE;
	}
	return -EINVAL;
}

/* ---- things a container may not do ---- */

SYSCALL_HANDLER(reboot)
{
	if (!cred_has_cap(task_cred(t), CAP_SYS_BOOT))
		return -EPERM;
	if ((uint32_t)a->a[0] != LINUX_REBOOT_MAGIC1)
		return -EINVAL;
	/* Ending the sandbox is what exit is for. */
	return -EPERM;
}

SYSCALL_HANDLER(vhangup)
{
	(void)a;
	if (!cred_has_cap(task_cred(t), CAP_SYS_TTY_CONFIG))
		return -EPERM;
	tty_vhangup_current();
	return 0;
}
