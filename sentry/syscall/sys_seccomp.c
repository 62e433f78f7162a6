/* SPDX-License-Identifier: Apache-2.0 */
/* seccomp(2): the operations; the work is in sentry/seccomp. */
#include "sentry/mm/mm.h"
#include "sentry/seccomp/seccomp.h"
#include "sentry/syscall/syscall.h"

static long action_available(struct task *t, uint64_t addr)
{
	uint32_t action;

	if (get_user_u32(t, addr, &action))
		return -EFAULT;
	switch (action) {
	case SECCOMP_RET_KILL_PROCESS:
	case SECCOMP_RET_KILL_THREAD:
	case SECCOMP_RET_TRAP:
	case SECCOMP_RET_ERRNO:
	case SECCOMP_RET_USER_NOTIF:
	case SECCOMP_RET_TRACE:
	case SECCOMP_RET_LOG:
	case SECCOMP_RET_ALLOW:
		return 0;
	}
	return -EOPNOTSUPP;
}

SYSCALL_HANDLER(seccomp)
{
	struct seccomp_notif_sizes sizes = {
		.seccomp_notif = sizeof(struct seccomp_notif),
		.seccomp_notif_resp = sizeof(struct seccomp_notif_resp),
		.seccomp_data = sizeof(struct seccomp_data),
	};
	uint32_t flags = (uint32_t)a->a[1];

	switch ((uint32_t)a->a[0]) {
	case SECCOMP_SET_MODE_STRICT:
		return flags || a->a[2] ? -EINVAL : seccomp_set_strict(t);
	case SECCOMP_SET_MODE_FILTER:
		return seccomp_set_filter(t, flags, a->a[2]);
	case SECCOMP_GET_ACTION_AVAIL:
		return flags ? -EINVAL : action_available(t, a->a[2]);
	case SECCOMP_GET_NOTIF_SIZES:
		return flags ? -EINVAL : copy_to_user(t, a->a[2], &sizes, sizeof(sizes));
	}
	return -EINVAL;
}
