/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vDSO: guest code that answers time questions from the time page without a system call. It is
 * built on its own into a small shared object (vdso.mk) that the sentry maps into each process,
 * one page above the time page. Freestanding; runs with the guest's rights and stack.
 */
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>

#include "sentry/loader/vdso/vvar.h"

#define EXPORT __attribute__((visibility("default")))
#define NSEC 1000000000u

/* Not const: it changes under us, and the compiler must not think otherwise. */
extern struct vvar vvar_page __attribute__((visibility("hidden")));

struct timeval_k {
	int64_t sec, usec;
};
struct timezone_k {
	int32_t minuteswest, dsttime;
};

EXPORT int __vdso_clock_gettime(clockid_t clock, struct timespec *ts);
EXPORT int __vdso_clock_getres(clockid_t clock, struct timespec *ts);
EXPORT int __vdso_gettimeofday(struct timeval_k *tv, struct timezone_k *tz);
EXPORT int64_t __vdso_time(int64_t *t);
EXPORT long __vdso_getcpu(unsigned *cpu, unsigned *node, void *unused);

static inline long syscall3(long nr, long a, long b, long c)
{
	long r;

	__asm__ volatile("syscall" : "=a"(r) : "0"(nr), "D"(a), "S"(b), "d"(c)
			 : "rcx", "r11", "memory");
	return r;
}

enum { OFF_NONE, OFF_REAL, OFF_BOOT };

/* The time on a clock in ns, or 0 when only the sentry can tell. */
static inline uint64_t read_clock(int which)
{
	const struct vvar *v = &vvar_page;
	uint64_t ns;
	uint32_t seq;

	do {
		while ((seq = __atomic_load_n(&v->seq, __ATOMIC_ACQUIRE)) & 1)
			__builtin_ia32_pause();
		ns = vvar_mono(v, vvar_tsc());
		if (!ns)
			return 0;
		if (which == OFF_REAL)
			ns += (uint64_t)v->real_offset;
		else if (which == OFF_BOOT)
			ns += (uint64_t)v->boot_offset;
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
	} while (__atomic_load_n(&v->seq, __ATOMIC_RELAXED) != seq);
	return ns;
}

int __vdso_clock_gettime(clockid_t clock, struct timespec *ts)
{
	uint64_t ns = 0;

	switch (clock) {
	case CLOCK_REALTIME:
	case CLOCK_REALTIME_COARSE:
		ns = read_clock(OFF_REAL);
		break;
	case CLOCK_MONOTONIC:
	case CLOCK_MONOTONIC_COARSE:
		ns = read_clock(OFF_NONE);
		break;
	case CLOCK_BOOTTIME:
		ns = read_clock(OFF_BOOT);
		break;
	}
	if (!ns)
		return (int)syscall3(SYS_clock_gettime, clock, (long)ts, 0);
	ts->tv_sec = (time_t)(ns / NSEC);
	ts->tv_nsec = (long)(ns % NSEC);
	return 0;
}

int __vdso_clock_getres(clockid_t clock, struct timespec *ts)
{
	return (int)syscall3(SYS_clock_getres, clock, (long)ts, 0);
}

int __vdso_gettimeofday(struct timeval_k *tv, struct timezone_k *tz)
{
	uint64_t ns = tz ? 0 : read_clock(OFF_REAL);

	if (!ns)
		return (int)syscall3(SYS_gettimeofday, (long)tv, (long)tz, 0);
	if (tv) {
		tv->sec = (int64_t)(ns / NSEC);
		tv->usec = (int64_t)(ns % NSEC / 1000);
	}
	return 0;
}

int64_t __vdso_time(int64_t *t)
{
	uint64_t ns = read_clock(OFF_REAL);

	if (!ns)
		return syscall3(SYS_time, (long)t, 0, 0);
	if (t)
		*t = (int64_t)(ns / NSEC);
	return (int64_t)(ns / NSEC);
}

long __vdso_getcpu(unsigned *cpu, unsigned *node, void *unused)
{
	(void)unused;
	return syscall3(SYS_getcpu, (long)cpu, (long)node, 0);
}

