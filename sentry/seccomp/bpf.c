/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Classic BPF as seccomp allows it: checked once, then interpreted. A checked program only jumps
 * forward, so it ends after at most its length of steps.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "sentry/seccomp/seccomp.h"

#define DATA_SIZE ((uint32_t)sizeof(struct seccomp_data))

/* The instructions a seccomp program may use (seccomp_check_filter, bpf_check_classic). */
static int check_insn(const struct sock_filter *p, unsigned int pc, unsigned int len)
{
	switch (p->code) {
	case BPF_LD | BPF_W | BPF_ABS:
		return p->k < DATA_SIZE && p->k % 4 == 0 ? 0 : -EINVAL;
	case BPF_LD | BPF_W | BPF_LEN:
	case BPF_LDX | BPF_W | BPF_LEN:
	case BPF_LD | BPF_IMM:
	case BPF_LDX | BPF_IMM:
	case BPF_RET | BPF_K:
	case BPF_RET | BPF_A:
	case BPF_MISC | BPF_TAX:
	case BPF_MISC | BPF_TXA:
	case BPF_ALU | BPF_ADD | BPF_K:
	case BPF_ALU | BPF_ADD | BPF_X:
	case BPF_ALU | BPF_SUB | BPF_K:
	case BPF_ALU | BPF_SUB | BPF_X:
	case BPF_ALU | BPF_MUL | BPF_K:
	case BPF_ALU | BPF_MUL | BPF_X:
	case BPF_ALU | BPF_DIV | BPF_X:
	case BPF_ALU | BPF_AND | BPF_K:
	case BPF_ALU | BPF_AND | BPF_X:
	case BPF_ALU | BPF_OR | BPF_K:
	case BPF_ALU | BPF_OR | BPF_X:
	case BPF_ALU | BPF_XOR | BPF_K:
	case BPF_ALU | BPF_XOR | BPF_X:
	case BPF_ALU | BPF_LSH | BPF_X:
	case BPF_ALU | BPF_RSH | BPF_X:
	case BPF_ALU | BPF_NEG:
		return 0;
	case BPF_ALU | BPF_DIV | BPF_K:
		return p->k ? 0 : -EINVAL;
	case BPF_ALU | BPF_LSH | BPF_K:
	case BPF_ALU | BPF_RSH | BPF_K:
		return p->k < 32 ? 0 : -EINVAL;
	case BPF_LD | BPF_MEM:
	case BPF_LDX | BPF_MEM:
	case BPF_ST:
	case BPF_STX:
		return p->k < BPF_MEMWORDS ? 0 : -EINVAL;
	case BPF_JMP | BPF_JA:
		return p->k < len - pc - 1 ? 0 : -EINVAL;
	case BPF_JMP | BPF_JEQ | BPF_K:
	case BPF_JMP | BPF_JEQ | BPF_X:
	case BPF_JMP | BPF_JGE | BPF_K:
	case BPF_JMP | BPF_JGE | BPF_X:
	case BPF_JMP | BPF_JGT | BPF_K:
	case BPF_JMP | BPF_JGT | BPF_X:
	case BPF_JMP | BPF_JSET | BPF_K:
	case BPF_JMP | BPF_JSET | BPF_X:
		return pc + p->jt + 1 < len && pc + p->jf + 1 < len ? 0 : -EINVAL;
	}
	return -EINVAL;
}

/* No slot may be read before it was written on every path (check_load_and_stores). */
static int check_memory(const struct sock_filter *prog, unsigned int len)
{
	uint16_t *masks = malloc(len * sizeof(*masks)), valid = 0;
	int err = 0;

	if (!masks)
		return -ENOMEM;
	memset(masks, 0xff, len * sizeof(*masks));
	for (unsigned int pc = 0; pc < len && !err; pc++) {
		const struct sock_filter *p = &prog[pc];

		valid &= masks[pc];
		switch (p->code) {
		case BPF_ST:
		case BPF_STX:
			valid |= (uint16_t)(1u << p->k);
			break;
		case BPF_LD | BPF_MEM:
		case BPF_LDX | BPF_MEM:
			if (!(valid & (1u << p->k)))
				err = -EINVAL;
			break;
		case BPF_JMP | BPF_JA:
			masks[pc + 1 + p->k] &= valid;
			valid = (uint16_t)~0u;
			break;
		default:
			if (BPF_CLASS(p->code) == BPF_JMP) {
				masks[pc + 1 + p->jt] &= valid;
				masks[pc + 1 + p->jf] &= valid;
				valid = (uint16_t)~0u;
			}
		}
	}
	free(masks);
	return err;
}

