/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A guest address space as the kernel sees it: the VMA tree over a platform addrspace. The VMA
 * tree decides; the host's page tables follow by orders through the calling task's context.
 *
 * mm->lock (RANK_MM) is held over a change of the tree and the host orders that carry it out.
 * Calls that change memory take the task whose own mm it is. Errors are negative errno.
 */
#ifndef CAISSON_MM_H
#define CAISSON_MM_H

#include <stdint.h>
#include <sys/mman.h>

#include "platform/base/lock.h"
#include "platform/base/refs.h"
#include "platform/base/strbuf.h"
#include "platform/base/uio.h"
#include "platform/platform.h"
#include "vfs/vfs.h"

struct task;
struct aio_table;

struct vma {
	uint64_t start, end; /* page aligned, end exclusive */
	uint32_t prot;	     /* PROT_READ|WRITE|EXEC */
	uint32_t max_prot;   /* what mprotect may raise it to (file mode, noexec) */
	uint32_t flags;	     /* VMA_* */
	struct file *file;   /* reference, or NULL: private anonymous */
	uint64_t off;	     /* file offset of start */
	char *name; /* PR_SET_VMA_ANON_NAME or special name ("[stack]", "[vdso]"), or NULL */
	int pkey;
	struct vma *next_dead; /* in mm->dead */
};
#define VMA_SHARED	1u
#define VMA_GROWSDOWN	2u
#define VMA_DONTFORK	4u
#define VMA_WIPEONFORK	8u
#define VMA_LOCKED	16u
#define VMA_LOCKONFAULT 32u
#define VMA_NORESERVE	64u
#define VMA_DONTDUMP	128u
#define VMA_HUGEPAGE	256u
#define VMA_NOHUGEPAGE	512u
#define VMA_SPECIAL	1024u /* vdso: no mprotect to writable, no mremap growth */
#define VMA_SYSV_SHM	2048u
#define VMA_SEALED	4096u /* mseal(2) */
#define VMA_HOLES	8192u /* parts are not mapped on the host yet (file end): fault retries */

struct mm {
	struct ref ref; /* tasks and others that use it */
	struct kernel *k;
	struct lock lock;     /* RANK_MM */
	struct addrspace *as; /* [I] */
	struct vma **vmas;    /* [lock] sorted by start */
	size_t vma_count, vma_cap;
	struct vma *dead;	 /* [lock] taken out, freed once the lock is released */
	uint64_t generation;	 /* [lock] bumped by each change */
	uint64_t brk_start, brk; /* [lock] */
	uint64_t mmap_base;	 /* [I] top of the mmap area, allocation goes down */
	uint64_t stack_top;	 /* [I] */
	uint64_t arg_start, arg_end, env_start, env_end; /* [lock] */
	uint64_t start_code, end_code, start_data, end_data, start_stack;
	uint64_t vdso;	   /* guest address of the vDSO, 0: none */
	uint64_t auxv[64]; /* [lock] as put on the stack, for /proc/PID/auxv */
	size_t auxv_count; /* words */
	struct file *exe;  /* [lock] reference */
	uint64_t total_pages, locked_pages, data_pages, stack_pages; /* [lock] */
	uint64_t hiwater_pages;
	uint32_t def_flags; /* mlockall(MCL_FUTURE) */
	int dumpable;	    /* [a] */
	int mdwe;
	struct mm_batch *batch; /* host orders held back by mm_batch_begin, or NULL */
	uint32_t users;		 /* [a] tasks that run in it */
	uint32_t hole_vmas;	 /* [lock] to write, [a] to read: vmas with VMA_HOLES */
	uint64_t rss_pages;	 /* [a] resident anonymous pages when last sampled (oom.c) */
	uint64_t rss_sampled_ns; /* [a] when that was, CLOCK_MONOTONIC */
	uint64_t oom_next_ns;	 /* [a] when the limit is to be looked at again */
	uint64_t fault_addr;	 /* [lock] last fault that looked already mended ... */
	uint32_t fault_tries;	 /* [lock] ... and how often it came back */
	struct aio_table *aio;	 /* [a] io_setup contexts, once there is one (sys_aio.c) */
	uint32_t pkeys;		 /* [lock] protection keys allocated, bit 0 always set */
};

