/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory file: one sparse memfd that backs everything guests can share: tmpfs and overlay
 * upper file data, MAP_SHARED anonymous memory, SysV shm, memfds. The sentry maps it whole, so
 * file I/O on such pages is a memcpy; guests map pieces of it, so mmap and read() see the same
 * bytes.
 *
 * Offsets are handed out in power-of-two ranges of at least MEMFILE_MIN; a range costs memory
 * only where it was touched. Freeing punches a hole. Any thread; one internal lock (RANK_CACHE).
 * The memfd is created at start; afterwards the only host calls are fallocate(2) on it.
 */
#ifndef CAISSON_MEMFILE_H
#define CAISSON_MEMFILE_H

#include <stdint.h>

#define MEMFILE_MIN (64u << 10)

/* Creates and maps the memory file; before lockdown. 0 or negative errno. */
int memfile_start(void);
int memfile_fd(void);
/* A zero-filled range of at least `size` bytes: its offset, page aligned, or -ENOMEM/-EFBIG. */
int64_t memfile_alloc(uint64_t size);
/* The size a request is rounded up to. */
uint64_t memfile_round(uint64_t size);
void memfile_free(int64_t off, uint64_t size);
/* Returns the pages of [off, off+len) to the host; they read as zero afterwards. */
void memfile_punch(int64_t off, uint64_t len);
/* Where the sentry sees the byte at off; valid until memfile_free. Touching it may fault pages in;
 * past the sandbox's memory limit that is for the host's OOM killer to answer. */
void *memfile_at(int64_t off);
/* What the host has in all, as seen at memfile_start. */
uint64_t memfile_host_memory(void);
/* Bytes of host memory in use now (what fstat calls blocks). */
uint64_t memfile_used(void);

#endif
