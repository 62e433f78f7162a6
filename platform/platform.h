/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The platform contract: how the kernel runs guest code and owns guest memory.
 *
 * A platform gives two objects. `struct addrspace` is a guest address space. `struct context` is
 * one guest thread in one address space. Nothing above this header may know which platform runs.
 *
 * Threads: a context is driven by one sentry thread, its owner; calls that take a context come
 * from the owner while the context is stopped (not inside context_switch), except those marked
 * [any]. Errors are negative errno. Everything read from a guest is hostile and is copied once.
 *
 * Guest addresses run from 0 to GUEST_TASK_SIZE; what lies above belongs to the platform and
 * every call refuses it with -EFAULT (memory access) or -EINVAL (mappings).
 */
#ifndef CAISSON_PLATFORM_H
#define CAISSON_PLATFORM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#define GUEST_PAGE_SIZE 4096ull
#define GUEST_MIN_ADDR 0x10000ull	   /* vm.mmap_min_addr */
#define GUEST_TASK_SIZE 0x7fffc0000000ull /* 1 GiB below Linux's: the platform's reserve */

/*
 * The platform's own low memory, within guest range: the kernel never maps anything there, and
 * MEM_UNMAP leaves it out; other orders that touch it are refused.
 */
#define GUEST_RESERVED_START 0x60600000ull
#define GUEST_RESERVED_END 0x60610000ull

/* A guest address. A struct, so that it can not be dereferenced or mixed up by mistake. */
typedef struct {
	uint64_t a;
} gaddr_t;

static inline gaddr_t gaddr(uint64_t a)
{
	return (gaddr_t){ a };
}

/* True when [a, a+len) lies in guest range, without wrapping. */
static inline int guest_range_ok(uint64_t a, uint64_t len)
{
	return len <= GUEST_TASK_SIZE && a <= GUEST_TASK_SIZE - len;
}

struct platform;
struct addrspace;
struct context;

enum platform_event_kind {
	/* A syscall instruction. regs.orig_rax = rax = number, regs.rip after the instruction. */
	EVENT_SYSCALL,
	/* A memory fault (SIGSEGV or SIGBUS of the host): fault.* is set, regs.rip at the access. */
	EVENT_FAULT,
	/* Any other synchronous exception (#DE #UD #BP #DB #MF #XF …): fault.* is set. */
	EVENT_EXCEPTION,
	/* context_interrupt() was called. */
	EVENT_INTERRUPTED,
	/* The host process behind the address space is gone (killed by us, or by the host). */
	EVENT_EXITED,
};

enum { FAULT_READ = 1, FAULT_WRITE = 2, FAULT_EXEC = 4 };

struct platform_event {
	enum platform_event_kind kind;
	uint32_t foreign_abi; /* EVENT_SYSCALL through int 0x80 or another non-64-bit entry */
	uint32_t hot; /* EVENT_SYSCALL from a site that traps often: context_patch() is worth it */
	struct {
		int signo;	/* the signal Linux raises for it */
		int code;	/* its si_code */
		uint64_t addr;	/* si_addr */
		uint32_t access; /* FAULT_* guess from the error code; 0 when unknown */
		uint32_t trapno; /* x86 vector, for sigcontext */
		uint64_t err;	/* x86 error code, for sigcontext */
		uint64_t cr2;
	} fault;
};

struct platform_options {
	const char *name;	/* "systrap", "kvm", "fake"; NULL for the best that works here */
	uint64_t memory_limit;	/* bytes for all guest memory, 0 none: backs the sentry's count */
	uint32_t flags;		/* PLATFORM_* */
	/*
	 * What a guest thread may bring along with a syscall, a byte per number made by
	 * PLATFORM_BRING, 0 nothing; PLATFORM_BRING_NUMBERS bytes, or NULL. See context_brought().
	 */
	const uint8_t *bring;
};
#define PLATFORM_BRING_NUMBERS 512
#define PLATFORM_BRING(arg, what) ((uint8_t)((arg) | (what) << 3)) /* arg: 0 to 4 */
enum {
	BRING_A_STRING = 1,
	BRING_A_BUFFER = 2, /* as many bytes as the next argument says */
	BRING_SOME_PAIRS = 3, /* as many times 16 bytes */
	BRING_A_PAIR = 4,   /* 16 bytes */
};
#define PLATFORM_NOPATCH 1u /* every syscall of a guest traps */
#define PLATFORM_NOSTUB 2u  /* context_answer() does nothing */

/* ---- life ---- */