/* An empty mm over as; consumes the reference on as. Returns a reference. */
struct mm *mm_new(struct kernel *k, struct addrspace *as);
struct mm *mm_get(struct mm *mm);
void mm_put(struct mm *mm);
/* fork: duplicates t's mm; *child_ctx is the new context. */
struct mm *mm_fork(struct task *t, struct context **child_ctx);
/* A reference on another task's mm, or NULL (exiting). Takes tasks_lock. */
struct mm *task_mm_get(struct task *t);

/* mmap(2) in t's mm: the address or negative errno. file borrowed; off page aligned. */
int64_t mm_map(struct task *t, uint64_t addr, uint64_t len, int prot, int flags, struct file *file,
	       uint64_t off);
/* For the loader, whose new mm is not yet t->mm: an explicit mm and context. */
int64_t mm_map_in(struct mm *mm, struct context *ctx, uint64_t addr, uint64_t len, int prot,
		  int flags, struct file *file, uint64_t off, const char *name, uint32_t vma_flags);
/*
 * Between begin and end, the host orders of mm_map_in on a new mm that nobody runs in are held back
 * and go in one handoff: the loader's image. Nothing may touch its memory before the end. A failure
 * leaves the mm fit only for mm_put. end without begin is harmless.
 */
int mm_batch_begin(struct mm *mm);
int mm_batch_end(struct mm *mm, struct context *ctx);
int mm_unmap(struct task *t, uint64_t addr, uint64_t len);
int mm_protect(struct task *t, uint64_t addr, uint64_t len, int prot, int pkey);
/*
 * A fault of the guest: 0 when it was ours to mend (stack growth, file grew) and the access can
 * be retried, else the signal to raise is left in ev->fault.
 */
int mm_fault(struct task *t, struct platform_event *ev);
/* Grows a GROWSDOWN vma so that addr is in it, for kernel-side access too. 0 or -EFAULT/-ENOMEM. */
int mm_grow_stack(struct task *t, uint64_t addr);
/* A hot syscall site of the guest's, which ends at `after`: see context_patch(). */
void mm_patch_site(struct task *t, uint64_t after);
/* The vma that contains addr, or NULL. mm->lock held. */
struct vma *vma_find(struct mm *mm, uint64_t addr);
/* ---- the rest of memory management, for sys_mm.c and the calls that share its rules ---- */

int64_t mm_remap(struct task *t, uint64_t old, uint64_t old_len, uint64_t new_len, int flags,
		 uint64_t new_addr);
uint64_t mm_brk(struct task *t, uint64_t addr); /* the new or unchanged break */
int mm_advise(struct task *t, uint64_t addr, uint64_t len, int advice);
int mm_incore(struct task *t, uint64_t addr, uint64_t len, uint64_t vec);
int mm_sync(struct task *t, uint64_t addr, uint64_t len, int flags);
int mm_lock_range(struct task *t, uint64_t addr, uint64_t len, uint32_t vma_flags); /* 0: munlock */
int mm_lock_all(struct task *t, int mcl_flags); /* 0: munlockall */
int mm_seal(struct task *t, uint64_t addr, uint64_t len);
/* PR_SET_VMA_ANON_NAME; name NULL clears. -ENOMEM for gaps, -EBADF for file mappings. */
int mm_set_name(struct task *t, uint64_t addr, uint64_t len, const char *name);
/*
 * Maps what the files under [addr, addr+len) have gained since they were mapped. Called before
 * I/O into guest memory, with no VFS lock held: the uio copies themselves never do it.
 */
