/* SPDX-License-Identifier: Apache-2.0 */
/* The files of sentry/ptrace among themselves, and what sys_ptrace.c uses. */
#ifndef CAISSON_PTRACE_PRIV_H
#define CAISSON_PTRACE_PRIV_H

#include <linux/ptrace.h>

#include "sentry/ptrace/ptrace.h"
#include "sentry/signal/signal_priv.h"

/* How a tracee goes on. */
enum trace_mode { TRACE_CONT, TRACE_SYSCALL, TRACE_SYSEMU, TRACE_STEP, TRACE_SYSEMU_STEP };
/* Where it stands in a system call, for GET_SYSCALL_INFO. */
enum trace_op { OP_NONE, OP_ENTRY, OP_EXIT, OP_SECCOMP };

/*
 * FP state and host mappings are reached only by the tracee's own thread: the tracer leaves an
 * order and waits. Lives on the tracer's stack.
 */
struct trace_order {
	enum { ORDER_FP_GET, ORDER_FP_SET, ORDER_WRITE } kind;
	void *buf;
	size_t size;
	uint64_t addr; /* ORDER_WRITE */
	int result;    /* [a] 1 until it is carried out */
};

/* Of a traced task; everything under tasks_lock. Regs are the tracer's while `stopped`. */
struct ptrace_state {
	struct task *tracer; /* a reference */
	uint32_t options;    /* PTRACE_O_* */
	int seized;
	int stopped;	/* the tracee waits in a stop */
	int listening;	/* PTRACE_LISTEN: stopped, but not for the tracer's requests */
	int code;	/* signal, and event << 8, of the stop */
	int unreported; /* wait(2) has not told the tracer yet */
	int has_info;
	siginfo_t info;	  /* with has_info: of the stop */
	uint64_t message; /* GETEVENTMSG */
	enum trace_op op;
	enum trace_mode mode;
	int resume_signo; /* what the tracer let it go on with */
	int stop_wanted;  /* stop at the next chance (INTERRUPT, SEIZE's children) */
	int forced_tf;	  /* the trap flag in regs is ours */
	int group_stop;	  /* the present stop is a group stop */
	struct trace_order *order;
};

/* A dead thread its tracer has not waited for. */
struct ptrace_corpse {
	struct ptrace_corpse *next; /* in kernel->ptrace_corpses */
	struct task *tracer;	    /* identity only */
	struct thread_group *tracer_tg;
	struct pid *pid, *pgrp; /* references */
	uint32_t uid;
	int status;
};

/* Hooks that task life and seccomp call; they declare them weak for themselves. */
void ptrace_clone_locked(struct task *parent, struct task *child, uint64_t flags);
void ptrace_clone_event(struct task *parent, uint64_t flags, int child_tid);
void ptrace_vfork_done_event(struct task *parent, int child_tid);
void ptrace_exec_event(struct task *t, int old_tid);
void ptrace_task_exit_locked(struct task *t);
int ptrace_seccomp_event(struct task *t, uint32_t data);
/* Which event a fork-like call is. */
int ptrace_clone_kind(uint64_t flags, int sends_sigchld);

/* stop.c: stops t, in a stop of `code`, until its tracer lets it go on. [tasks], dropped meanwhile.
 */
void ptrace_stop_locked(struct task *t, int code, const siginfo_t *si);
void ptrace_resume_locked(struct task *t, enum trace_mode mode, int signo);
/* attach.c */
int ptrace_traceme(struct task *t);
int ptrace_attach(struct task *tracer, struct task *t, int seize, uint32_t options);
void ptrace_detach_locked(struct task *t, int signo);
#define PTRACE_OPTIONS_KNOWN                                                                       \
	(PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE |  \
	 PTRACE_O_TRACEEXEC | PTRACE_O_TRACEVFORKDONE | PTRACE_O_TRACESECCOMP |                    \
	 PTRACE_O_TRACEEXIT | PTRACE_O_EXITKILL)

/* regs.c: a word of struct user; a register set through an iovec-like buffer. */
int ptrace_peek_user(struct task *t, uint64_t off, uint64_t *val);
int ptrace_poke_user(struct task *t, uint64_t off, uint64_t val);
int ptrace_set_regs(struct task *t, const struct user_regs_struct *r);
void ptrace_get_regs(struct task *t, struct user_regs_struct *r);
/* The XSAVE image (with XCR0 where debuggers look for it), or its first 512 bytes. */
int ptrace_get_fp(struct task *t, void *buf, size_t size);
int ptrace_set_fp(struct task *t, const void *buf, size_t size);
/* Writes a word of the tracee's memory, through read-only private mappings too: 0, -EIO, -ESRCH. */
int ptrace_write_word(struct task *t, uint64_t addr, uint64_t val);
/* As addrspace_write, but through read-only private mappings of the caller's stopped tracee. */
ssize_t addrspace_write_force(struct addrspace *as, gaddr_t to, const void *buf, size_t len);
/* order.c: carries out what a tracer ordered; by the tracee's own thread. */
void ptrace_run_order(struct task *t, struct trace_order *o);

#endif
