/* SPDX-License-Identifier: Apache-2.0 */
/* SysV IPC calls: argument checks and copying; the work is in sentry/ipc. */
#include "sentry/ipc/ipc.h"
#include "sentry/mm/mm.h"
#include "sentry/syscall/syscall.h"
#include "sentry/time/timers.h"

SYSCALL_HANDLER(msgget)
{
	return ipc_msgget(t, (int32_t)a->a[0], (int)a->a[1]);
}

SYSCALL_HANDLER(msgsnd)
{
	uint64_t type;

	if (get_user_u64(t, a->a[1], &type))
		return -EFAULT;
	return ipc_msgsnd(t, (int)a->a[0], (int64_t)type, a->a[1] + sizeof(type), a->a[2],
			  (int)a->a[3]);
}

SYSCALL_HANDLER(msgrcv)
{
	int64_t type;
	long n = ipc_msgrcv(t, (int)a->a[0], a->a[1] + sizeof(type), a->a[2], (int64_t)a->a[3],
			    (int)a->a[4], &type);

	if (n >= 0 && put_user_u64(t, a->a[1], (uint64_t)type))
		return -EFAULT;
	return n;
}

SYSCALL_HANDLER(msgctl)
{
	return ipc_msgctl(t, (int)a->a[0], (int)a->a[1], a->a[2]);
}

SYSCALL_HANDLER(semget)
{
	return ipc_semget(t, (int32_t)a->a[0], (int)a->a[1], (int)a->a[2]);
}

#define SEM_OPS_MAX 500

static long do_semop(struct task *t, int id, uint64_t uops, uint64_t count, uint64_t deadline)
{
	struct sem_op ops[SEM_OPS_MAX];

	if (id < 0 || (uint32_t)count < 1)
		return -EINVAL;
	if ((uint32_t)count > SEM_OPS_MAX)
		return -E2BIG;
	if (copy_from_user(t, ops, uops, (uint32_t)count * sizeof(ops[0])))
		return -EFAULT;
	return ipc_semop(t, id, ops, (uint32_t)count, deadline);
}

SYSCALL_HANDLER(semop)
{
	return do_semop(t, (int)a->a[0], a->a[1], a->a[2], NO_DEADLINE);
}

SYSCALL_HANDLER(semtimedop)
{
	uint64_t ns, deadline = NO_DEADLINE;
	int err;

	if (a->a[3]) {
		err = timespec_from_user(t, a->a[3], &ns);
		if (err)
			return err;
		deadline = deadline_add(mono_now_ns(), ns);
	}
	return do_semop(t, (int)a->a[0], a->a[1], a->a[2], deadline);
}

SYSCALL_HANDLER(semctl)
{
	return ipc_semctl(t, (int)a->a[0], (int)a->a[1], (int)a->a[2], a->a[3]);
}

SYSCALL_HANDLER(shmget)
{
	return ipc_shmget(t, (int32_t)a->a[0], a->a[1], (int)a->a[2]);
}

SYSCALL_HANDLER(shmat)
{
	return ipc_shmat(t, (int)a->a[0], a->a[1], (int)a->a[2]);
}

SYSCALL_HANDLER(shmdt)
{
	return ipc_shmdt(t, a->a[0]);
}

SYSCALL_HANDLER(shmctl)
{
	return ipc_shmctl(t, (int)a->a[0], (int)a->a[1], a->a[2]);
}
