/* SPDX-License-Identifier: Apache-2.0 */
/* What the decoder finds out about one syscall site: which bytes before it a jump may replace. */
#ifndef CAISSON_SYSTRAP_PATCH_SCAN_H
#define CAISSON_SYSTRAP_PATCH_SCAN_H

#include <stddef.h>
#include <stdint.h>

#define PATCH_JUMP_SIZE 7   /* jmp *abs32 */
#define PATCH_MAX_BYTES 24  /* before the site in which decodings may still disagree */
#define PATCH_SCAN_BEFORE 64 /* bytes before the site worth giving to patch_scan() */

enum patch_verdict {
	PATCH_OK,
	PATCH_SHORT,	 /* too little code before the site, or no two decodings agree on it */
	PATCH_AMBIGUOUS, /* where instructions begin depends on where decoding begins */
	PATCH_BRANCH,	 /* a jump, call or other transfer is among the bytes */
	PATCH_RELATIVE,	 /* an operand is relative to rip */
	PATCH_UNKNOWN,	 /* an instruction that is not on the list of movable ones */
	PATCH_BOUNDARY,	 /* an instruction begins where no trapping byte can be put */
	PATCH_FULL,	 /* no table entry with the right address is left */
	PATCH_MEMORY,	 /* the text can not be read or written */
	PATCH_VERDICTS,
};

/*
 * The jump is ff 24 25 and the table entry's address, low byte first. Text may be entered at any
 * instruction it held before: a thread may stand there, or jump there. So each byte of the jump
 * at which a displaced instruction began must be an opcode that traps (#UD); the top two always
 * are. trap_low and trap_mid say so of the other two.
 */
struct patch_plan {
	uint8_t length;	  /* of the displaced instructions; the syscall follows them */
	uint8_t trap_low; /* a boundary lies on byte 3, the address's lowest */
	uint8_t trap_mid; /* a boundary lies on byte 4 */
	uint8_t boundaries; /* bit b: an instruction began at byte b, 3 to 6, the syscall included */
};

/* True for opcodes that raise #UD in 64-bit mode whatever follows. */
int patch_trapping_byte(uint8_t b);

/*
 * code[0..before) is the text up to a syscall instruction, whose two bytes follow. Decides whether
 * and how the site can be patched. Not thread-safe; patch_scan_start() once before.
 */
enum patch_verdict patch_scan(const uint8_t *code, size_t before, struct patch_plan *plan);
int patch_scan_start(void);
void patch_scan_stop(void);
const char *patch_verdict_name(enum patch_verdict v);

#endif
