/* SPDX-License-Identifier: Apache-2.0 */
/* File attributes as x86-64 Linux lays them out for user space. Data only. */
#ifndef CAISSON_ABI_STAT_H
#define CAISSON_ABI_STAT_H

#include <stdint.h>

struct linux_timespec {
	int64_t sec;
	int64_t nsec;
};

struct linux_stat {
	uint64_t dev;
	uint64_t ino;
	uint64_t nlink;
	uint32_t mode;
	uint32_t uid;
	uint32_t gid;
	uint32_t pad0;
	uint64_t rdev;
	int64_t size;
	int64_t blksize;
	int64_t blocks;
	struct linux_timespec atime, mtime, ctime;
	int64_t unused[3];
};
_Static_assert(sizeof(struct linux_stat) == 144, "struct stat of x86-64");

struct linux_statfs {
	int64_t type, bsize;
	uint64_t blocks, bfree, bavail, files, ffree;
	int32_t fsid[2];
	int64_t namelen, frsize, flags, spare[4];
};
_Static_assert(sizeof(struct linux_statfs) == 120, "struct statfs of x86-64");

struct linux_dirent64 {
	uint64_t ino;
	int64_t off;
	uint16_t reclen;
	uint8_t type;
	char name[];
} __attribute__((packed));

/* dev_t as user space sees it in st_dev (new_encode_dev). */
static inline uint64_t linux_makedev(uint32_t major, uint32_t minor)
{
	return (minor & 0xffu) | ((uint64_t)(major & 0xfffu) << 8) | ((uint64_t)(minor & ~0xffu) << 12) |
	       ((uint64_t)(major & ~0xfffu) << 32);
}

static inline uint32_t linux_major(uint64_t dev)
{
	return (uint32_t)(((dev >> 8) & 0xfff) | ((dev >> 32) & ~0xfffull));
}

static inline uint32_t linux_minor(uint64_t dev)
{
	return (uint32_t)((dev & 0xff) | ((dev >> 12) & ~0xffull));
}

#endif
