/* SPDX-License-Identifier: Apache-2.0 */
/*
 * execve. The whole new image is built in a fresh address space first, while the old program is
 * untouched: whatever can fail fails there, with an errno. Then the other threads of the process
 * are killed and waited for; from then on the call can not return to the old program. Last, the
 * task changes over: context, memory, credentials, signals, descriptors.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/random.h>

#include "platform/base/log.h"
#include "sentry/loader/loader.h"
#include "sentry/mm/mm_priv.h"
#include "sentry/task/exec.h"
#include "sentry/task/task_priv.h"

#define SCRIPT_DEPTH_MAX 5
#define STACK_SLACK (128ull << 10) /* mapped below the strings; the rest grows on demand */
#define STACK_GAP_MIN (128ull << 20)
#define STACK_GAP_MAX (GUEST_TASK_SIZE / 6 * 5)
#define STACK_RANDOM_PAGES (1ull << 22)
#define MMAP_RANDOM_PAGES (1ull << 28)
#define BRK_RANDOM_SIZE (32ull << 20)
#define PIE_BASE 0x555555554000ull /* two thirds of Linux's task size */
#define STACK_RANDOM_SIZE 8192u
#define PER_CLEAR_ON_SETID_BITS \
	(READ_IMPLIES_EXEC | ADDR_NO_RANDOMIZE | ADDR_COMPAT_LAYOUT | MMAP_PAGE_ZERO)

/* Weak: the ptrace part stops here when it traces t. old_tid: the caller's before it became leader. */
void ptrace_exec_event(struct task *t, int old_tid) __attribute__((weak));

/* Everything about the program to come. */
struct exec_image {
	struct file *file;   /* the final ELF file; a reference */
	struct file *interp; /* a reference, or NULL */
	struct elf_file elf, interp_elf;
	char **argv; /* pointers owned, strings not; the first ones replaced by scripts */
	size_t argc;
	char *script_paths[SCRIPT_DEPTH_MAX * 2 + 2]; /* strings owned */
	size_t script_path_count;
	struct exec_creds creds;
	struct mm *mm;
	struct context *ctx;
	uint64_t entry, sp;
	int secret; /* not readable by the caller: not dumpable */
};

static void image_free(struct exec_image *x)
{
	elf_close(&x->elf);
	elf_close(&x->interp_elf);
	if (x->file)
		file_put(x->file);
	if (x->interp)
		file_put(x->interp);
	free(x->argv);
	for (size_t i = 0; i < x->script_path_count; i++)
		free(x->script_paths[i]);
	cred_put(x->creds.cred);
	if (x->ctx)
		context_put(x->ctx);
	if (x->mm)
		mm_put(x->mm);
}

static uint64_t random_u64(void)
{
	uint64_t v;

	/* Only the start of the sandbox could find the pool empty. */
	if (getrandom(&v, sizeof(v), 0) != sizeof(v))
		v = mono_now_ns();
	return v;
}

/* ---- which file ---- */

static struct file *open_program(struct task *t, const char *path)
{
	struct vfs_ctx ctx;
	struct file *f;

	task_vfs_ctx(t, &ctx);
	f = vfs_open_exec(&ctx, NULL, path, LOOKUP_FOLLOW);
	task_vfs_ctx_put(&ctx);
	return f;
}

/* argv becomes: interpreter, its argument, the script's name, argv[1] … */
static int script_argv(struct exec_image *x, const struct script *s, const char *script_name)
{
	size_t add = s->arg ? 2 : 1, tail = x->argc ? x->argc - 1 : 0;
	char **v = calloc(add + 1 + tail + 1, sizeof(*v));
	char *own[3] = { strdup(s->interp), s->arg ? strdup(s->arg) : NULL, NULL };

	if (!v || !own[0] || (s->arg && !own[1])) {
		free(v);
		free(own[0]);
		free(own[1]);
		return -ENOMEM;
	}
	for (size_t i = 0; i < add; i++)
		v[i] = x->script_paths[x->script_path_count++] = own[i];
	v[add] = (char *)script_name;
	for (size_t i = 0; i < tail; i++)
		v[add + 1 + i] = x->argv[i + 1];
	free(x->argv);
	x->argv = v;
	x->argc = add + 1 + tail;
	return 0;
}

