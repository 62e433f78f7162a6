/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory fences for the few places where the other side is not C of ours (guest code, patched
 * text), so that no atomic of both can order them. As instructions, for ThreadSanitizer knows no
 * fences and refuses the compiler's.
 */
#ifndef CAISSON_FENCE_H
#define CAISSON_FENCE_H

static inline void fence_full(void)
{
	__asm__ volatile("lock; orl $0, (%%rsp)" : : : "memory", "cc");
}

/* What was written before is seen before what is written after: x86 does it by itself. */
static inline void fence_write(void)
{
	__asm__ volatile("" : : : "memory");
}

#endif
