/* SPDX-License-Identifier: Apache-2.0 */
/* Byte-range locks against a table of bytes, deadlocks, and the two other kinds of locks. */
#include "tests/unit/vfs/fixture.h"

#define BYTES 40
#define OWNERS 4

static char g_held[OWNERS][BYTES]; /* 0, 'r' or 'w' */
static uint64_t g_seed = 99;

static uint32_t rnd(uint32_t below)
{
	g_seed = g_seed * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(g_seed >> 33) % below;
}

static int model_conflict(uint32_t owner, char want, int s, int e)
{
	for (uint32_t o = 0; o < OWNERS; o++)
		for (int b = s; b <= e && o != owner; b++)
			if (g_held[o][b] == 'w' || (g_held[o][b] && want == 'w'))
				return 1;
	return 0;
}

/* Runs of one type as F_GETLK by a stranger would have to see them. */
static void check_against_model(struct file *f)
{
	for (uint32_t o = 0; o < OWNERS; o++)
		for (int b = 0; b < BYTES; b++) {
			/* Ask as another owner for a write lock on one byte. */
			struct flock_req rq = {.type = F_WRLCK, .start = b, .end = b, .owner = 77};
			int held = 0, writer = 0;

			for (uint32_t k = 0; k < OWNERS; k++) {
				held |= g_held[k][b] != 0;
				writer |= g_held[k][b] == 'w';
			}
			flock_test(f, &rq);
			ck_assert_int_eq(rq.type != F_UNLCK, held);
			rq = (struct flock_req){.type = F_RDLCK, .start = b, .end = b, .owner = 77};
			flock_test(f, &rq);
			ck_assert_int_eq(rq.type != F_UNLCK, writer);
			if (!writer)
				continue;
			/* The run reported is the merged one. */
			for (uint32_t k = 0; k < OWNERS; k++) {
				int s = b, e = b;

				if (g_held[k][b] != 'w')
					continue;
				while (s > 0 && g_held[k][s - 1] == 'w')
					s--;
				while (e < BYTES - 1 && g_held[k][e + 1] == 'w')
					e++;
				ck_assert_int_eq(rq.start, s);
				ck_assert_int_eq(rq.end, e);
			}
		}
}

START_TEST(ranges_merge_and_split_like_bytes)
{
	struct file *f = fix_open("/x", O_CREAT | O_RDWR, 0600);

	for (int i = 0; i < 20000; i++) {
		uint32_t owner = rnd(OWNERS), kind = rnd(3);
		int s = (int)rnd(BYTES), e = s + (int)rnd((uint32_t)(BYTES - s));
		struct flock_req rq = {
			.type = (int16_t)(kind == 0 ? F_UNLCK : kind == 1 ? F_RDLCK : F_WRLCK),
			.start = s, .end = e, .owner = owner, .pid = 1,
		};
		char want = kind == 0 ? 0 : kind == 1 ? 'r' : 'w';
		struct waitq *q = NULL;
		int r = flock_set(f, &rq, &q);

		if (want && model_conflict(owner, want, s, e)) {
			ck_assert_int_eq(r, -EAGAIN);
			ck_assert_ptr_nonnull(q);
		} else {
			ck_assert_int_eq(r, 0);
			memset(&g_held[owner][s], want, (size_t)(e - s + 1));
		}
		if (i % 50 == 0)
			check_against_model(f);
	}
	for (uint64_t o = 0; o < OWNERS; o++)
		file_flush(f, o);
	memset(g_held, 0, sizeof(g_held));
	check_against_model(f);
	file_put(f);
}
END_TEST

static int set(struct file *f, uint64_t owner, int type, int64_t s, int64_t e)
{
	struct flock_req rq = {.type = (int16_t)type, .start = s, .end = e, .owner = owner, .pid = 7};

	return flock_set(f, &rq, NULL);
}