/*
 * Starts the platform: must be called before the sentry's own lockdown, from the main thread,
 * while it is the only one. Later calls make no host call outside the sentry's frozen list.
 */
int platform_start(const struct platform_options *opt, struct platform **out);
/* Kills every guest process and waits for them. */
void platform_stop(struct platform *p);
const char *platform_name(const struct platform *p);
/* Bytes of the XSAVE image that context_fpstate_get gives (at least 576), and XCR0. */
size_t platform_xstate_size(const struct platform *p);
uint64_t platform_xcr0(const struct platform *p);

/* ---- address spaces ---- */

/*
 * A fresh, empty address space with its first context, taken from a pool when one is ready. The
 * caller becomes the context's owner; its FP state is the architecture's initial one.
 */
int addrspace_new(struct platform *p, struct addrspace **as, struct context **first);
/*
 * A copy-on-write duplicate of parent's address space (MADV_DONTFORK ranges left out, as the
 * host does it), with one context whose FP state and fs/gs base are the parent's. MAP_SHARED
 * mappings stay shared.
 */
int addrspace_fork(struct context *parent, struct addrspace **as, struct context **child);
struct addrspace *addrspace_get(struct addrspace *as);	   /* [any] */
/* When the last reference and the last context are gone, the host process goes too. [any] */
void addrspace_put(struct addrspace *as);
/*
 * Kills the host process at once, whatever its threads do; every context_switch in it returns
 * EVENT_EXITED soon, and all later calls on its contexts give -ESRCH or EVENT_EXITED. [any]
 */
void addrspace_kill(struct addrspace *as);
/* User and system CPU time of the host process so far, ns. [any] */
int addrspace_cpu_time(struct addrspace *as, uint64_t *ns);

/*
 * Reads or writes guest memory, protections of the guest's own mappings applied (a write to a
 * read-only page faults). Returns the count of bytes moved, which is short when a later page is
 * bad, or -EFAULT when the first byte is. Any thread, stopped or running guest alike. [any]
 * An aligned access of 1, 2, 4 or 8 bytes is a single atomic load or store.
 */
ssize_t addrspace_read(struct addrspace *as, gaddr_t from, void *buf, size_t len);
ssize_t addrspace_write(struct addrspace *as, gaddr_t to, const void *buf, size_t len);

/* ---- memory, ordered through a stopped context of the address space ---- */

enum mem_op_kind {
	MEM_MAP,     /* mmap(addr, len, prot, flags|MAP_FIXED, fd, off): replaces what is there */
	MEM_UNMAP,   /* munmap */
	MEM_PROTECT, /* mprotect */
	MEM_REMAP,   /* mremap(addr, len, len2, MREMAP_MAYMOVE|MREMAP_FIXED, addr2); flags may add
			MREMAP_DONTUNMAP; len == 0 duplicates a shared mapping, as Linux does */
	MEM_ADVISE,  /* madvise(addr, len, flags): advice in flags */
	MEM_SYNC,    /* msync(addr, len, flags) of file mappings */
	MEM_INCORE,  /* mincore(addr, len): the vector, one byte a page, goes to `buf` */
};

struct mem_op {
	enum mem_op_kind kind;
	uint64_t addr, len; /* page aligned */
	uint64_t addr2, len2;
	int prot;
	int flags; /* MAP_PRIVATE, MAP_SHARED, MAP_ANONYMOUS, MAP_NORESERVE, MAP_GROWSDOWN is refused;
		      the platform adds MAP_FIXED. MAP_POPULATE passes. */
	int fd;	   /* host fd of the sentry, or -1; only borrowed for the call */
	uint64_t off;
	void *buf;
};

/*
 * Carries out ops in order, in one handoff where it can. Stops at the first failure: *done is the
 * number completed (may be NULL). 0 or the failing op's negative errno; -ESRCH when the host
 * process is gone.
 */
int context_mem(struct context *c, const struct mem_op *ops, size_t count, size_t *done);

/*
 * Atomic compare-and-exchange of an aligned 4-byte guest word, against all other guest threads:
 * *old is what was there. 0 (stored if *old == expect), -EFAULT or -ESRCH.
 */
int context_cmpxchg32(struct context *c, gaddr_t at, uint32_t expect, uint32_t new_val,
		      uint32_t *old);

/* ---- contexts ---- */

/*
 * Another guest thread in parent's address space. FP state and gs base are parent's. The caller
 * hands it to the thread that will own it; its registers come with its first context_switch.
 */
int context_clone(struct context *parent, struct context **child);
/* Ends the guest thread; the last one of an address space ends the host process. */
void context_put(struct context *c);
struct addrspace *context_addrspace(struct context *c); /* borrowed [any] */

