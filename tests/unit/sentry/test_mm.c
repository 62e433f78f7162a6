/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The VMA tree against a page-by-page model, with a host that is an array of pages: after every
 * random operation tree, host and model must agree.
 */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "platform/platform_priv.h"
#include "sentry/mm/mm_priv.h"
#include "sentry/task/task.h"

#define PAGES 256u
#define BASE  GUEST_MIN_ADDR
#define END   (BASE + PAGES * 4096ull)

struct page {
	int mapped, prot;
	uint64_t tag;	/* identity of the memory: moves with mremap */
	uint64_t piece; /* pages of one host mapping: the host moves only within one */
};

static struct page g_host[PAGES], g_model[PAGES];
static uint64_t g_tag, g_piece;
static int g_fail_next; /* the next host order fails with this errno */

/* ---- the host ---- */

static int host_one(const struct mem_op *op)
{
	size_t first = (op->addr - BASE) / 4096, n = op->len / 4096, to;

	if (op->addr < BASE || op->addr + op->len > END)
		return 0; /* outside the model: always fine */
	switch (op->kind) {
	case MEM_MAP:
		g_piece++;
		for (size_t i = 0; i < n; i++)
			g_host[first + i] = (struct page){ 1, op->prot, ++g_tag, g_piece };
		return 0;
	case MEM_UNMAP:
		memset(&g_host[first], 0, n * sizeof(g_host[0]));
		return 0;
	case MEM_PROTECT:
		for (size_t i = 0; i < n; i++) {
			if (!g_host[first + i].mapped)
				return -ENOMEM;
			g_host[first + i].prot = op->prot;
		}
		return 0;
	case MEM_REMAP:
		for (size_t i = 0; i < n; i++) {
			if (!g_host[first + i].mapped ||
			    g_host[first + i].piece != g_host[first].piece)
				return -EFAULT;
		}
		to = (op->addr2 - BASE) / 4096;
		ck_assert(op->addr2 >= BASE && op->addr2 + op->len2 <= END);
		for (size_t i = 0; i < op->len2 / 4096; i++) {
			if (i < n)
				g_host[to + i] = g_host[first + i];
			else
				g_host[to + i] = (struct page){ 1, g_host[first].prot, ++g_tag,
								g_host[first].piece };
		}
		memset(&g_host[first], 0, n * sizeof(g_host[0]));
		return 0;
	default:
		return 0;
	}
}

static int host_mem(struct context *c, const struct mem_op *ops, size_t count, size_t *done)
{
	(void)c;
	for (size_t i = 0; i < count; i++) {
		int err = g_fail_next ? g_fail_next : host_one(&ops[i]);

		g_fail_next = 0;
		if (err) {
			if (done)
				*done = i;
			return err;
		}
	}
	return 0;
}

static ssize_t host_read(struct addrspace *as, uint64_t from, void *buf, size_t len)
{
	(void)as;
	(void)from;
	(void)buf;
	(void)len;
	return -EFAULT;
}

static ssize_t host_write(struct addrspace *as, uint64_t to, const void *buf, size_t len)
{
	(void)as;
	(void)to;
	(void)buf;
	(void)len;
	return -EFAULT;
}

static void host_put(struct addrspace *as)
{
	(void)as;
}

static struct addrspace g_as;

static int host_fork(struct context *parent, struct addrspace **as, struct context **child)
{
	(void)parent;
	*as = &g_as;
	*child = NULL;
	return 0;
}

/* ---- fixture ---- */

static const struct platform_ops g_ops = {
	.as_put = host_put,
	.as_read = host_read,
	.as_write = host_write,
	.mem = host_mem,
	.as_fork = host_fork,
};

static struct addrspace g_as = { .ops = &g_ops };
static struct context g_ctx = { .ops = &g_ops, .as = &g_as };

/* Defined here so that the archive member with main() is not linked. */
static struct kernel g_k;
static struct thread_group g_tg;
static struct task g_task;

static struct mm *setup_mm(void)
{
	struct mm *mm;

