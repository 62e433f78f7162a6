/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stub's header and the pieces that must be exact to the instruction. The sentry checks the
 * instruction pointer of clone and hello: between the two a new thread touches no memory, so
 * nobody can make it say hello with a slot or nonce that is not its own.
 */
#include "platform/systrap/sysmsg.h"

	.section .text.head, "ax"
	.globl stub_start
stub_start:
	.quad	STUB_MAGIC
	.long	stub_handler - stub_start
	.long	stub_restorer - stub_start
	.long	stub_zygote - stub_start
	.long	stub_clone_ip - stub_start
	.long	stub_hello_ip - stub_start
	.long	stub_fast - stub_start
	.long	stub_end - stub_start
	.long	0

	.text
	.globl stub_restorer
stub_restorer:
	movl	$15, %eax		/* rt_sigreturn */
	syscall
	ud2

	/* long stub_syscall(nr, a, b, c, d, e, f) */
	.globl stub_syscall
stub_syscall:
	movq	%rdi, %rax
	movq	%rsi, %rdi
	movq	%rdx, %rsi
	movq	%rcx, %rdx
	movq	%r8, %r10
	movq	%r9, %r8
	movq	8(%rsp), %r9
	syscall
	ret

	/*
	 * long stub_clone(flags, stack, nonce). The nonce travels as the TLS argument, which the
	 * host ignores without CLONE_SETTLS, so that the sentry checks it like the others.
	 */
	.globl stub_clone
stub_clone:
	movq	%rdx, %r8
	xorl	%edx, %edx
	xorl	%r10d, %r10d
	xorl	%r9d, %r9d
	movl	$56, %eax
	syscall
stub_clone_ip:
	testq	%rax, %rax
	jz	1f
	ret
1:	movq	%rsp, %rbx		/* the slot, from the stack pointer the sentry checked */
	andq	$-SLOT_SIZE, %rbx
	movl	$157, %eax		/* prctl(PR_SET_PDEATHSIG, SIGKILL): clone clears it */
	movl	$1, %edi
	movl	$9, %esi
	syscall
	testq	%rax, %rax
	jnz	2f
	movl	$28, %eax		/* madvise(slot, SLOT_SIZE, MADV_DONTFORK) */
	movq	%rbx, %rdi
	movl	$SLOT_SIZE, %esi
	movl	$10, %edx
	syscall
	testq	%rax, %rax
	jnz	2f
	movl	$STUB_NR_HELLO, %eax	/* fails when the sentry is gone: nobody answers then */
	movq	%rbx, %rdi
	movq	%r8, %rsi
	syscall
stub_hello_ip:
	testq	%rax, %rax
	jnz	2f
	movq	%rbx, %rdi
	call	stub_child
	movq	%rax, %rsp
	jmp	stub_restorer
2:	ud2				/* SIGILL is masked, so this ends the process */

	/* long stub_cmpxchg32(addr, expect, new, *old) */
	.globl stub_cmpxchg32, stub_cmpxchg_insn, stub_cmpxchg_fault
stub_cmpxchg32:
	movl	%esi, %eax
stub_cmpxchg_insn:
	lock cmpxchgl %edx, (%rdi)
	movl	%eax, %eax
	movq	%rax, (%rcx)
	xorl	%eax, %eax
	ret
stub_cmpxchg_fault:
	movq	$-14, %rax
	ret

	/* uint64_t stub_copy(to, from, size): what is left after a fault */
	.globl stub_copy, stub_copy_insn, stub_copy_fault
stub_copy:
	movq	%rdx, %rcx
stub_copy_insn:
	rep movsb
stub_copy_fault:
	movq	%rcx, %rax
	ret

	/* uint64_t stub_copy_string(to, from, max) */
	.globl stub_copy_string, stub_string_insn, stub_string_fault
stub_copy_string:
	xorl	%eax, %eax
1:	cmpq	%rdx, %rax
	je	stub_string_fault
stub_string_insn:
	movzbl	(%rsi,%rax), %ecx
	movb	%cl, (%rdi,%rax)
	incq	%rax
	testb	%cl, %cl
	jnz	1b
