/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where instructions begin before a syscall site, by capstone. Backward decoding of x86 has no
 * unique answer, so the text is decoded forward from every byte of a stretch before the site. Most
 * wrong starts fall into step within a few instructions. Only when every decoding that arrives at
 * the syscall has the same boundaries in the bytes to be displaced, and enough of them arrive, is
 * the site taken.
 */
#include <capstone/capstone.h>
#include <errno.h>
#include <string.h>

#include "platform/base/assert.h"
#include "platform/systrap/patch_scan.h"

#define MIN_AGREEING 6 /* decodings from different starts */
#define MAX_INSN 15
#define MAX_DISPLACED 12

static csh g_cs;
static cs_insn *g_insn;

static const char *const g_names[PATCH_VERDICTS] = {
	[PATCH_OK] = "patched",	      [PATCH_SHORT] = "short",	       [PATCH_AMBIGUOUS] = "ambiguous",
	[PATCH_BRANCH] = "branch",    [PATCH_RELATIVE] = "rip-relative", [PATCH_UNKNOWN] = "unknown",
	[PATCH_BOUNDARY] = "boundary", [PATCH_FULL] = "full",	       [PATCH_MEMORY] = "memory",
};

const char *patch_verdict_name(enum patch_verdict v)
{
	return v < PATCH_VERDICTS ? g_names[v] : "?";
}

int patch_scan_start(void)
{
	if (g_insn)
		return 0;
	if (cs_open(CS_ARCH_X86, CS_MODE_64, &g_cs) != CS_ERR_OK)
		return -ENOMEM;
	if (cs_option(g_cs, CS_OPT_DETAIL, CS_OPT_ON) != CS_ERR_OK || !(g_insn = cs_malloc(g_cs))) {
		cs_close(&g_cs);
		return -ENOMEM;
	}
	return 0;
}

void patch_scan_stop(void)
{
	if (!g_insn)
		return;
	cs_free(g_insn, 1);
	g_insn = NULL;
	cs_close(&g_cs);
}

/* Length of the instruction at code, or 0; it is left in g_insn. */
static size_t decode(const uint8_t *code, size_t size)
{
	const uint8_t *at = code;
	uint64_t address = 0;

	if (!cs_disasm_iter(g_cs, &at, &size, &address, g_insn))
		return 0;
	return g_insn->size;
}

/* Only what compilers put before a syscall; it must mean the same at another address. */
static enum patch_verdict movable(void)
{
	const cs_x86 *x = &g_insn->detail->x86;

	for (uint8_t i = 0; i < g_insn->detail->groups_count; i++) {
		switch (g_insn->detail->groups[i]) {
		case X86_GRP_JUMP:
		case X86_GRP_CALL:
		case X86_GRP_RET:
		case X86_GRP_INT:
		case X86_GRP_IRET:
		case X86_GRP_BRANCH_RELATIVE:
			return PATCH_BRANCH;
		case X86_GRP_PRIVILEGE:
			return PATCH_UNKNOWN;
		default:
			break;
		}
	}
	for (uint8_t i = 0; i < x->op_count; i++) {
		if (x->operands[i].type == X86_OP_MEM &&
		    (x->operands[i].mem.base == X86_REG_RIP || x->operands[i].mem.base == X86_REG_EIP))
			return PATCH_RELATIVE;
		/* mov to a segment, control or debug register is not plain data movement. */
		if (x->operands[i].type == X86_OP_REG) {
			switch (x->operands[i].reg) {
			case X86_REG_CS:
			case X86_REG_DS:
			case X86_REG_ES:
			case X86_REG_FS:
			case X86_REG_GS:
			case X86_REG_SS:
				return PATCH_UNKNOWN;
			default:
				break;
			}
		}
	}
	switch (g_insn->id) {
	case X86_INS_MOV:
	case X86_INS_MOVABS:
	case X86_INS_MOVSXD:
	case X86_INS_MOVSX:
	case X86_INS_MOVZX:
	case X86_INS_LEA:
	case X86_INS_XOR:
	case X86_INS_AND:
	case X86_INS_OR:
	case X86_INS_ADD:
	case X86_INS_SUB:
	case X86_INS_CMP:
	case X86_INS_TEST:
	case X86_INS_CDQE:
	case X86_INS_NOP:
		return PATCH_OK;
	case X86_INS_SYSCALL:
	case X86_INS_SYSENTER:
	case X86_INS_SYSRET:
		return PATCH_BRANCH;
	default:
		return PATCH_UNKNOWN;
	}
}