	memset(&g_task, 0, sizeof(g_task));
	memset(&g_tg, 0, sizeof(g_tg));
	memset(g_host, 0, sizeof(g_host));
	memset(g_model, 0, sizeof(g_model));
	lock_init(&g_k.tasks_lock, RANK_TASKS);
	lock_init(&g_tg.rlimit_lock, RANK_LEAF);
	for (int i = 0; i < RLIM_NLIMITS; i++)
		g_tg.rlimits[i].rlim_cur = g_tg.rlimits[i].rlim_max = RLIM_INFINITY;
	g_task.k = &g_k;
	g_task.ctx = &g_ctx;
	g_task.tg = &g_tg;
	g_task.cred = cred_new(0, 0, CAP_ALL_MASK);
	mm = mm_new(&g_k, &g_as);
	mm->mmap_base = END;
	g_task.mm = mm;
	return mm;
}

/* check's own macro writes a message even when all is well, which costs seconds here. */
#define AGREE(cond, ...)                                                                           \
	do {                                                                                       \
		if (!(cond))                                                                       \
			ck_abort_msg(__VA_ARGS__);                                                 \
	} while (0)

static void check_agree(struct mm *mm, const char *what)
{
	uint64_t total = 0;

	lock_acquire(&mm->lock);
	for (size_t i = 0; i < mm->vma_count; i++) {
		struct vma *v = mm->vmas[i];

		AGREE(v->start < v->end, "%s: empty vma", what);
		if (i) {
			struct vma *p = mm->vmas[i - 1];

			AGREE(p->end <= v->start, "%s: overlap", what);
			AGREE(p->end < v->start || p->prot != v->prot || p->flags != v->flags,
			      "%s: unmerged neighbours at %lx", what, v->start);
		}
		total += (v->end - v->start) / 4096;
	}
	AGREE(total == mm->total_pages, "%s: accounting", what);
	for (size_t i = 0; i < PAGES; i++) {
		struct vma *v = vma_find(mm, BASE + i * 4096);

		AGREE(!!v == g_model[i].mapped, "%s: page %zu tree %d model %d", what, i, !!v,
		      g_model[i].mapped);
		AGREE(g_host[i].mapped == g_model[i].mapped, "%s: page %zu host", what, i);
		if (v) {
			AGREE((int)v->prot == g_model[i].prot, "%s: prot of %zu", what, i);
			AGREE(g_host[i].prot == g_model[i].prot, "%s: host prot %zu", what, i);
			if (g_model[i].tag)
				AGREE(g_host[i].tag == g_model[i].tag, "%s: content %zu", what, i);
		}
	}
	lock_release(&mm->lock);
}

/* The model learns the tags of pages that the host has just made. */
static void learn(size_t first, size_t n)
{
	for (size_t i = first; i < first + n; i++)
		g_model[i].tag = g_host[i].tag;
}

static void model_map(size_t first, size_t n, int prot)
{
	for (size_t i = first; i < first + n; i++)
		g_model[i] = (struct page){ 1, prot, 0, 0 };
	learn(first, n);
}

static int rnd(int n)
{
	return rand() % n;
}

static const int g_prots[] = { PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE,
			       PROT_READ | PROT_EXEC };

static void op_map(void)
{
	size_t n = 1 + (size_t)rnd(20), at = (size_t)rnd((int)(PAGES - n));
	int prot = g_prots[rnd(4)], fixed = rnd(2);
	int64_t r = mm_map(&g_task, BASE + at * 4096, n * 4096, prot,
			   MAP_PRIVATE | MAP_ANONYMOUS | (fixed ? MAP_FIXED : 0), NULL, 0);

	ck_assert(r > 0);
	if ((uint64_t)r >= END) {
		ck_assert(!fixed);
		ck_assert_int_eq(mm_unmap(&g_task, (uint64_t)r, n * 4096), 0);
		return;
	}
	if (fixed)
		ck_assert(r == (int64_t)(BASE + at * 4096));
	at = ((uint64_t)r - BASE) / 4096;
	for (size_t i = 0; i < n && !fixed; i++)
		ck_assert(!g_model[at + i].mapped);
	model_map(at, n, prot);
}

