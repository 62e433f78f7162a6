/* SPDX-License-Identifier: Apache-2.0 */
/* madvise: every advice, its refusals, and what it does to the bytes. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/guest.h"

#define PG 4096ul
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)
#define RW (PROT_READ | PROT_WRITE)
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLD
#define MADV_COLD 20
#define MADV_PAGEOUT 21
#endif

static int child_sees(char *p, char want)
{
	int st;

	if (fork() == 0)
		_exit(*p == want ? 0 : 1);
	wait(&st);
	return st == 0;
}

int main(void)
{
	char *p = mmap(NULL, 4 * PG, RW, ANON, -1, 0), *q, name[] = "madvise_XXXXXX";
	static const int hints[] = { MADV_NORMAL, MADV_RANDOM, MADV_SEQUENTIAL, MADV_WILLNEED, MADV_COLD,
				     MADV_PAGEOUT, MADV_DONTDUMP, MADV_DODUMP };
	unsigned char vec[4];
	int fd, st, ok = 1;

	memset(p, 7, 4 * PG);
	for (size_t i = 0; i < sizeof(hints) / sizeof(hints[0]); i++)
		ok &= madvise(p, 4 * PG, hints[i]) == 0;
	CHECK("hints are taken", ok && p[0] == 7 && p[3 * PG] == 7);
	CHECK_ERRNO("unknown advice", madvise(p, PG, 77), EINVAL);
	CHECK_ERRNO("unaligned", madvise(p + 1, PG, MADV_NORMAL), EINVAL);
	CHECK("length 0", madvise(p, 0, MADV_DONTNEED) == 0);
	CHECK_ERRNO("wrapping length", madvise(p, ~0ul - PG, MADV_NORMAL), EINVAL);

	CHECK("DONTNEED drops", madvise(p + PG, PG, MADV_DONTNEED) == 0 && p[PG] == 0 && p[0] == 7);
	munmap(p + 2 * PG, PG);
	memset(p, 7, 2 * PG);
	p[3 * PG] = 7;
	CHECK_ERRNO("a gap is ENOMEM", madvise(p, 4 * PG, MADV_DONTNEED), ENOMEM);
	CHECK("but both sides were done", p[0] == 0 && p[3 * PG] == 0);
	munmap(p, 4 * PG);

	p = mmap(NULL, 4 * PG, RW, ANON, -1, 0);
	memset(p, 1, 4 * PG);
	CHECK("FREE", madvise(p, 4 * PG, MADV_FREE) == 0);
	p[0] = 2;
	CHECK("a write after FREE stays", p[0] == 2);
	mlock(p, PG);
	CHECK_ERRNO("DONTNEED of locked memory", madvise(p, PG, MADV_DONTNEED), EINVAL);
	CHECK_ERRNO("FREE of locked memory", madvise(p, PG, MADV_FREE), EINVAL);
	munlock(p, PG);

	*p = 5;
	CHECK("DONTFORK", madvise(p, PG, MADV_DONTFORK) == 0);
	if (fork() == 0)
		_exit(mincore(p, PG, vec) == -1 && errno == ENOMEM ? 0 : 1);
	wait(&st);
	CHECK("the child lacks it", st == 0);
	CHECK("DOFORK", madvise(p, PG, MADV_DOFORK) == 0 && child_sees(p, 5));
	CHECK("WIPEONFORK", madvise(p, PG, MADV_WIPEONFORK) == 0 && child_sees(p, 0) && *p == 5);
	CHECK("KEEPONFORK", madvise(p, PG, MADV_KEEPONFORK) == 0 && child_sees(p, 5));
	munmap(p, 4 * PG);

	p = mmap(NULL, 4 * PG, RW, ANON, -1, 0);
	CHECK("POPULATE_WRITE", madvise(p, 4 * PG, MADV_POPULATE_WRITE) == 0 &&
					mincore(p, 4 * PG, vec) == 0 && (vec[3] & 1));
	mprotect(p, PG, PROT_READ);
	CHECK_ERRNO("POPULATE_WRITE without write", madvise(p, PG, MADV_POPULATE_WRITE), EINVAL);
	mprotect(p, PG, PROT_NONE);
	CHECK_ERRNO("POPULATE_READ without read", madvise(p, PG, MADV_POPULATE_READ), EINVAL);
	munmap(p, PG);
	CHECK_ERRNO("POPULATE of a gap", madvise(p, 2 * PG, MADV_POPULATE_READ), ENOMEM);
	munmap(p, 4 * PG);

	fd = mkstemp(name);
	unlink(name);
	ftruncate(fd, 2 * PG);
	q = mmap(NULL, 4 * PG, RW, MAP_SHARED, fd, 0);
	memset(q, 9, 2 * PG);
	CHECK("DONTNEED of a file keeps its bytes", madvise(q, 2 * PG, MADV_DONTNEED) == 0 && q[0] == 9);
	CHECK_ERRNO("FREE of a file", madvise(q, PG, MADV_FREE), EINVAL);
	CHECK_ERRNO("WIPEONFORK of a file", madvise(q, PG, MADV_WIPEONFORK), EINVAL);
	CHECK("REMOVE punches", madvise(q, PG, MADV_REMOVE) == 0 && q[0] == 0 && q[PG] == 9);
	CHECK_ERRNO("POPULATE beyond the end", madvise(q + 3 * PG, PG, MADV_POPULATE_READ), EFAULT);
	munmap(q, 4 * PG);
	q = mmap(NULL, PG, RW, MAP_PRIVATE, fd, 0);
	CHECK_ERRNO("REMOVE of a private mapping", madvise(q, PG, MADV_REMOVE), EACCES);
	q[0] = 3;
	CHECK("DONTNEED of a private file copy", madvise(q, PG, MADV_DONTNEED) == 0 && q[0] == 0);
	munmap(q, PG);
	q = mmap(NULL, PG, PROT_READ, MAP_SHARED, fd, 0);
	CHECK("REMOVE through a read-only view of a writable fd",
	      madvise(q, PG, MADV_REMOVE) == 0 || errno == EACCES);
	munmap(q, PG);
	close(fd);
	return guest_done();
}
