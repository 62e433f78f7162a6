/* SPDX-License-Identifier: Apache-2.0 */
/* mremap with every flag, over anonymous, file and pieced-together memory. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/lib/guest.h"

#define PG 4096ul
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)
#define RW (PROT_READ | PROT_WRITE)
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

static sigjmp_buf g_jmp;

static void on_fault(int sig)
{
	(void)sig;
	siglongjmp(g_jmp, 1);
}

static int faults(volatile char *p)
{
	if (sigsetjmp(g_jmp, 1))
		return 1;
	(void)*p;
	return 0;
}

/* n pages at a place with m free pages behind. */
static char *room(size_t n, size_t m)
{
	char *p = mmap(NULL, (n + m) * PG, RW, ANON, -1, 0);

	munmap(p + n * PG, m * PG);
	return p;
}

static void fill(char *p, size_t n, char base)
{
	for (size_t i = 0; i < n; i++)
		p[i * PG] = (char)(base + (char)i);
}

static int holds(const char *p, size_t n, char base)
{
	for (size_t i = 0; i < n; i++) {
		if (p[i * PG] != (char)(base + (char)i))
			return 0;
	}
	return 1;
}

int main(void)
{
	char *p, *q, *r, name[] = "mremap_XXXXXX";
	int fd;

	signal(SIGSEGV, on_fault);
	signal(SIGBUS, on_fault);

	p = room(2, 4);
	fill(p, 2, 1);
	CHECK("grow in place", mremap(p, 2 * PG, 4 * PG, 0) == p && holds(p, 2, 1) && p[3 * PG] == 0);
	CHECK("shrink", mremap(p, 4 * PG, PG, 0) == p && faults(p + PG) && holds(p, 1, 1));
	CHECK("same size", mremap(p, PG, PG, 0) == p);
	q = mmap(p + PG, PG, PROT_READ, ANON | MAP_FIXED, -1, 0);
	CHECK_ERRNO("no room, may not move", mremap(p, PG, 3 * PG, 0), ENOMEM);
	r = mremap(p, PG, 3 * PG, MREMAP_MAYMOVE);
	CHECK("moves", r != MAP_FAILED && r != p && holds(r, 1, 1) && faults(p) && r[2 * PG] == 0);
	munmap(r, 3 * PG);
	munmap(q, PG);

	p = mmap(NULL, 8 * PG, RW, ANON, -1, 0);
	q = mmap(NULL, 8 * PG, RW, ANON, -1, 0);
	fill(p, 8, 10);
	fill(q, 8, 50);
	CHECK("FIXED replaces the target", mremap(p, 4 * PG, 4 * PG, MREMAP_MAYMOVE | MREMAP_FIXED, q) == q &&
						   holds(q, 4, 10) && q[4 * PG] == 54 && faults(p));
	CHECK_ERRNO("FIXED alone", mremap(q, PG, PG, MREMAP_FIXED, p), EINVAL);
	CHECK_ERRNO("overlap", mremap(q, 4 * PG, 4 * PG, MREMAP_MAYMOVE | MREMAP_FIXED, q + PG), EINVAL);
	CHECK_ERRNO("unaligned target", mremap(q, PG, PG, MREMAP_MAYMOVE | MREMAP_FIXED, p + 1), EINVAL);
	CHECK_ERRNO("unaligned source", mremap(q + 1, PG, PG, MREMAP_MAYMOVE), EINVAL);
	CHECK_ERRNO("new length 0", mremap(q, PG, 0, MREMAP_MAYMOVE), EINVAL);
	CHECK_ERRNO("unknown flag", mremap(q, PG, PG, 8), EINVAL);
	CHECK_ERRNO("unmapped source", mremap(p, PG, 2 * PG, MREMAP_MAYMOVE), EFAULT);
	munmap(p, 8 * PG);

	/* Pieces the host can not merge: faulted in at different times and places. */
	munmap(q, 8 * PG);
	p = mmap(NULL, 16 * PG, PROT_NONE, ANON, -1, 0);
	for (int i = 0; i < 8; i++) {
		mmap(p + i * PG, PG, RW, ANON | MAP_FIXED, -1, 0);
		p[i * PG] = (char)(70 + i);
	}
	q = mremap(p, 4 * PG, 4 * PG, MREMAP_MAYMOVE | MREMAP_FIXED, p + 10 * PG);
	CHECK("move of part", q == p + 10 * PG && holds(q, 4, 70) && holds(p + 4 * PG, 4, 74));
	/* Bring it back so that both halves stand together again, with different histories. */
	CHECK("move back", mremap(q, 4 * PG, 4 * PG, MREMAP_MAYMOVE | MREMAP_FIXED, p) == p);
	r = mremap(p, 8 * PG, 32 * PG, MREMAP_MAYMOVE);
	CHECK("grown move of pieces", r != MAP_FAILED && holds(r, 8, 70) && r[31 * PG] == 0);
	munmap(r, 32 * PG);
	munmap(p, 16 * PG);

	p = mmap(NULL, 3 * PG, RW, ANON, -1, 0);
	fill(p, 3, 5);
	mprotect(p + PG, PG, PROT_READ);
	CHECK_ERRNO("over two vmas", mremap(p, 3 * PG, 6 * PG, MREMAP_MAYMOVE), EFAULT);
	CHECK("shrinking over two vmas", mremap(p, 3 * PG, PG, 0) == p && faults(p + PG));
	munmap(p, 3 * PG);

	p = mmap(NULL, 2 * PG, RW, ANON, -1, 0);
	fill(p, 2, 30);
	q = mremap(p, 2 * PG, 2 * PG, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, 0);
	CHECK("DONTUNMAP", q != MAP_FAILED && q != p && holds(q, 2, 30) && p[0] == 0 && p[PG] == 0);
	CHECK_ERRNO("DONTUNMAP needs MAYMOVE", mremap(p, PG, PG, MREMAP_DONTUNMAP), EINVAL);
	CHECK_ERRNO("DONTUNMAP needs equal sizes", mremap(p, PG, 2 * PG, MREMAP_MAYMOVE | MREMAP_DONTUNMAP),
		    EINVAL);
	CHECK_ERRNO("old length 0 of private memory", mremap(p, 0, PG, MREMAP_MAYMOVE), EINVAL);
	munmap(p, 2 * PG);
	munmap(q, 2 * PG);

	fd = mkstemp(name);
	unlink(name);
	ftruncate(fd, 4 * PG);
	pwrite(fd, "AB", 2, 0);
	pwrite(fd, "CD", 2, 3 * PG);
	p = mmap(NULL, 2 * PG, RW, MAP_SHARED, fd, 0);
	q = mremap(p, 2 * PG, 4 * PG, MREMAP_MAYMOVE);
	CHECK("shared file grows", q != MAP_FAILED && q[0] == 'A' && q[3 * PG] == 'C');
	r = mremap(q, 0, 2 * PG, MREMAP_MAYMOVE);
	CHECK("old length 0 duplicates", r != MAP_FAILED && r != q && r[1] == 'B');
	r[1] = 'x';
	CHECK("and shares", q[1] == 'x');
	munmap(q, 4 * PG);
	munmap(r, 2 * PG);
	p = mmap(NULL, PG, RW, MAP_PRIVATE, fd, 0);
	p[0] = 'z';
	q = mremap(p, PG, 4 * PG, MREMAP_MAYMOVE);
	CHECK("private file keeps its copy and grows", q != MAP_FAILED && q[0] == 'z' && q[3 * PG] == 'C');
	p = mremap(q, 4 * PG, 8 * PG, MREMAP_MAYMOVE);
	CHECK("beyond the end of the file", p != MAP_FAILED && p[0] == 'z' && faults(p + 5 * PG));
	munmap(p, 8 * PG);

	/* realloc's pattern: grow again and again. */
	p = mmap(NULL, PG, RW, ANON, -1, 0);
	for (size_t n = 1; n <= 512; n *= 2) {
		fill(p + (n / 2) * PG, n - n / 2, (char)(n / 2));
		q = mremap(p, n * PG, 2 * n * PG, MREMAP_MAYMOVE);
		if (q == MAP_FAILED)
			break;
		p = q;
	}
	CHECK("repeated growth", q != MAP_FAILED && holds(p, 512, 0));
	close(fd);
	return guest_done();
}