static void op_unmap(void)
{
	size_t n = 1 + (size_t)rnd(30), at = (size_t)rnd((int)(PAGES - n));

	ck_assert_int_eq(mm_unmap(&g_task, BASE + at * 4096, n * 4096), 0);
	memset(&g_model[at], 0, n * sizeof(g_model[0]));
}

static void op_protect(void)
{
	size_t n = 1 + (size_t)rnd(30), at = (size_t)rnd((int)(PAGES - n)), i;
	int prot = g_prots[rnd(4)];
	int r = mm_protect(&g_task, BASE + at * 4096, n * 4096, prot, -1);

	for (i = 0; i < n && g_model[at + i].mapped; i++)
		g_model[at + i].prot = prot;
	ck_assert_int_eq(r, i == n ? 0 : -ENOMEM);
}

static void op_remap(void)
{
	size_t n = 1 + (size_t)rnd(12), m = 1 + (size_t)rnd(20), at = (size_t)rnd((int)(PAGES - n)),
	       i;
	struct page saved[64];
	int64_t r = mm_remap(&g_task, BASE + at * 4096, n * 4096, m * 4096, MREMAP_MAYMOVE, 0);
	size_t to, keep = n < m ? n : m;

	if (r < 0) {
		ck_assert(r == -EFAULT || r == -ENOMEM);
		if (r == -EFAULT) {
			int one = g_model[at].mapped;

			for (i = 1; i < n; i++)
				one &= g_model[at + i].mapped &&
				       g_model[at + i].prot == g_model[at].prot;
			ck_assert_msg(!one || n < m, "mremap refused one vma");
		}
		return;
	}
	ck_assert(g_model[at].mapped);
	if ((uint64_t)r >= END)
		ck_abort_msg("moved outside");
	to = ((uint64_t)r - BASE) / 4096;
	memcpy(saved, &g_model[at], keep * sizeof(saved[0]));
	memset(&g_model[at], 0, n * sizeof(g_model[0]));
	memcpy(&g_model[to], saved, keep * sizeof(saved[0]));
	for (i = keep; i < m; i++)
		g_model[to + i] = (struct page){ 1, saved[0].prot, 0, 0 };
	learn(to + keep, m - keep);
}

START_TEST(random_operations_keep_tree_host_and_model_equal)
{
	struct mm *mm;

	srand(7);
	for (int round = 0; round < 40; round++) {
		mm = setup_mm();
		/* Nothing may be placed above the model by the fallback, or moves would leave it.
		 */
		for (int i = 0; i < 300; i++) {
			static void (*const ops[])(void) = { op_map, op_unmap, op_protect,
							     op_remap };
			static const char *const names[] = { "mmap", "munmap", "mprotect",
							     "mremap" };
			int k = rnd(4);
			size_t free_run = 0, best = 0;

			for (size_t j = 0; j < PAGES; j++) {
				free_run = g_model[j].mapped ? 0 : free_run + 1;
				best = free_run > best ? free_run : best;
			}
			if (best < 24)
				k = 1;
			ops[k]();
			check_agree(mm, names[k]);
		}
		mm_put(mm);
		cred_put(g_task.cred);
	}
}
END_TEST

START_TEST(a_failed_host_order_leaves_tree_and_host_equal)
{
	struct mm *mm = setup_mm();

	ck_assert(mm_map(&g_task, BASE, 8 * 4096, PROT_READ,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, NULL, 0) > 0);
	model_map(0, 8, PROT_READ);
	g_fail_next = -ENOMEM;
	ck_assert_int_eq(mm_protect(&g_task, BASE + 4096, 2 * 4096, PROT_NONE, -1), -ENOMEM);
	check_agree(mm, "mprotect");
	g_fail_next = -ENOMEM;
	ck_assert_int_eq(mm_unmap(&g_task, BASE + 4096, 2 * 4096), -ENOMEM);
	check_agree(mm, "munmap");
	g_fail_next = -ENOMEM;
	ck_assert(mm_map(&g_task, BASE + 2 * 4096, 2 * 4096, PROT_READ,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, NULL, 0) == -ENOMEM);
	memset(&g_model[2], 0, 2 * sizeof(g_model[0]));
	check_agree(mm, "mmap");
	mm_put(mm);
}
END_TEST