/* Follows "#!" lines until x->file is no script. */
static int resolve_scripts(struct task *t, struct exec_image *x, const struct exec_args *a)
{
	const char *name = a->path;

	for (int depth = 0;; depth++) {
		char head[EXEC_HEAD_SIZE] = { 0 };
		struct script s;
		ssize_t n = file_kread(x->file, head, sizeof(head), 0);
		int err;

		if (n < 0)
			return (int)n;
		if (script_parse(head, &s) != 0)
			return 0;
		if (depth == SCRIPT_DEPTH_MAX)
			return -ELOOP;
		/* The interpreter would not be able to open the script by its name. */
		if (a->path_inaccessible)
			return -ENOENT;
		err = script_argv(x, &s, name);
		if (err)
			return err;
		name = x->argv[0];
		file_put(x->file);
		x->file = open_program(t, name);
		if (IS_ERR(x->file)) {
			err = (int)PTR_ERR(x->file);
			x->file = NULL;
			return err;
		}
	}
}

static int open_interp(struct task *t, struct exec_image *x)
{
	int err;

	if (!x->elf.interp)
		return 0;
	x->interp = open_program(t, x->elf.interp);
	if (IS_ERR(x->interp)) {
		err = (int)PTR_ERR(x->interp);
		x->interp = NULL;
		return err;
	}
	err = elf_open(x->interp, &x->interp_elf);
	return err == -ENOEXEC ? -ELIBBAD : err;
}

static void check_readable(struct task *t, struct exec_image *x)
{
	if (vfs_path_permission(x->file->path, MAY_READ, task_cred(t)) ||
	    (x->interp && vfs_path_permission(x->interp->path, MAY_READ, task_cred(t))))
		x->secret = 1;
}

/* ---- the address space ---- */

static void layout(struct task *t, struct mm *mm, int randomize)
{
	uint64_t gap = rlimit_cur(t, RLIMIT_STACK), pad = STACK_GUARD_GAP, rnd = 0;

	mm->stack_top = GUEST_TASK_SIZE;
	if (randomize) {
		mm->stack_top -= (random_u64() & (STACK_RANDOM_PAGES - 1)) * PAGE_SIZE;
		pad += STACK_RANDOM_PAGES * PAGE_SIZE;
		rnd = (random_u64() & (MMAP_RANDOM_PAGES - 1)) * PAGE_SIZE;
	}
	if (gap <= UINT64_MAX - pad)
		gap += pad;
	if (gap < STACK_GAP_MIN)
		gap = STACK_GAP_MIN;
	if (gap > STACK_GAP_MAX)
		gap = STACK_GAP_MAX;
	mm->mmap_base = page_down(GUEST_TASK_SIZE - gap - rnd);
}

static int map_stack(struct exec_image *x, const struct stack_args *sa)
{
	uint64_t size = page_up(stack_size_needed(sa) + STACK_SLACK);
	int prot = PROT_READ | PROT_WRITE | (x->elf.exec_stack == 1 ? PROT_EXEC : 0);
	int64_t r = mm_map_in(x->mm, x->ctx, x->mm->stack_top - size, size, prot,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, NULL, 0, "[stack]",
			      VMA_GROWSDOWN);

	return r < 0 ? (int)r : 0;
}

/* Where the heap starts: after the image; for a loader run by itself, where a PIE would be. */
static void place_brk(struct mm *mm, const struct exec_image *x, const struct elf_image *img,
		      int randomize)
{
	uint64_t at = page_up(img->end);

	if (x->elf.eh.e_type == ET_DYN && !x->interp)
		at = PIE_BASE;
	if (randomize)
		at += page_down(random_u64() % BRK_RANDOM_SIZE);
	mm->brk_start = mm->brk = at;
}

