/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to platform/systrap: the sentry's side of stub processes. README.md is the theory.
 *
 * Locks: systrap->spawn_lock (pool, zygote) and addrspace->op_lock (fork and clone of one address
 * space) are RANK_PLATFORM_OP and are held across handoffs; a context's expect_lock is
 * RANK_PLATFORM; systrap->lock (all tables and lists) is RANK_LEAF.
 * Keys: [I] immutable after publication, [L] systrap->lock, [a] atomic, [e] expect_lock,
 * [o] the context's owner thread, [p] the address space's op_lock.
 */
#ifndef CAISSON_SYSTRAP_SYSTRAP_H
#define CAISSON_SYSTRAP_SYSTRAP_H

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/types.h>

#include "platform/base/list.h"
#include "platform/base/lock.h"
#include "platform/base/refs.h"
#include "platform/platform_priv.h"
#include "platform/systrap/patch_cache.h"
#include "platform/systrap/sysmsg.h"

/* A host call that a stub thread has been ordered to make and that needs the sentry's consent. */
struct expected_call {
	uint64_t nr;
	uint64_t arg[6];
	int fd; /* installed as fd 0 of the stub thread before the call, or -1 */
};

/* An order list carries at most this many calls that are notified. */
#define MAX_EXPECTED SYSMSG_MAX_ORDERS

enum context_state {
	CONTEXT_SPAWNING, /* its clone has been ordered, its hello has not come */
	CONTEXT_LIVE,
	CONTEXT_PARKED, /* guest thread ended; the stub thread waits for another life */
	CONTEXT_EXITING, /* ordered to exit */
};

enum slot_fate {
	SLOT_UNMAPPED, /* no process maps it */
	SLOT_MAPPED,   /* the process of its address space does */
	SLOT_GIVEN,    /* somebody else has it already */
};

#define TID_BUCKETS 1024

/* Who has spun in vain lately spins less: something else wants the processors. */
struct spin_luck {
	uint8_t skip;	 /* waits still to go without a spin */
	uint8_t penalty; /* what the next spin in vain costs */
};

struct patch_area;

struct systrap_context {
	struct context base;
	struct ref ref;
	struct systrap *plat;		    /* [I] */
	struct systrap_addrspace *as;	    /* [I] holds a reference, see process.c */
	struct sysmsg *msg;		    /* [I] the slot, as the sentry maps it */
	uint32_t slot;			    /* [I] its index */
	pid_t tid;			    /* [L] until hello, then immutable */
	enum context_state state;	    /* [L] */
	struct list_head as_node;	    /* [L] as->contexts, or as->parked */
	struct systrap_context *tid_next;   /* [L] hash chain */
	enum slot_fate slot_fate;	    /* [L] what becomes of the slot in the end */
	uint64_t nonce;			    /* [L] names this spawn in the stub's hello */
	uint32_t hello;			    /* [a] futex: 1 when the stub thread has said hello */

	/* [o] Stopped in a patched call: the registers the event was reported with. */
	uint32_t fast;
	struct user_regs_struct fast_regs;
	uint32_t generation_seen; /* [o] as->patch_generation when the guest was let go on */

	/*
	 * [o] What came with the syscall event, and what is to be stored when the guest goes on:
	 * bounce.c.
	 */
	uint64_t in_addr;
	uint32_t in_size;
	uint32_t out_count, out_size;
	struct sysmsg_out out[OUT_MAX];

	uint32_t frame;	  /* [o] checked offset of the ucontext in the slot */
	uint32_t fpstate; /* [o] checked offset of the XSAVE image */

	uint32_t interrupt; /* [a] sticky */
	uint32_t in_guest;  /* [a] a tgkill is needed to stop it */

	/* Handoff policy, see switch.c. */
	uint64_t guest_cycles;	 /* [o] moving average: the guest's run between two events */
	uint64_t service_cycles; /* [o] moving average: event to command */
	uint64_t event_at;	 /* [o] cycles() when the last event came, 0 none */
	struct spin_luck sentry_luck, stub_luck; /* [o] */
	uint32_t stub_spins;			 /* [o] the stub was told to */

	struct lock expect_lock;
	struct expected_call expect[MAX_EXPECTED]; /* [e] */
	uint32_t expect_count, expect_next;	   /* [e] */
};

struct systrap_addrspace {
	struct addrspace base;
	struct ref ref; /* the sentry's, one per context, one for the table of processes */
	struct systrap *plat;		   /* [I] */
	pid_t pid;			   /* [L] until hello, then immutable */
	uint32_t dead;			   /* [a] the process is gone: never use pid again */
	uint32_t pid_users;		   /* [a] host calls that name pid right now */
	struct lock op_lock;
	struct list_head contexts;	   /* [L] SPAWNING, LIVE, EXITING */
	struct list_head parked;	   /* [L] */
	uint32_t live_count, parked_count; /* [L] */
	struct list_head node;		   /* [L] systrap->addrspaces */
	uint32_t *spare_slots;		   /* [L] mapped in the process, owned by nobody */
	uint32_t spare_count, spare_size;  /* [L] */
	struct patch_area *area;	   /* [p] to set, [a] to read: patched sites, or NULL */
	uint64_t *hot;			   /* [a] counts of traps, see patch.c */
	uint32_t patch_generation;	   /* [a] odd while text is being written */
	uint32_t ended;			   /* [L] its slots are free for others */
};

