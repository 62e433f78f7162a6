/* SPDX-License-Identifier: Apache-2.0 */
/* Signal structures as x86-64 Linux lays them out. siginfo_t and stack_t are the C library's:
 * their layout is the kernel's. Data only. */
#ifndef CAISSON_ABI_SIGNAL_H
#define CAISSON_ABI_SIGNAL_H

#include <signal.h>
#include <stdint.h>

#define LINUX_NSIG 64
typedef uint64_t linux_sigset_t; /* bit (signo - 1) */

#define SIGBIT(signo) (1ull << ((signo) - 1))

struct linux_sigaction {
	uint64_t handler; /* SIG_DFL 0, SIG_IGN 1, or a guest address */
	uint64_t flags;
	uint64_t restorer;
	linux_sigset_t mask;
};
_Static_assert(sizeof(struct linux_sigaction) == 32, "struct kernel_sigaction of x86-64");
_Static_assert(sizeof(siginfo_t) == 128, "siginfo_t");

#define LINUX_SA_RESTORER 0x04000000ul

#endif