static int build_image(struct task *t, struct exec_image *x, const struct exec_args *a)
{
	int randomize = !(t->personality & ADDR_NO_RANDOMIZE), err;
	struct elf_image img, interp_img;
	uint64_t base = 0, rnd;
	struct addrspace *as;
	struct stack_args sa = { 0 };
	struct elf_tails tails;

	tails.count = 0;
	err = addrspace_new(t->k->platform, &as, &x->ctx);
	if (err)
		return err;
	x->mm = mm_new(t->k, as);
	if (!x->mm) {
		addrspace_put(as);
		return -ENOMEM;
	}
	layout(t, x->mm, randomize);
	/* A PIE goes to its own region; a loader that is run by itself to the mmap area. */
	if (x->elf.eh.e_type == ET_DYN && x->interp) {
		rnd = randomize ? (random_u64() & (MMAP_RANDOM_PAGES - 1)) * PAGE_SIZE : 0;
		base = PIE_BASE + rnd;
		if (base + (x->elf.hi - x->elf.lo) > x->mm->mmap_base)
			base = 0;
	}
	err = mm_batch_begin(x->mm);
	if (!err)
		err = elf_map(&x->elf, x->mm, x->ctx, base, &img, &tails);
	if (err)
		return err;
	x->entry = img.entry;
	if (x->interp) {
		err = elf_map(&x->interp_elf, x->mm, x->ctx, 0, &interp_img, &tails);
		x->entry = interp_img.entry;
		sa.interp_base = interp_img.bias;
	}
	if (!err)
		err = vdso_map(x->mm, x->ctx);
	if (err)
		return err;
	place_brk(x->mm, x, &img, randomize);
	sa.argv = x->argv;
	sa.argc = x->argc;
	sa.envp = a->envp;
	sa.envc = a->envc;
	sa.execfn = a->path;
	sa.elf = &x->elf;
	sa.img = &img;
	sa.cred = x->creds.cred ? x->creds.cred : task_cred(t);
	sa.secure = x->creds.secure;
	sa.stack_top = x->mm->stack_top;
	sa.align_random = randomize ? random_u64() % STACK_RANDOM_SIZE : 0;
	err = map_stack(x, &sa);
	if (!err)
		err = mm_batch_end(x->mm, x->ctx);
	if (!err)
		err = elf_zero_tails(x->mm, &tails);
	if (!err)
		err = stack_build(x->mm, &sa, &x->sp);
	x->mm->start_code = img.start_code;
	x->mm->end_code = img.end_code;
	x->mm->start_data = img.start_data;
	x->mm->end_data = img.end_data;
	x->mm->exe = file_get(x->file);
	return err;
}

/* ---- the other threads ---- */

/* Kills them and waits; afterwards t is the only thread. -EAGAIN: we are dying ourselves. */
static int kill_other_threads(struct task *t)
{
	struct thread_group *tg = t->tg;
	struct task *i;
	uint32_t others;

	lock_acquire(&t->k->tasks_lock);
	if ((tg->group_flags & TG_EXITING) || tg->exec_task ||
	    (__atomic_load_n(&t->work, __ATOMIC_SEQ_CST) & TASK_WORK_EXIT)) {
		lock_release(&t->k->tasks_lock);
		return -EAGAIN;
	}
	tg->exec_task = t;
	tg->group_flags |= TG_EXECING;
	list_for_each(i, &tg->tasks, tg_node)
		if (i != t && i->state != TASK_DEAD)
			task_kick(i, TASK_WORK_EXIT);
	others = tg->task_count - 1;
	lock_release(&t->k->tasks_lock);
	while (others) {
		int err = task_sleep_killable(t, NO_DEADLINE);

		lock_acquire(&t->k->tasks_lock);
		others = tg->task_count - 1;
		if (err && others) {
			tg->exec_task = NULL;
			tg->group_flags &= ~(uint32_t)TG_EXECING;
			lock_release(&t->k->tasks_lock);
			return -EAGAIN;
		}
		lock_release(&t->k->tasks_lock);
	}
	return 0;
}

/* The process keeps its id: whoever execs takes the place of the (dead) leader. */
static void become_leader(struct task *t)
{
	struct thread_group *tg = t->tg;
	struct task *old;
	struct pid *mine;

	lock_acquire(&t->k->tasks_lock);
	old = tg->leader;
	if (old != t) {
		mine = t->pid;
		t->pid = pid_get(tg->pid);
		tg->pid->task = t;
		tg->leader = t;
		mine->task = NULL;
		pid_release_unused(mine);
		pid_put(mine);
		task_unlink_locked(old);
	}
	tg->exec_task = NULL;
	tg->group_flags &= ~(uint32_t)TG_EXECING;
	lock_release(&t->k->tasks_lock);
}

/* ---- changing over ---- */

