/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that are refused on purpose, each with the errno Linux gives when the feature is configured
 * out, or when the caller lacks the privilege. What has a weak rival elsewhere is defined there.
 */
#include "platform/base/log.h"
#include "sentry/syscall/syscall.h"

#define REFUSE(name, err)                                                 \
	SYSCALL_HANDLER(name)                                             \
	{                                                                 \
		(void)t;                                                  \
		(void)a;                                                  \
		log_once("%s: refused", #name);                           \
		return -(err);                                            \
	}

/* -EPERM without the capability, else what Linux gives when the feature is absent. */
#define REFUSE_CAP(name, cap, err)                                        \
	SYSCALL_HANDLER(name)                                             \
	{                                                                 \
		(void)a;                                                  \
		log_once("%s: refused", #name);                           \
		return cred_has_cap(task_cred(t), cap) ? -(err) : -EPERM; \
	}

/* Never implemented, or long gone from Linux itself. */
REFUSE(uselib, ENOSYS)
REFUSE(_sysctl, ENOSYS)
REFUSE(create_module, ENOSYS)
REFUSE(get_kernel_syms, ENOSYS)
REFUSE(query_module, ENOSYS)
REFUSE(nfsservctl, ENOSYS)
REFUSE(getpmsg, ENOSYS)
REFUSE(putpmsg, ENOSYS)
REFUSE(afs_syscall, ENOSYS)
REFUSE(tuxcall, ENOSYS)
REFUSE(security, ENOSYS)
REFUSE(lookup_dcookie, ENOSYS)
REFUSE(epoll_ctl_old, ENOSYS)
REFUSE(epoll_wait_old, ENOSYS)
REFUSE(vserver, ENOSYS)

/* The machine's owner's business. */
REFUSE_CAP(acct, CAP_SYS_PACCT, ENOSYS)
REFUSE_CAP(swapon, CAP_SYS_ADMIN, EPERM)
REFUSE_CAP(swapoff, CAP_SYS_ADMIN, EINVAL)
REFUSE_CAP(init_module, CAP_SYS_MODULE, EPERM)
REFUSE_CAP(finit_module, CAP_SYS_MODULE, EPERM)
REFUSE_CAP(delete_module, CAP_SYS_MODULE, EPERM)
REFUSE_CAP(kexec_load, CAP_SYS_BOOT, EPERM)
REFUSE_CAP(kexec_file_load, CAP_SYS_BOOT, EPERM)
REFUSE(quotactl, ENOSYS)
REFUSE(quotactl_fd, ENOSYS)

/* Configured out. */
REFUSE(bpf, EPERM)
REFUSE(perf_event_open, ENOSYS)
REFUSE(userfaultfd, ENOSYS)
REFUSE(memfd_secret, ENOSYS)
REFUSE(lsm_get_self_attr, ENOSYS)
REFUSE(lsm_set_self_attr, ENOSYS)
REFUSE(lsm_list_modules, ENOSYS)