void mm_fill_holes(struct task *t, uint64_t addr, uint64_t len);
/* Sandbox memory limit: called after every syscall and on EVENT_INTERRUPTED while a limit is set,
 * with no lock held; samples now and then. */
void mm_oom_check(struct task *t);
/* True when the whole range is mapped (gaps give 0). mm->lock held. */
int mm_range_mapped(struct mm *mm, uint64_t addr, uint64_t len);

void mm_show_maps(struct mm *mm, struct path root, int smaps, struct strbuf *sb); /* 2: rollup */
/* Resident pages: from mincore-free accounting of the host process, kB. */
uint64_t mm_rss_kb(struct mm *mm);

/* sys_aio.c: frees the contexts of an address space that goes. */
void aio_table_free(struct aio_table *tab);

/* ---- usermem.c: the only door to guest bytes ---- */

/*
 * Copies of the current task may come with the syscall or wait for its end (context_brought(),
 * context_store_later()). user_copies_now() makes those that wait and lets nothing that was brought
 * count any more: before the task sleeps, before others may look. 0, or -EFAULT.
 */
int user_copies_now(struct task *t);
/* All n bytes or -EFAULT (some may have been copied). */
int copy_from_user(struct task *t, void *dst, uint64_t src, size_t n);
int copy_to_user(struct task *t, uint64_t dst, const void *src, size_t n);
/* As much as possible: bytes copied, or -EFAULT when none. */
ssize_t copy_from_user_some(struct task *t, void *dst, uint64_t src, size_t n);
ssize_t copy_to_user_some(struct task *t, uint64_t dst, const void *src, size_t n);
int clear_user(struct task *t, uint64_t dst, size_t n);
/* A NUL-terminated string into buf of `size`: its length, -EFAULT, or -ENAMETOOLONG when it does
 * not fit. */
ssize_t copy_string_from_user(struct task *t, char *buf, size_t size, uint64_t src);
/* A path: PATH_MAX rules. Caller frees with free(). ERR_PTR on error; "" is allowed. */
char *copy_path_from_user(struct task *t, uint64_t src);
int get_user_u32(struct task *t, uint64_t src, uint32_t *v);
int get_user_u64(struct task *t, uint64_t src, uint64_t *v);
int put_user_u32(struct task *t, uint64_t dst, uint32_t v);
int put_user_u64(struct task *t, uint64_t dst, uint64_t v);
/* clone3/openat2-style versioned structs: copies min(usize, ksize), zero-fills the rest, -E2BIG
 * when bytes beyond ksize are not zero, -EINVAL under min_size. */
int copy_struct_from_user(struct task *t, void *dst, size_t ksize, uint64_t src, size_t usize,
			  size_t min_size);
/* Another process's memory (ptrace, process_vm_*, /proc/PID/mem); counts as above. */
ssize_t mm_read(struct mm *mm, void *dst, uint64_t src, size_t n);
ssize_t mm_write(struct mm *mm, uint64_t dst, const void *src, size_t n);
ssize_t mm_write_force(struct mm *mm, uint64_t dst, const void *src,
		       size_t n); /* through read-only: ptrace */

/* A uio over one guest buffer; len is clamped to MAX_RW_COUNT. -EFAULT when out of guest range. */
int uio_init_user(struct task *t, struct uio *u, uint64_t addr, uint64_t len);
/*
 * A uio over a guest iovec array, copied once: -EINVAL (count > 1024, length overflow), -EFAULT.
 * segs must hold IOV_FAST entries; longer arrays are allocated: call uio_user_free afterwards.
 */
#define IOV_FAST 8
struct uio_user {
	struct uio u;
	struct uio_seg fast[IOV_FAST];
	struct uio_seg *segs;
};
int uio_import_iovec(struct task *t, struct uio_user *uu, uint64_t iov, uint64_t count);
void uio_user_free(struct uio_user *uu);

#endif