/*
 * Runs the guest thread from *regs (fs_base and gs_base included) until an event, then fills
 * *regs with the state it stopped in and *ev. Segment selectors, reserved flags and a
 * non-canonical rip are sanitised as Linux does for sigreturn and ptrace. The guest's syscall
 * result is what the caller puts into regs->rax before the next switch.
 */
void context_switch(struct context *c, struct user_regs_struct *regs, struct platform_event *ev);

/*
 * Makes the context stop soon with EVENT_INTERRUPTED. Sticky: if it is not running, its next
 * context_switch returns EVENT_INTERRUPTED at once. May coalesce and may be spurious. [any]
 */
void context_interrupt(struct context *c);
/* Takes back a sticky interrupt; called by the owner once it has looked at its own work. */
void context_interrupt_clear(struct context *c);

/*
 * The extended state as an XSAVE image in standard (not compacted) form, platform_xstate_size()
 * bytes. set() validates (reserved MXCSR bits, header) and gives -EINVAL for what the CPU would
 * refuse; a 512-byte image is taken as FXSAVE with the rest initial.
 */
int context_fpstate_get(struct context *c, void *buf, size_t size);
int context_fpstate_set(struct context *c, const void *buf, size_t size);
void context_fpstate_reset(struct context *c);

/*
 * Lets the syscall site that ends at `after` (regs.rip of a `hot` EVENT_SYSCALL that the context
 * has just stopped with) reach the kernel without a trap from now on, by rewriting guest text in
 * [start, end). The caller vouches that the range is mapped private, readable and executable, not
 * writable, and stays so during the call. 0, or a negative errno: the site is as it was. The
 * guest's own registers, and what it sees by executing the text from any place, do not change.
 */
int context_patch(struct context *c, uint64_t after, uint64_t start, uint64_t end);
/*
 * Puts back the text of patched sites in the range, since somebody is about to write there: the
 * guest itself, or its debugger. The pages have protection `prot` afterwards. 0 or -errno.
 */
int context_unpatch(struct context *c, uint64_t from, uint64_t len, int prot);

/*
 * Guest memory without a host call, in the syscall that the context has stopped with; the owner's
 * own. context_brought() copies what the guest thread has brought along of [from, from + size): as
 * many bytes from its start as there are, often 0. They are as they were when the call was made.
 *
 * context_store_later() leaves a store to the guest thread, before it goes on: 1, or 0 when that
 * can not be. The caller vouches that the memory is private, writable and not about to change, and
 * that nobody else waits for these bytes; should the store fail all the same, rax of the next
 * context_switch becomes -EFAULT. context_stores_now() makes all of them at once and forgets what
 * was brought: 0, or -EFAULT when one could not be made. It is implied in every call that changes
 * the address space, forks or clones it, or needs the extended state.
 */
size_t context_brought(struct context *c, gaddr_t from, void *buf, size_t size);
int context_store_later(struct context *c, gaddr_t to, const void *buf, size_t size);
int context_stores_now(struct context *c);

/*
 * The syscall `nr` of this context (getpid, gettid, get[e]uid, get[e]gid) may be answered with
 * `value` without an event from now on, until context_answers_clear(). 1: so it may be, 0: this
 * platform, or this call, does not do that. The owner's, and for a single-threaded guest only: no
 * other thread can take it back while the guest runs. A fresh context has no answers.
 */
int context_answer(struct context *c, int nr, uint32_t value);
void context_answers_clear(struct context *c);

/* CPU time this guest thread has used in its host thread, ns; the owner's own context only. */
int context_cpu_time(struct context *c, uint64_t *ns);
/* Applies an affinity mask or nice value to the host thread; best effort. [any] */
int context_set_affinity(struct context *c, const void *mask, size_t size);
int context_set_nice(struct context *c, int nice);

/* ---- for diagnosis: `caisson debug`, --log ---- */
#define PLATFORM_REFUSALS 12
struct platform_stats {
	uint64_t switches, spins_won, sleeps, orders, notifications;
	uint32_t stubs, pool_ready;
	uint64_t fast_switches; /* those of patched sites */
	uint64_t scans_saved;	/* analyses of sites that were known already */
	uint64_t restored;	/* sites taken back because somebody writes there */
	uint64_t patched, refused[PLATFORM_REFUSALS]; /* syscall sites; refused by reason */
	const char *refusal[PLATFORM_REFUSALS]; /* the reasons' names, NULL after the last */
};
void platform_stats(const struct platform *p, struct platform_stats *st);

#endif