#define POOL_SIZE 2

struct systrap {
	struct platform base;
	pid_t sentry_pid;
	int slots_fd;
	uint8_t *slots; /* SLOT_COUNT * SLOT_SIZE bytes, as the sentry maps them */
	const struct stub_header *stub;
	int listener;
	uint64_t cycles_per_us;
	uint32_t cpus;
	uint32_t flags;	       /* PLATFORM_* */
	int patch_fd;	       /* the memory of patch areas: see patch.c */
	uint8_t *patch_memory; /* the sentry's view; NULL: no patching */
	struct lock scan_lock; /* capstone, scan_cache */
	struct patch_cache scan_cache;
	uint64_t area_used[16]; /* [L] a bit for each area */
	const uint8_t *bring; /* BRING_NUMBERS bytes, or NULL; for the zygote */
	uint8_t slot_used_once[SLOT_COUNT]; /* [a] its bounce room holds somebody's bytes */
	uint8_t *template; /* a slot's stack part with the architecture's initial state */
	uint32_t template_fpstate;

	/* Contexts whose guest runs, and sentry threads that spin: see switch.c. [a] */
	uint32_t running, spinning;

	struct lock spawn_lock;
	pthread_cond_t pool_changed;
	struct systrap_context *zygote;		  /* [spawn_lock] */
	struct systrap_context *pool[POOL_SIZE]; /* [spawn_lock] */
	uint32_t pool_count, pool_want;		  /* [spawn_lock] */
	int pool_error;				  /* [spawn_lock] */

	struct lock lock;
	uint64_t slot_used[(SLOT_COUNT + 63) / 64];	 /* [L] */
	uint32_t slot_hint;				 /* [L] */
	struct systrap_context *slot_owner[SLOT_COUNT];	 /* [L] */
	struct systrap_context *by_tid[TID_BUCKETS];	 /* [L] */
	struct list_head addrspaces;			 /* [L] all whose process may live */
	uint64_t last_nonce;				 /* [L] */
	uint32_t stub_count;				 /* [L] */
	uint32_t stopping, threads;			 /* [a] */
	uint32_t addrspace_count;			 /* [a] all that are not freed */
	struct platform_stats stats;			 /* [a] */
};

static inline uint64_t cycles(void)
{
	uint32_t lo, hi;

	__asm__ volatile("rdtsc" : "=a"(lo), "=d"(hi));
	return (uint64_t)hi << 32 | lo;
}

static inline uint64_t slot_address(uint32_t slot)
{
	return STUB_SLOT_ADDR + (uint64_t)slot * SLOT_SIZE;
}

static inline struct systrap_context *to_context(struct context *c)
{
	return container_of(c, struct systrap_context, base);
}

static inline struct systrap_addrspace *to_addrspace(struct addrspace *as)
{
	return container_of(as, struct systrap_addrspace, base);
}

static inline int addrspace_dead(const struct systrap_addrspace *as)
{
	return (int)__atomic_load_n(&as->dead, __ATOMIC_SEQ_CST);
}

