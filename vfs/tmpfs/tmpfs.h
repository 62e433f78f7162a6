/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tmpfs: a filesystem in the memory file. Its files' bytes can be mapped by guests, so it also
 * backs memfd, shared anonymous memory and SysV shm.
 */
#ifndef CAISSON_TMPFS_H
#define CAISSON_TMPFS_H

#include "vfs/vfs.h"

extern const struct fs_type g_tmpfs_type;

/* The sandbox's memory, from which default limits follow (half of it); the host's if never said. */
void tmpfs_set_memory(uint64_t bytes);

/*
 * memfd_create(2): flags are MFD_*, hugetlb ones refused (-ENOSYS); name without the "memfd:"
 * prefix, at most 249 bytes (-EINVAL). *out is a reference.
 */
int tmpfs_memfd_create(struct vfs *vfs, const char *name, unsigned int flags,
		       const struct cred *cred, struct file **out);
/* An unnamed object of `size` bytes for shared mappings; "name" is what /proc/PID/maps shows
 * between "/" and " (deleted)", as "dev/zero" or "SYSV00000000". Returns a reference. */
struct file *shmem_file_new(struct vfs *vfs, const char *name, uint64_t size,
			    const struct cred *cred);
/* F_ADD_SEALS and F_GET_SEALS; -EINVAL when the file knows none. */
int tmpfs_add_seals(struct file *f, uint32_t seals);
int tmpfs_get_seals(struct file *f);
/*
 * The mm tells of writable shared mappings of f, so that F_SEAL_WRITE can refuse: delta +1 when
 * one appears, -1 when it goes. Harmless for other files.
 */
void tmpfs_writable_mapping(struct file *f, int delta);

#endif
