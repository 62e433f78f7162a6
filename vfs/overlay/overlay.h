/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The overlay filesystem: a read-only lower superblock, seen through changes that live in memory.
 * The sandbox's root by default. Only boot makes one.
 */
#ifndef CAISSON_OVERLAY_H
#define CAISSON_OVERLAY_H

#include <stdint.h>

struct superblock;
struct fs_type;

/* What boot passes to g_overlay_type.mount; the lower reference is the caller's own. */
struct overlay_boot {
	struct superblock *lower;  /* never modified; its names and files must not change */
	uint64_t upper_size_limit; /* bytes of file data the guest may add; 0: tmpfs's default */
};

extern const struct fs_type g_overlay_type;

#endif
