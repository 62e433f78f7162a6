/* SPDX-License-Identifier: Apache-2.0 */
/* The BPF checker and interpreter: accepted and refused programs, results, random programs. */
#include <check.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "sentry/seccomp/seccomp.h"

#define S(code, k)	 ((struct sock_filter)BPF_STMT(code, k))
#define J(code, k, t, f) ((struct sock_filter)BPF_JUMP(code, k, t, f))
#define RUN(d, ...)                                                                                \
	({                                                                                         \
		struct sock_filter p_[] = { __VA_ARGS__ };                                         \
		ck_assert_int_eq(seccomp_bpf_check(p_, sizeof(p_) / sizeof(p_[0])), 0);            \
		seccomp_bpf_run(p_, sizeof(p_) / sizeof(p_[0]), (d));                              \
	})
#define BAD(...)                                                                                   \
	({                                                                                         \
		struct sock_filter p_[] = { __VA_ARGS__ };                                         \
		ck_assert_int_eq(seccomp_bpf_check(p_, sizeof(p_) / sizeof(p_[0])), -EINVAL);      \
	})

static const struct seccomp_data g_data = {
	.nr = 39,
	.arch = 0xc000003e,
	.instruction_pointer = 0x1122334455667788,
	.args = { 1, 2, 3, 4, 5, 0xaabbccdd00112233 },
};

START_TEST(loads_reach_every_word)
{
	ck_assert_uint_eq(RUN(&g_data, S(BPF_LD | BPF_W | BPF_ABS, 0), S(BPF_RET | BPF_A, 0)), 39);
	ck_assert_uint_eq(RUN(&g_data, S(BPF_LD | BPF_W | BPF_ABS, 12), S(BPF_RET | BPF_A, 0)),
			  0x11223344);
	ck_assert_uint_eq(RUN(&g_data, S(BPF_LD | BPF_W | BPF_ABS, 60), S(BPF_RET | BPF_A, 0)),
			  0xaabbccdd);
	ck_assert_uint_eq(RUN(&g_data, S(BPF_LD | BPF_W | BPF_LEN, 0), S(BPF_RET | BPF_A, 0)), 64);
}
END_TEST

START_TEST(arithmetic_wraps_and_division_by_zero_ends)
{
	ck_assert_uint_eq(RUN(&g_data, S(BPF_LD | BPF_IMM, 5), S(BPF_ALU | BPF_SUB | BPF_K, 7),
			      S(BPF_RET | BPF_A, 0)),
			  (uint32_t)-2);
	ck_assert_uint_eq(RUN(&g_data, S(BPF_LD | BPF_IMM, 0x80000000), S(BPF_ALU | BPF_NEG, 0),
			      S(BPF_RET | BPF_A, 0)),
			  0x80000000);
	ck_assert_uint_eq(RUN(&g_data, S(BPF_LD | BPF_IMM, 5), S(BPF_LDX | BPF_IMM, 0),
			      S(BPF_ALU | BPF_DIV | BPF_X, 0), S(BPF_RET | BPF_K, 77)),
			  0);
	ck_assert_uint_eq(RUN(&g_data, S(BPF_LD | BPF_IMM, 1), S(BPF_LDX | BPF_IMM, 33),
			      S(BPF_ALU | BPF_LSH | BPF_X, 0), S(BPF_RET | BPF_A, 0)),
			  2);
}
END_TEST

START_TEST(jumps_go_where_they_say)
{
	for (uint32_t v = 0; v < 4; v++)
		ck_assert_uint_eq(RUN(&g_data, S(BPF_LD | BPF_IMM, v),
				      J(BPF_JMP | BPF_JGT | BPF_K, 1, 2, 0),
				      J(BPF_JMP | BPF_JEQ | BPF_K, 1, 0, 2), S(BPF_RET | BPF_K, 10),
				      S(BPF_RET | BPF_K, 20), S(BPF_RET | BPF_K, 30)),
				  v > 1	   ? 20
				  : v == 1 ? 10
					   : 30);
}
END_TEST

