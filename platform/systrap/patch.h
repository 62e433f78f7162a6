/* SPDX-License-Identifier: Apache-2.0 */
/* Patched syscall sites as the rest of systrap sees them; patch.c has the theory. */
#ifndef CAISSON_SYSTRAP_PATCH_H
#define CAISSON_SYSTRAP_PATCH_H

#include "platform/systrap/patch_scan.h"
#include "platform/systrap/systrap.h"

int patch_start(struct systrap *p);
void patch_stop(struct systrap *p);
/* The counts, into the log. */
void patch_log(struct systrap *p);
void patch_stats(struct systrap *p, struct platform_stats *st);

int systrap_ctx_patch(struct context *c, uint64_t after, uint64_t start, uint64_t end);
/* A child process has its parent's patched text and so its area. Before the child runs. */
void patch_inherit(struct systrap_addrspace *parent, struct systrap_addrspace *child);
void patch_release(struct systrap_addrspace *as);

/* Counts a trap at the site that ends at `after`: 1 when patching it is due. */
int patch_note_trap(struct systrap_addrspace *as, uint64_t after);

/* Does rip lie in a trampoline of as? 1 with where that is in the guest's text. */
struct patch_place {
	uint64_t rip;	/* the same point of the unpatched text */
	uint64_t after; /* of the site's syscall instruction */
	int at_call;	/* the displaced instructions are done: rip is the syscall */
};
int patch_place(struct systrap_addrspace *as, uint64_t rip, struct patch_place *pl);
/*
 * An invalid opcode at rip: did it come from a jump into a patched site? 1: rip was the syscall,
 * which ends at *to. 2: rip was another displaced instruction, whose copy is at *to.
 */
int patch_undefined(struct systrap_addrspace *as, uint64_t rip, uint64_t *to);
/* Makes what was read from the guest at `from` look as if nothing had been patched. */
void patch_hide(struct systrap_addrspace *as, uint64_t from, uint8_t *buf, size_t len);
int systrap_ctx_unpatch(struct context *c, uint64_t from, uint64_t len, int prot);
/* Where to go on instead of rip when single-stepping: the trampoline, if rip is a patched site. */
uint64_t patch_step(struct systrap_addrspace *as, uint64_t rip);

#endif