START_TEST(cycles_of_waiters_are_refused)
{
	struct file *f = fix_open("/x", O_CREAT | O_RDWR, 0600);
	struct file *g = fix_open("/y", O_CREAT | O_RDWR, 0600);
	struct flock_req a = {.type = F_WRLCK, .start = 0, .end = 0, .owner = 1};
	struct flock_req b = {.type = F_WRLCK, .start = 0, .end = 0, .owner = 2};
	struct flock_req c = {.type = F_WRLCK, .start = 5, .end = 5, .owner = 3};

	ck_assert_int_eq(set(f, 2, F_WRLCK, 0, 0), 0);
	ck_assert_int_eq(set(g, 3, F_WRLCK, 0, 0), 0);
	ck_assert_int_eq(set(f, 1, F_WRLCK, 5, 5), 0);
	ck_assert_int_eq(flock_will_wait(f, &a), 0);	    /* 1 waits for 2 */
	ck_assert_int_eq(flock_will_wait(g, &b), 0);	    /* 2 waits for 3 */
	ck_assert_int_eq(flock_will_wait(f, &c), -EDEADLK); /* 3 would wait for 1 */
	flock_waited(&b);
	ck_assert_int_eq(flock_will_wait(f, &c), 0);
	flock_waited(&a);
	flock_waited(&c);
	flock_waited(&c);
	file_put(f);
	file_put(g);
}
END_TEST

START_TEST(kinds_live_side_by_side)
{
	struct file *f = fix_open("/x", O_CREAT | O_RDWR, 0600);
	struct file *g = fix_open("/x", O_RDWR, 0);
	struct flock_req ff = {.type = F_WRLCK, .end = INT64_MAX, .owner = (uintptr_t)f, .kind = 2};
	struct flock_req gg = {.type = F_RDLCK, .end = INT64_MAX, .owner = (uintptr_t)g, .kind = 2};
	struct flock_req ofd = {.type = F_WRLCK, .end = 9, .owner = (uintptr_t)f, .kind = 1, .pid = -1};
	struct strbuf sb;

	ck_assert_int_eq(flock_set(f, &ff, NULL), 0);
	ck_assert_int_eq(flock_set(g, &gg, NULL), -EAGAIN);
	ck_assert_int_eq(set(f, 5, F_WRLCK, 20, INT64_MAX), 0); /* flock does not bother POSIX */
	ck_assert_int_eq(flock_set(f, &ofd, NULL), 0);
	ck_assert_int_eq(set(g, 5, F_RDLCK, 9, 9), -EAGAIN); /* OFD does */
	strbuf_init(&sb);
	flock_show_all(g_vfs, &sb);
	ck_assert_ptr_nonnull(strstr(sb.data, "1: FLOCK  ADVISORY  WRITE 0 "));
	ck_assert_ptr_nonnull(strstr(sb.data, "2: OFDLCK ADVISORY  WRITE -1 "));
	ck_assert_ptr_nonnull(strstr(sb.data, "3: POSIX  ADVISORY  WRITE 7 "));
	ck_assert_ptr_nonnull(strstr(sb.data, " 20 EOF\n"));
	strbuf_free(&sb);
	/* Closing the description drops its locks; POSIX ones go with their owner. */
	file_put(f);
	ck_assert_int_eq(flock_set(g, &gg, NULL), 0);
	ck_assert_int_eq(set(g, 6, F_RDLCK, 9, 9), 0);
	ck_assert_int_eq(set(g, 6, F_RDLCK, 20, 20), -EAGAIN);
	file_flush(g, 5);
	ck_assert_int_eq(set(g, 6, F_RDLCK, 20, 20), 0);
	/* A failed conversion loses the lock it had. */
	f = fix_open("/x", O_RDWR, 0);
	ff = (struct flock_req){.type = F_RDLCK, .end = INT64_MAX, .owner = (uintptr_t)f, .kind = 2};
	ck_assert_int_eq(flock_set(f, &ff, NULL), 0);
	ff.type = F_WRLCK;
	ck_assert_int_eq(flock_set(f, &ff, NULL), -EAGAIN);
	gg.type = F_WRLCK;
	ck_assert_int_eq(flock_set(g, &gg, NULL), 0);
	file_put(f);
	file_put(g);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		ranges_merge_and_split_like_bytes, cycles_of_waiters_are_refused,
		kinds_live_side_by_side,
	};
	Suite *s = suite_create("flock");
	TCase *tc = tcase_create("all");

	tcase_add_checked_fixture(tc, fix_setup, fix_teardown);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		tcase_add_test(tc, tests[i]);
	suite_add_tcase(s, tc);
	return fix_run(s);
}