int seccomp_bpf_check(const struct sock_filter *prog, unsigned int len)
{
	if (!len || len > BPF_MAXINSNS)
		return -EINVAL;
	for (unsigned int pc = 0; pc < len; pc++)
		if (check_insn(&prog[pc], pc, len))
			return -EINVAL;
	if (BPF_CLASS(prog[len - 1].code) != BPF_RET)
		return -EINVAL;
	return check_memory(prog, len);
}

static uint32_t data_word(const struct seccomp_data *data, uint32_t off)
{
	uint32_t v;

	memcpy(&v, (const char *)data + off, sizeof(v));
	return v;
}

static int jump_taken(uint16_t code, uint32_t a, uint32_t b)
{
	switch (BPF_OP(code)) {
	case BPF_JEQ:
		return a == b;
	case BPF_JGE:
		return a >= b;
	case BPF_JGT:
		return a > b;
	}
	return (a & b) != 0; /* BPF_JSET */
}

/* A division by zero, which only X can be, ends the program with 0, as Linux has it. */
static uint32_t alu(uint16_t code, uint32_t a, uint32_t b, int *div_by_zero)
{
	switch (BPF_OP(code)) {
	case BPF_ADD:
		return a + b;
	case BPF_SUB:
		return a - b;
	case BPF_MUL:
		return a * b;
	case BPF_DIV:
		if (!b) {
			*div_by_zero = 1;
			return 0;
		}
		return a / b;
	case BPF_AND:
		return a & b;
	case BPF_OR:
		return a | b;
	case BPF_XOR:
		return a ^ b;
	case BPF_LSH:
		return a << (b & 31);
	case BPF_RSH:
		return a >> (b & 31);
	}
	return 0 - a; /* BPF_NEG */
}

/*
 * data_limit: loads of data at or beyond it end the run with *unknown set (what the program does
 * depends on more than the caller can say).
 */
static uint32_t run(const struct sock_filter *prog, unsigned int len,
		    const struct seccomp_data *data, uint32_t data_limit, int *unknown)
{
	uint32_t a = 0, x = 0, mem[BPF_MEMWORDS] = { 0 };
	int div_by_zero = 0;

	for (unsigned int pc = 0; pc < len; pc++) {
		const struct sock_filter *p = &prog[pc];
		uint32_t operand = p->code & BPF_X ? x : p->k;

		switch (BPF_CLASS(p->code)) {
		case BPF_LD:
		case BPF_LDX: {
			uint32_t v = p->k; /* BPF_IMM */

			if (BPF_MODE(p->code) == BPF_ABS) {
				if (p->k >= data_limit) {
					*unknown = 1;
					return 0;
				}
				v = data_word(data, p->k);
			} else if (BPF_MODE(p->code) == BPF_LEN) {
				v = DATA_SIZE;
			} else if (BPF_MODE(p->code) == BPF_MEM) {
				v = mem[p->k];
			}
			if (BPF_CLASS(p->code) == BPF_LD)
				a = v;
			else
				x = v;
			break;
		}
		case BPF_ST:
			mem[p->k] = a;
			break;
		case BPF_STX:
			mem[p->k] = x;
			break;
		case BPF_ALU:
			a = alu(p->code, a, operand, &div_by_zero);
			if (div_by_zero)
				return 0;
			break;
		case BPF_JMP:
			if (BPF_OP(p->code) == BPF_JA)
				pc += p->k;
			else
				pc += jump_taken(p->code, a, operand) ? p->jt : p->jf;
			break;
		case BPF_RET:
			return BPF_RVAL(p->code) == BPF_A ? a : p->k;
		case BPF_MISC:
			if (BPF_MISCOP(p->code) == BPF_TAX)
				x = a;
			else
				a = x;
			break;
		}
	}
	return 0; /* not reached: a checked program ends in a return */
}

uint32_t seccomp_bpf_run(const struct sock_filter *prog, unsigned int len,
			 const struct seccomp_data *data)
{
	int unknown = 0;

	return run(prog, len, data, DATA_SIZE, &unknown);
}

int seccomp_bpf_always_allows(const struct sock_filter *prog, unsigned int len, uint32_t nr,
			      uint32_t arch)
{
	struct seccomp_data data = { .nr = (int)nr, .arch = arch };
	int unknown = 0;
	uint32_t ret =
		run(prog, len, &data, offsetof(struct seccomp_data, instruction_pointer), &unknown);

	return !unknown && ret == SECCOMP_RET_ALLOW;
}