static void swap_address_space(struct task *t, struct exec_image *x)
{
	struct thread_group *tg = t->tg;
	struct mm *old = t->mm;
	uint64_t ns = 0;

	if (!old || __atomic_load_n(&old->users, __ATOMIC_SEQ_CST) != 1 ||
	    addrspace_cpu_time(old->as, &ns) != 0)
		ns = 0;
	task_leave_mm(t);
	x->mm->users = 1;
	task_set_ctx(t, x->ctx);
	lock_acquire(&t->k->tasks_lock);
	tg->past_utime_ns += ns;
	t->mm = x->mm;
	t->plain_generation = 0;
	lock_release(&t->k->tasks_lock);
	x->ctx = NULL;
	x->mm = NULL;
}

static void set_dumpable(struct task *t, const struct exec_image *x)
{
	const struct cred *c = task_cred(t);
	int dumpable = c->uid == c->euid && c->gid == c->egid && !x->secret;

	__atomic_store_n(&t->mm->dumpable, dumpable, __ATOMIC_RELAXED);
}

static void set_comm(struct task *t, const struct exec_args *a)
{
	const char *slash = strrchr(a->path, '/');

	lock_acquire(&t->k->tasks_lock);
	snprintf(t->comm, sizeof(t->comm), "%s", slash ? slash + 1 : a->path);
	lock_release(&t->k->tasks_lock);
}

static void reset_thread_state(struct task *t, const struct exec_image *x)
{
	memset(&t->regs, 0, sizeof(t->regs));
	t->regs.rip = x->entry;
	t->regs.rsp = x->sp;
	t->regs.eflags = 0x202;
	t->regs.cs = 0x33;
	t->regs.ss = 0x2b;
	t->robust_list = 0;
	t->rseq_addr = 0;
	t->rseq_len = 0;
	t->set_child_tid = 0;
	t->restart.fn = NULL;
	t->keep_caps = 0;
	t->personality &= ~(uint32_t)READ_IMPLIES_EXEC;
	if (x->creds.secure || x->creds.ids_changed) {
		t->pdeath_signal = 0;
		t->personality &= ~(uint32_t)PER_CLEAR_ON_SETID_BITS;
	}
}

static void change_over(struct task *t, struct exec_image *x, const struct exec_args *a)
{
	struct thread_group *tg = t->tg;
	int old_tid = task_tid(t);

	become_leader(t);
	if (timers_group_exit)
		timers_group_exit(tg, 1);
	swap_address_space(t, x);
	reset_thread_state(t, x);
	signal_exec(t);
	if (x->creds.cred) {
		task_set_cred(t, x->creds.cred);
		x->creds.cred = NULL;
	}
	set_dumpable(t, x);
	set_comm(t, a);
	tg->did_exec = 1;
	tg->exit_signal = SIGCHLD;
	if (ptrace_exec_event && t->ptrace)
		ptrace_exec_event(t, old_tid);
}

static int prepare(struct task *t, struct exec_image *x, const struct exec_args *a)
{
	int err;

	x->argv = calloc(a->argc + 1, sizeof(*x->argv));
	if (!x->argv)
		return -ENOMEM;
	if (a->argc)
		memcpy(x->argv, a->argv, a->argc * sizeof(*x->argv));
	x->argc = a->argc;
	if (!x->file) {
		x->file = open_program(t, a->path);
		if (IS_ERR(x->file)) {
			err = (int)PTR_ERR(x->file);
			x->file = NULL;
			return err;
		}
	}
	err = resolve_scripts(t, x, a);
	if (!err)
		err = elf_open(x->file, &x->elf);
	if (!err)
		err = open_interp(t, x);
	if (err)
		return err;
	err = exec_creds_prepare(t, x->file, &x->creds);
	if (err)
		return err;
	check_readable(t, x);
	return build_image(t, x, a);
}

int task_exec(struct task *t, struct exec_args *a)
{
	struct exec_image x = { .file = a->file };
	int err;

	a->file = NULL;
	err = prepare(t, &x, a);
	if (!err)
		err = kill_other_threads(t);
	if (!err) {
		change_over(t, &x, a);
		/* No way back: a process that can not have its own descriptors ends. */
		if (fdtable_exec(t)) {
			lock_acquire(&t->k->tasks_lock);
			tg_exit_locked(t->tg, SIGKILL);
			lock_release(&t->k->tasks_lock);
		}
	}
	image_free(&x);
	return err;
}