static inline void stat_add(uint64_t *counter)
{
	__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

extern const uint8_t systrap_stub_image[], systrap_stub_image_end[];

/* zygote.c: forks the first stub process. Before any other thread exists. */
int zygote_start(struct systrap *p);

/* trap_filter.c: installs the stub's seccomp filter and returns the listener, or -errno. */
int trap_filter_install(void);

/* slot.c */
int slot_alloc(struct systrap *p, uint32_t *slot);	 /* -EAGAIN when none is left */
void slot_free(struct systrap *p, uint32_t slot);	 /* nobody maps it any more */
struct sysmsg *slot_message(struct systrap *p, uint32_t slot);
/* Fills a fresh or reused slot so that a new stub thread starts from `from`'s frame. */
void slot_prepare(struct systrap_context *c, const uint8_t *stack, uint32_t frame,
		  uint32_t fpstate);

/* process.c: life of address spaces and contexts */
int systrap_as_new(struct platform *p, struct addrspace **as, struct context **first);
int systrap_as_fork(struct context *parent, struct addrspace **as, struct context **child);
struct addrspace *systrap_as_get(struct addrspace *as);
void systrap_as_put(struct addrspace *as);
void systrap_as_kill(struct addrspace *as);
int systrap_as_cpu_time(struct addrspace *as, uint64_t *ns);
int systrap_ctx_clone(struct context *parent, struct context **child);
void systrap_ctx_put(struct context *c);
struct systrap_context *context_alloc(struct systrap_addrspace *as, uint32_t slot);
struct systrap_addrspace *addrspace_alloc(struct systrap *p);
void addrspace_ref_put(struct systrap_addrspace *as);
/* Takes a context into the tables once its tid is known. Called with systrap->lock. */
void context_publish(struct systrap_context *c, pid_t tid);
void context_ref_put(struct systrap_context *c);
/* The context with this tid, with a reference, or NULL. */
struct systrap_context *context_by_tid(struct systrap *p, pid_t tid);
/* Its stub thread has left user space for good, by an ordered exit. */
void context_retire(struct systrap_context *c);
/* A new process from the zygote; only the spawner calls it. */
int spawn_process(struct systrap_context *parent, struct systrap_context **child);
/* The process may be named by pid until the matching leave: 0, or -ESRCH when it is gone. */
int addrspace_enter(struct systrap_addrspace *as);
void addrspace_leave(struct systrap_addrspace *as);
/* The process has ended: wakes everybody who waits for it. From the reaper. */
void addrspace_ended(struct systrap_addrspace *as);
/* The end of a service thread. */
void thread_leaves(struct systrap *p);
void *systrap_spawner(void *arg);
void *systrap_reaper(void *arg);

/* notify.c: the thread that serves the seccomp listener */
void *systrap_notifier(void *arg);
int notify_setup(struct systrap *p);

/* switch.c: the handoff */
/* Gives the turn to the stub and waits until it comes back. 0, or -ESRCH: the process is gone. */
int handoff_orders(struct systrap_context *c);
int handoff_guest(struct systrap_context *c);
void handoff_give(struct systrap_context *c, enum sysmsg_command command);
void systrap_ctx_switch(struct context *c, struct user_regs_struct *regs,
			struct platform_event *ev);
void systrap_ctx_interrupt(struct context *c);
void systrap_ctx_interrupt_clear(struct context *c);
long futex_wait(uint32_t *word, uint32_t value, uint64_t timeout_ns);
void futex_wake(uint32_t *word, int count);

/* event.c: between the signal frame and the contract's registers and events */
void frame_load_regs(struct systrap_context *c, struct user_regs_struct *regs);
/*
 * 0, or -EINVAL when the frame lies where none can: the guest has damaged its slot. 1: no event,
 * the guest is to go on from regs.
 */
int frame_decode(struct systrap_context *c, struct user_regs_struct *regs,
		 struct platform_event *ev);
/* Makes sure that the stopped thread has a signal frame: its extended state lies there. -ESRCH. */
int frame_ensure(struct systrap_context *c);
int frame_check(struct systrap_context *c, uint32_t frame);

/* memory.c */
int systrap_mem(struct context *c, const struct mem_op *ops, size_t count, size_t *done);
int systrap_cmpxchg32(struct context *c, uint64_t at, uint32_t expect, uint32_t new_val,
		      uint32_t *old);
ssize_t systrap_as_read(struct addrspace *as, uint64_t from, void *buf, size_t len);
/* The bytes as they are, jumps of patched sites included. */
ssize_t systrap_as_peek(struct systrap_addrspace *as, uint64_t from, void *buf, size_t len);
ssize_t systrap_as_write(struct addrspace *as, uint64_t to, const void *buf, size_t len);
int systrap_ctx_cpu_time(struct context *c, uint64_t *ns);

/* bounce.c */
/* After a syscall event: the stub may have brought an argument along. */
void bounce_event(struct systrap_context *c);
/* Hands the stores over to the stub; with COMMAND_RESUME only. */
void bounce_resume(struct systrap_context *c);
size_t systrap_ctx_brought(struct context *c, uint64_t from, void *buf, size_t size);
int systrap_ctx_store_later(struct context *c, uint64_t to, const void *buf, size_t size);
int systrap_ctx_stores_now(struct context *c);

/* order.c: lists of orders for a stopped stub thread */
struct order_list {
	struct systrap_context *c;
	struct sysmsg_order order[SYSMSG_MAX_ORDERS];
	int fd[SYSMSG_MAX_ORDERS];
	uint8_t notified[SYSMSG_MAX_ORDERS];
	uint32_t count;
	uint32_t done;	   /* after order_run(), as the stub claims */
	uint32_t approved; /* notified calls that really came */
};
void order_begin(struct order_list *l, struct systrap_context *c);
/* `fd` is -1 or the sentry's fd that the stub sees as fd 0 during the call. */
void order_add(struct order_list *l, int notified, int fd, uint64_t nr, uint64_t a, uint64_t b,
	       uint64_t d, uint64_t e, uint64_t f, uint64_t g);
/* Runs all; 0, the first failure's errno, or -ESRCH. Results are in order[i].ret. */
int order_run(struct order_list *l);
/* The context's last order: exit. Does not wait. */
void order_exit(struct systrap_context *c);

/* fpstate.c */
void fpstate_probe(struct systrap *p);
int systrap_fpstate_get(struct context *c, void *buf, size_t size);
int systrap_fpstate_set(struct context *c, const void *buf, size_t size);
void systrap_fpstate_reset(struct context *c);

#endif
