/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time page: written by the sentry (loader/vdso_clock.c), read by the vDSO in every guest
 * process. Time on CLOCK_MONOTONIC is mono_ns + ((tsc - tsc_base) * mult >> 32) as long as tsc is
 * within tsc_span of tsc_base; after that, and while usable is 0, the reader makes the system call,
 * which renews the page. So nothing has to tick while nobody asks.
 */
#ifndef CAISSON_VVAR_H
#define CAISSON_VVAR_H

#include <stdint.h>

struct vvar {
	uint32_t seq; /* odd while it is being written */
	uint32_t usable;
	uint64_t tsc_base, tsc_span;
	uint64_t mono_ns;
	uint64_t mult;	     /* ns per tick, times 2^32 */
	int64_t real_offset; /* CLOCK_REALTIME minus CLOCK_MONOTONIC, ns */
	int64_t boot_offset; /* CLOCK_BOOTTIME minus CLOCK_MONOTONIC, ns */
};

static inline uint64_t vvar_tsc(void)
{
	uint32_t lo, hi;

	/* The fence keeps the counter from being read before what came earlier. */
	__asm__ volatile("lfence; rdtsc" : "=a"(lo), "=d"(hi) : : "memory");
	return lo | (uint64_t)hi << 32;
}

/* CLOCK_MONOTONIC by the page at this tick; 0: the page is too old, or of no use. */
static inline uint64_t vvar_mono(const struct vvar *v, uint64_t tsc)
{
	uint64_t delta = tsc - v->tsc_base;

	if (!v->usable || delta > v->tsc_span)
		return 0;
	return v->mono_ns + (uint64_t)(((unsigned __int128)delta * v->mult) >> 32);
}

#endif