START_TEST(bad_programs_are_refused)
{
	struct sock_filter one = S(BPF_RET | BPF_K, 0);

	ck_assert_int_eq(seccomp_bpf_check(&one, 0), -EINVAL);
	ck_assert_int_eq(seccomp_bpf_check(&one, 4097), -EINVAL);
	BAD(S(BPF_LD | BPF_IMM, 1));
	BAD(S(BPF_LD | BPF_W | BPF_ABS, 2), S(BPF_RET | BPF_K, 0));
	BAD(S(BPF_LD | BPF_W | BPF_ABS, 64), S(BPF_RET | BPF_K, 0));
	BAD(S(BPF_LD | BPF_H | BPF_ABS, 0), S(BPF_RET | BPF_K, 0));
	BAD(S(BPF_LD | BPF_W | BPF_IND, 0), S(BPF_RET | BPF_K, 0));
	BAD(S(BPF_ALU | BPF_DIV | BPF_K, 0), S(BPF_RET | BPF_K, 0));
	BAD(S(BPF_ALU | BPF_MOD | BPF_K, 3), S(BPF_RET | BPF_K, 0));
	BAD(S(BPF_ALU | BPF_LSH | BPF_K, 32), S(BPF_RET | BPF_K, 0));
	BAD(S(BPF_ST, 16), S(BPF_RET | BPF_K, 0));
	BAD(S(BPF_LD | BPF_MEM, 0), S(BPF_RET | BPF_K, 0));
	BAD(J(BPF_JMP | BPF_JA, 1, 0, 0), S(BPF_RET | BPF_K, 0));
	BAD(J(BPF_JMP | BPF_JA, 0xffffffff, 0, 0), S(BPF_RET | BPF_K, 0));
	BAD(J(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0), S(BPF_RET | BPF_K, 0));
	BAD(S(0xffff, 0), S(BPF_RET | BPF_K, 0));
	/* Written on one path only. */
	BAD(J(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1), S(BPF_ST, 1), S(BPF_LD | BPF_MEM, 1),
	    S(BPF_RET | BPF_A, 0));
}
END_TEST

START_TEST(what_is_always_allowed_is_known)
{
	struct sock_filter by_nr[] = {
		S(BPF_LD | BPF_W | BPF_ABS, 0),	       J(BPF_JMP | BPF_JEQ | BPF_K, 5, 1, 0),
		S(BPF_RET | BPF_K, SECCOMP_RET_ALLOW), S(BPF_LD | BPF_W | BPF_ABS, 16),
		S(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	ck_assert_int_eq(seccomp_bpf_always_allows(by_nr, 5, 4, 0xc000003e), 1);
	ck_assert_int_eq(seccomp_bpf_always_allows(by_nr, 5, 5, 0xc000003e), 0);
}
END_TEST

/* Whatever the checker lets through must run to an end, within bounds (the sanitizers watch). */
START_TEST(random_programs_are_harmless)
{
	static const uint16_t codes[] = { BPF_LD | BPF_W | BPF_ABS,
					  BPF_LD | BPF_MEM,
					  BPF_ST,
					  BPF_STX,
					  BPF_ALU | BPF_DIV | BPF_X,
					  BPF_ALU | BPF_LSH | BPF_K,
					  BPF_JMP | BPF_JA,
					  BPF_JMP | BPF_JEQ | BPF_K,
					  BPF_JMP | BPF_JSET | BPF_X,
					  BPF_MISC | BPF_TAX,
					  BPF_RET | BPF_A,
					  BPF_LDX | BPF_IMM,
					  BPF_ALU | BPF_MUL | BPF_X };
	int accepted = 0;

	srand(4711);
	for (int round = 0; round < 50000; round++) {
		struct sock_filter p[12];
		unsigned int len = 1 + (unsigned int)rand() % 12;

		for (unsigned int i = 0; i < len; i++) {
			p[i].code = codes[(size_t)rand() % (sizeof(codes) / sizeof(codes[0]))];
			p[i].k = (uint32_t)rand() % 20;
			p[i].jt = (uint8_t)(rand() % 6);
			p[i].jf = (uint8_t)(rand() % 6);
		}
		p[len - 1].code = BPF_RET | BPF_A;
		if (seccomp_bpf_check(p, len) == 0) {
			accepted++;
			seccomp_bpf_run(p, len, &g_data);
		}
	}
	ck_assert_int_gt(accepted, 1000);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("seccomp_bpf");
	TCase *tc = tcase_create("bpf");

	tcase_add_test(tc, loads_reach_every_word);
	tcase_add_test(tc, arithmetic_wraps_and_division_by_zero_ends);
	tcase_add_test(tc, jumps_go_where_they_say);
	tcase_add_test(tc, bad_programs_are_refused);
	tcase_add_test(tc, what_is_always_allowed_is_known);
	tcase_add_test(tc, random_programs_are_harmless);
	suite_add_tcase(s, tc);
	SRunner *r = srunner_create(s);

	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);

	srunner_free(r);
	return failed != 0;
}