int patch_trapping_byte(uint8_t b)
{
	switch (b) { /* push/pop of segments, daa and its kin, pusha, popa, far call and jump, into */
	case 0x06: case 0x07: case 0x0e: case 0x16: case 0x17: case 0x1e: case 0x1f:
	case 0x27: case 0x2f: case 0x37: case 0x3f: case 0x60: case 0x61: case 0x9a: case 0xce:
	case 0xea:
		return 1;
	default:
		return 0;
	}
}

#define NOT_DECODED 0xff

/*
 * Marks the boundaries of the decoding from `start`; 0 when it does not arrive at the syscall.
 * lengths[] keeps what each place decodes to: most decodings soon share their path.
 */
static int follow(const uint8_t *code, size_t start, size_t before, uint8_t *lengths, uint8_t *marks)
{
	size_t at = start;

	while (at < before) {
		if (lengths[at] == NOT_DECODED)
			lengths[at] = (uint8_t)decode(code + at, before + 2 - at);
		size_t n = lengths[at];

		if (!n)
			return 0;
		marks[at] = 1;
		at += n;
	}
	return at == before;
}

/* Decodes from every start. Leaves which boundaries all decodings have, and which any has. */
static unsigned int survey(const uint8_t *code, size_t before, uint8_t *all, uint8_t *any)
{
	uint8_t marks[PATCH_SCAN_BEFORE], lengths[PATCH_SCAN_BEFORE];
	unsigned int arrived = 0;

	memset(all, 1, PATCH_SCAN_BEFORE);
	memset(any, 0, PATCH_SCAN_BEFORE);
	memset(lengths, NOT_DECODED, sizeof(lengths));
	/* Each byte once: whatever instruction really covers the last start's place is among them. */
	for (size_t start = 0; start + PATCH_MAX_BYTES <= before; start++) {
		memset(marks, 0, sizeof(marks));
		if (!follow(code, start, before, lengths, marks))
			continue;
		arrived++;
		for (size_t i = before - MAX_DISPLACED; i < before; i++) {
			all[i] &= marks[i];
			any[i] |= marks[i];
		}
	}
	return arrived;
}

enum patch_verdict patch_scan(const uint8_t *code, size_t before, struct patch_plan *plan)
{
	uint8_t all[PATCH_SCAN_BEFORE], any[PATCH_SCAN_BEFORE];
	enum patch_verdict why = PATCH_SHORT;

	if (before > PATCH_SCAN_BEFORE) {
		code += before - PATCH_SCAN_BEFORE;
		before = PATCH_SCAN_BEFORE;
	}
	if (before < PATCH_MAX_BYTES + MAX_INSN || survey(code, before, all, any) < MIN_AGREEING)
		return PATCH_SHORT;
	/* The shortest run of whole instructions that gives the jump its room. */
	for (size_t length = 1; length <= MAX_DISPLACED; length++) {
		size_t first = before - length;

		if (all[first] != any[first])
			return PATCH_AMBIGUOUS;
		if (!all[first])
			continue;
		decode(code + first, before + 2 - first);
		why = movable();
		if (why != PATCH_OK)
			return why; /* a longer run would contain it too */
		if (length < PATCH_JUMP_SIZE - 2) {
			why = PATCH_SHORT;
			continue;
		}
		memset(plan, 0, sizeof(*plan));
		plan->length = (uint8_t)length;
		for (size_t b = 1; b < PATCH_JUMP_SIZE; b++)
			if (b == length || (b < length && all[first + b]))
				plan->boundaries |= (uint8_t)(1u << b);
		why = PATCH_BOUNDARY;
		if (plan->boundaries & 6) /* bytes 1 and 2 belong to the jump's opcode */
			continue;
		plan->trap_low = (plan->boundaries & 8) != 0;
		plan->trap_mid = (plan->boundaries & 16) != 0;
		return PATCH_OK;
	}
	return why;
}

/*
 * Of the library's decoders only that for x86 is linked: its table of architectures finds these
 * instead of the others' entry points, so their archive members and 1.5 MB of tables stay out.
 */
#define NOT_LINKED(arch)                                                      \
	int arch##_global_init(void *handle);                                 \
	int arch##_option(void *handle, int type, size_t value);              \
	int arch##_global_init(void *handle) { return CS_ERR_ARCH; }          \
	int arch##_option(void *handle, int type, size_t value) { return CS_ERR_ARCH; }

NOT_LINKED(AArch64)
NOT_LINKED(ARM)
NOT_LINKED(EVM)
NOT_LINKED(M680X)
NOT_LINKED(M68K)
NOT_LINKED(Mips)
NOT_LINKED(PPC)
NOT_LINKED(Sparc)
NOT_LINKED(SystemZ)
NOT_LINKED(TMS320C64x)
NOT_LINKED(XCore)