START_TEST(arguments_are_checked_as_linux_checks_them)
{
	struct mm *mm = setup_mm();
	const int anon = MAP_PRIVATE | MAP_ANONYMOUS;

	ck_assert_int_eq(mm_map(&g_task, 0, 0, PROT_READ, anon, NULL, 0), -EINVAL);
	ck_assert_int_eq(mm_map(&g_task, 0, 4096, PROT_READ, MAP_ANONYMOUS, NULL, 0), -EINVAL);
	ck_assert_int_eq(mm_map(&g_task, 0, UINT64_MAX, PROT_READ, anon, NULL, 0), -ENOMEM);
	ck_assert_int_eq(mm_map(&g_task, BASE + 1, 4096, PROT_READ, anon | MAP_FIXED, NULL, 0),
			 -EINVAL);
	ck_assert_int_eq(mm_map(&g_task, 0, 4096, PROT_READ, anon | MAP_FIXED, NULL, 0), -EPERM);
	ck_assert_int_eq(
		mm_map(&g_task, GUEST_TASK_SIZE, 4096, PROT_READ, anon | MAP_FIXED, NULL, 0),
		-ENOMEM);
	ck_assert_int_eq(mm_map(&g_task, 0, 2 << 20, PROT_READ, anon | MAP_HUGETLB, NULL, 0),
			 -ENOMEM);
	ck_assert_int_eq(mm_unmap(&g_task, BASE + 1, 4096), -EINVAL);
	ck_assert_int_eq(mm_unmap(&g_task, BASE, 0), -EINVAL);
	ck_assert_int_eq(mm_unmap(&g_task, GUEST_TASK_SIZE, 4096), -EINVAL);
	ck_assert_int_eq(mm_protect(&g_task, BASE, 4096, PROT_READ, -1), -ENOMEM);
	ck_assert_int_eq(mm_protect(&g_task, BASE, 0, PROT_READ, -1), 0);
	ck_assert_int_eq(mm_protect(&g_task, BASE, 4096, 0x40, -1), -EINVAL);
	ck_assert_int_eq(mm_remap(&g_task, BASE, 4096, 0, 0, 0), -EINVAL);
	ck_assert_int_eq(mm_remap(&g_task, BASE, 4096, 8192, 0, 0), -EFAULT);
	ck_assert_int_eq(mm_remap(&g_task, BASE, 4096, 8192, MREMAP_FIXED, BASE), -EINVAL);
	/* Reservations of any size: Go, Java and sanitizers make them. */
	mm->mmap_base = GUEST_TASK_SIZE;
	ck_assert(mm_map(&g_task, 0, 1ull << 44, PROT_NONE, anon | MAP_NORESERVE, NULL, 0) > 0);
	ck_assert(mm_map(&g_task, 0, 1ull << 44, PROT_READ | PROT_WRITE, anon | MAP_NORESERVE, NULL,
			 0) > 0);
	mm_put(mm);
}
END_TEST