stub_string_fault:
	ret

	/*
	 * A trampoline jumps here: r11 is the slot, rcx the address after the site, all else the
	 * guest's. An interrupt up to stub_fast_served means that the call is still to come, one
	 * from stub_fast_leave on that it is done (stub.c). Between stub_answer and stub_answer_end
	 * the call is done too: it was one whose result the sentry has left in the slot. Only rax,
	 * rcx, r11, rsp and the flags have changed there; up to stub_answer_mov the result is in rcx.
	 */
	.globl stub_fast, stub_fast_leave, stub_fast_end
	.globl stub_answer, stub_answer_mov, stub_answer_end
	.macro answer nr, index
	cmpl	$\nr, %eax
	jne	1f
	cmpb	$0, MSG_ANSWERS + \index(%r11)
	je	2f
	movl	MSG_ANSWER + 4 * \index(%r11), %ecx
	jmp	3f
1:
	.endm
stub_fast:
	movq	%rsp, SLOT_FAST_REGS + FR_RSP(%r11)
	leaq	SLOT_FAST_REGS(%r11), %rsp
	pushfq
	popq	SLOT_FAST_REGS + FR_EFLAGS(%r11)
	movl	$0, MSG_FAST_STAGE(%r11)
	movq	%rcx, SLOT_FAST_REGS + FR_RIP(%r11)
	answer	39, ANSWER_GETPID
	answer	186, ANSWER_GETTID
	answer	102, ANSWER_GETUID
	answer	107, ANSWER_GETEUID
	answer	104, ANSWER_GETGID
	answer	108, ANSWER_GETEGID
2:	movq	%rax, SLOT_FAST_REGS + FR_RAX(%r11)
	movq	%r8, SLOT_FAST_REGS + FR_R8(%r11)
	movq	%r9, SLOT_FAST_REGS + FR_R9(%r11)
	movq	%r10, SLOT_FAST_REGS + FR_R10(%r11)
	movq	%r12, SLOT_FAST_REGS + FR_R12(%r11)
	movq	%r13, SLOT_FAST_REGS + FR_R13(%r11)
	movq	%r14, SLOT_FAST_REGS + FR_R14(%r11)
	movq	%r15, SLOT_FAST_REGS + FR_R15(%r11)
	movq	%rdi, SLOT_FAST_REGS + FR_RDI(%r11)
	movq	%rsi, SLOT_FAST_REGS + FR_RSI(%r11)
	movq	%rbp, SLOT_FAST_REGS + FR_RBP(%r11)
	movq	%rbx, SLOT_FAST_REGS + FR_RBX(%r11)
	movq	%rdx, SLOT_FAST_REGS + FR_RDX(%r11)
	cld
	movq	%r11, %rdi
	movq	%r11, %rbx		/* the call keeps it */
	call	stub_fast_serve
stub_fast_leave:
	leaq	SLOT_FAST_REGS(%rbx), %r11
	pushq	FR_EFLAGS(%r11)
	popfq
	movq	FR_RAX(%r11), %rax
	movq	FR_R8(%r11), %r8
	movq	FR_R9(%r11), %r9
	movq	FR_R10(%r11), %r10
	movq	FR_RDI(%r11), %rdi
	movq	FR_RSI(%r11), %rsi
	movq	FR_RBX(%r11), %rbx
	movq	FR_RDX(%r11), %rdx
	movq	FR_RIP(%r11), %rcx
	movq	FR_RSP(%r11), %rsp
	movq	FR_EFLAGS(%r11), %r11
	jmpq	*%rcx
stub_fast_end:

	/* An interrupt that came before this point is in fast_pending: then the sentry serves. */
3:	cmpl	$0, MSG_FAST_PENDING(%r11)
stub_answer:
	jne	2b
stub_answer_mov:
	movq	%rcx, %rax
	pushq	SLOT_FAST_REGS + FR_EFLAGS(%r11)
	popfq
	movq	SLOT_FAST_REGS + FR_RIP(%r11), %rcx
	movq	SLOT_FAST_REGS + FR_RSP(%r11), %rsp
	movq	SLOT_FAST_REGS + FR_EFLAGS(%r11), %r11
	jmpq	*%rcx
stub_answer_end:

	/* The zygote, once its filter is on: drops its fds and all memory, stops in the handler. */
	.globl stub_zygote
stub_zygote:
	movl	$436, %eax		/* close_range(0, ~0, CLOSE_RANGE_UNSHARE) */
	xorl	%edi, %edi
	movl	$-1, %esi
	movl	$2, %edx
	syscall
	testq	%rax, %rax
	jnz	2b
	movl	$11, %eax		/* munmap(0, everything below the stub) */
	xorl	%edi, %edi
	movabsq	$STUB_TEXT_ADDR, %rsi
	syscall
	testq	%rax, %rax
	jnz	2b
	fninit
	xorl	%esp, %esp
	int3
	ud2

	.section .note.GNU-stack, "", @progbits
