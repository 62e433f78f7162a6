/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hostile text for the decoder of syscall sites. Random bytes, and random rows of plausible
 * instructions, go into patch_scan(); what it takes must keep its promises: the displaced bytes
 * are whole instructions from where they begin, none of them transfers control, and no boundary
 * lies on the jump's opcode.
 *
 *   patch_fuzz [ROUNDS [SEED]]     plain program; the default is 200000 rounds
 *   -DFUZZ_LIBFUZZER               leaves out main(): input is the text before the syscall
 */
#include <capstone/capstone.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "platform/systrap/patch_scan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static csh g_cs;
static uint64_t g_verdicts[PATCH_VERDICTS];

static void fail(const char *why, const uint8_t *code, size_t n)
{
	fprintf(stderr, "FAIL: %s:", why);
	for (size_t i = 0; i < n; i++)
		fprintf(stderr, " %02x", code[i]);
	fprintf(stderr, "\n");
	abort();
}

static void check(const uint8_t *code, size_t before, const struct patch_plan *p)
{
	const uint8_t *at = code + before - p->length, *start = at;
	size_t left = p->length + 2u;
	uint64_t address = 0;
	cs_insn *insn = cs_malloc(g_cs);
	uint8_t seen = 0;

	if (p->length < PATCH_JUMP_SIZE - 2 || p->length > before || p->length > 12)
		fail("length", code, before);
	while (at < code + before) {
		size_t b = (size_t)(at - start);

		if (b && b < PATCH_JUMP_SIZE)
			seen |= (uint8_t)(1u << b);
		if (!cs_disasm_iter(g_cs, &at, &left, &address, insn))
			fail("not an instruction", code, before);
		if (cs_insn_group(g_cs, insn, CS_GRP_JUMP) || cs_insn_group(g_cs, insn, CS_GRP_CALL) ||
		    cs_insn_group(g_cs, insn, CS_GRP_RET) || cs_insn_group(g_cs, insn, CS_GRP_INT))
			fail("transfer", code, before);
	}
	if (at != code + before)
		fail("runs into the syscall", code, before);
	if (p->length < PATCH_JUMP_SIZE)
		seen |= (uint8_t)(1u << p->length);
	if (seen != p->boundaries || seen & 7)
		fail("boundaries", code, before);
	if (p->trap_low != (seen >> 3 & 1) || p->trap_mid != (seen >> 4 & 1))
		fail("traps", code, before);
	cs_free(insn, 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t code[PATCH_SCAN_BEFORE + 2];
	struct patch_plan plan;

	if (!g_cs) {
		if (patch_scan_start() || cs_open(CS_ARCH_X86, CS_MODE_64, &g_cs))
			abort();
		cs_option(g_cs, CS_OPT_DETAIL, CS_OPT_ON);
	}
	if (size > PATCH_SCAN_BEFORE)
		size = PATCH_SCAN_BEFORE;
	if (size)
		memcpy(code, data, size);
	memcpy(code + size, "\x0f\x05", 2);
	enum patch_verdict v = patch_scan(code, size, &plan);

	g_verdicts[v]++;
	if (v == PATCH_OK)
		check(code, size, &plan);
	return 0;
}

#ifndef FUZZ_LIBFUZZER
static uint64_t g_seed = 88172645463325252ull;

static uint32_t rnd(void)
{
	g_seed ^= g_seed << 13;
	g_seed ^= g_seed >> 7;
	g_seed ^= g_seed << 17;
	return (uint32_t)(g_seed >> 24);
}

/* What stands before syscalls, and what must not be moved. */
static const char *const g_pieces[] = {
	"\xb8\x27\x01\x01\x01", "\x48\x89\xc7",	    "\x31\xc0",		"\x4c\x8b\x4c\x24\x08",
	"\x41\xb8\x01\x02\x03\x04", "\x48\xc7\xc0\x01\x01\x01\x01", "\x75\x02", "\xc3",
	"\xe8\x01\x02\x03\x04", "\x8b\x05\x01\x02\x03\x04", "\x0f\x05", "\x90", "\x50", "\x66\x90",
	"\x48\xb8\x01\x02\x03\x04\xb8\x06\x07\x08", "\xf3\x0f\x1e\xfa", "\x64\x89\x01",
	"\xeb\xb8", "\x48\x8d\x74\x24\x10", "\x45\x31\xc0",
};

static size_t make(uint8_t *text, size_t max)
{
	size_t n = rnd() % (max + 1);

	for (size_t i = 0; i < n;) {
		if (rnd() % 8 == 0) {
			text[i++] = (uint8_t)rnd();
			continue;
		}
		const char *p = g_pieces[rnd() % (sizeof(g_pieces) / sizeof(g_pieces[0]))];

		for (size_t k = 0; p[k] && i < n; k++)
			text[i++] = (uint8_t)p[k];
	}
	return n;
}

int main(int argc, char **argv)
{
	long rounds = argc > 1 ? atol(argv[1]) : 200000;
	uint8_t text[PATCH_SCAN_BEFORE + 8];

	if (argc > 2)
		g_seed ^= strtoull(argv[2], NULL, 0) * 0x9e3779b97f4a7c15ull;
	for (long i = 0; i < rounds; i++) {
		size_t n = make(text, sizeof(text));

		if (i % 4 == 0)
			for (size_t k = 0; k < n; k++)
				text[k] = (uint8_t)rnd();
		LLVMFuzzerTestOneInput(text, n);
	}
	for (int v = 0; v < PATCH_VERDICTS; v++)
		printf("%s %llu\n", patch_verdict_name((enum patch_verdict)v),
		       (unsigned long long)g_verdicts[v]);
	return 0;
}
#endif