START_TEST(a_stack_keeps_its_guard_gap_and_grows)
{
	struct mm *mm = setup_mm();
	uint64_t top = 0x7000000000ull, start = top - 16 * 4096;
	struct platform_event ev = { .kind = EVENT_FAULT };
	int64_t r;

	mm->mmap_base = top;
	ck_assert(mm_map(&g_task, start, 16 * 4096, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_GROWSDOWN, NULL, 0) > 0);
	r = mm_map(&g_task, 0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, NULL, 0);
	ck_assert((uint64_t)r + 4096 == start - STACK_GUARD_GAP);
	/* Flush with the gap there is no room to grow, as on Linux. */
	ck_assert_int_eq(mm_grow_stack(&g_task, start - 8), -ENOMEM);
	ck_assert_int_eq(mm_unmap(&g_task, (uint64_t)r, 4096), 0);
	r -= 4 << 20;
	ck_assert(mm_map(&g_task, (uint64_t)r, 4096, PROT_READ,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, NULL, 0) == r);
	ev.fault.signo = SIGSEGV;
	ev.fault.addr = start - 8;
	ev.fault.trapno = 14;
	ev.fault.access = FAULT_WRITE;
	ck_assert_int_eq(mm_fault(&g_task, &ev), 0);
	lock_acquire(&mm->lock);
	ck_assert_ptr_nonnull(vma_find(mm, start - 8));
	lock_release(&mm->lock);
	/* Beyond the gap to the mapping below it is a plain fault. */
	ev.fault.addr = (uint64_t)r + 4096 + 8;
	ck_assert_int_ne(mm_fault(&g_task, &ev), 0);
	ck_assert_int_eq(ev.fault.code, SEGV_MAPERR);
	mm_put(mm);
}
END_TEST

START_TEST(brk_moves_both_ways_and_stays_on_failure)
{
	struct mm *mm = setup_mm();

	mm->brk_start = mm->brk = BASE + 100;
	ck_assert(mm_brk(&g_task, 0) == BASE + 100);
	ck_assert(mm_brk(&g_task, BASE + 5 * 4096) == BASE + 5 * 4096);
	model_map(1, 4, PROT_READ | PROT_WRITE);
	check_agree(mm, "brk up");
	ck_assert(mm_brk(&g_task, BASE + 2 * 4096) == BASE + 2 * 4096);
	memset(&g_model[2], 0, 3 * sizeof(g_model[0]));
	check_agree(mm, "brk down");
	ck_assert(mm_map(&g_task, BASE + 10 * 4096, 4096, PROT_READ,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, NULL, 0) > 0);
	ck_assert(mm_brk(&g_task, BASE + 11 * 4096) == BASE + 2 * 4096);
	g_tg.rlimits[RLIMIT_DATA].rlim_cur = 4096;
	ck_assert(mm_brk(&g_task, BASE + 4 * 4096) == BASE + 2 * 4096);
	mm_put(mm);
}
END_TEST

START_TEST(fork_leaves_out_dontfork_ranges)
{
	struct mm *mm = setup_mm(), *child;
	struct context *ctx;

	ck_assert(mm_map(&g_task, BASE, 4 * 4096, PROT_READ,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, NULL, 0) > 0);
	ck_assert_int_eq(mm_advise(&g_task, BASE + 4096, 4096, MADV_DONTFORK), 0);
	child = mm_fork(&g_task, &ctx);
	ck_assert(!IS_ERR(child));
	lock_acquire(&child->lock);
	ck_assert_ptr_nonnull(vma_find(child, BASE));
	ck_assert_ptr_null(vma_find(child, BASE + 4096));
	ck_assert_ptr_nonnull(vma_find(child, BASE + 2 * 4096));
	ck_assert(child->total_pages == 3);
	lock_release(&child->lock);
	mm_put(child);
	mm_put(mm);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("mm");
	TCase *tc = tcase_create("mm");
	SRunner *sr;
	int failed;

	tcase_add_test(tc, random_operations_keep_tree_host_and_model_equal);
	tcase_add_test(tc, a_failed_host_order_leaves_tree_and_host_equal);
	tcase_add_test(tc, arguments_are_checked_as_linux_checks_them);
	tcase_add_test(tc, a_stack_keeps_its_guard_gap_and_grows);
	tcase_add_test(tc, brk_moves_both_ways_and_stays_on_failure);
	tcase_add_test(tc, fork_leaves_out_dontfork_ranges);
	suite_add_tcase(s, tc);
	sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? 1 : 0;
}
