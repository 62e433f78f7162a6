/* SPDX-License-Identifier: Apache-2.0 */
/*
 * execve and execveat: gathering the strings. The two arrays and all strings are read once, in
 * page-sized bites, into one arena bounded by Linux's limits; what follows is task_exec's.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sentry/fd/fdtable.h"
#include "sentry/mm/mm.h"
#include "sentry/syscall/syscall.h"
#include "sentry/task/exec.h"

#define WINDOW 4096u

/* A window on guest memory, so that neighbouring strings cost one read. */
struct window {
	struct task *t;
	uint64_t base;
	size_t len;
	uint8_t buf[WINDOW];
};

struct strings {
	char *bytes;
	size_t used, cap;
	size_t *offsets; /* of each string in bytes */
	size_t count, slots;
	uint64_t budget; /* bytes still allowed, strings and pointers */
};

/* The bytes at addr up to the window's end: their count, or -EFAULT. */
static ssize_t window_at(struct window *w, uint64_t addr, const uint8_t **p)
{
	if (addr < w->base || addr - w->base >= w->len) {
		/* To the end of addr's page: what follows may not be mapped. */
		size_t want = WINDOW - (addr & (WINDOW - 1));
		ssize_t n = copy_from_user_some(w->t, w->buf, addr, want);

		if (n <= 0)
			return -EFAULT;
		w->base = addr;
		w->len = (size_t)n;
	}
	*p = w->buf + (addr - w->base);
	return (ssize_t)(w->len - (addr - w->base));
}

static int strings_reserve(struct strings *s, size_t more)
{
	size_t cap = s->cap ? s->cap : 8192;
	char *b;

	while (cap < s->used + more)
		cap *= 2;
	if (cap == s->cap)
		return 0;
	b = realloc(s->bytes, cap);
	if (!b)
		return -ENOMEM;
	s->bytes = b;
	s->cap = cap;
	return 0;
}

static int add_slot(struct strings *s)
{
	if (s->count == s->slots) {
		size_t n = s->slots ? s->slots * 2 : 64;
		size_t *o = realloc(s->offsets, n * sizeof(*o));

		if (!o)
			return -ENOMEM;
		s->offsets = o;
		s->slots = n;
	}
	s->offsets[s->count++] = s->used;
	return 0;
}

static int add_string(struct strings *s, struct window *w, uint64_t addr)
{
	size_t len = 0;
	int err = add_slot(s);

	while (!err) {
		const uint8_t *p, *nul;
		ssize_t n = window_at(w, addr, &p);

		if (n < 0)
			return (int)n;
		nul = memchr(p, 0, (size_t)n);
		size_t take = nul ? (size_t)(nul - p) + 1 : (size_t)n;

		len += take;
		if (len > EXEC_STRING_MAX || take > s->budget)
			return -E2BIG;
		s->budget -= take;
		err = strings_reserve(s, take);
		if (err)
			return err;
		memcpy(s->bytes + s->used, p, take);
		s->used += take;
		addr += take;
		if (nul)
			return 0;
	}
	return err;
}

/* The strings behind a NULL-terminated array of guest pointers; a NULL array is an empty one. */
static int add_array(struct strings *s, struct window *strs, struct window *ptrs, uint64_t array)
{
	if (!array)
		return 0;
	for (uint64_t at = array;; at += 8) {
		const uint8_t *p;
		ssize_t n = window_at(ptrs, at, &p);
		uint64_t ptr;
		int err;

		if (n < 0)
			return (int)n;
		if (n >= 8)
			memcpy(&ptr, p, 8);
		else if (copy_from_user(ptrs->t, &ptr, at, 8)) /* straddles a page */
			return -EFAULT;
		if (!ptr)
			return 0;
		if (s->budget < 8)
			return -E2BIG;
		s->budget -= 8;
		err = add_string(s, strs, ptr);
		if (err)
			return err;
	}
}

static uint64_t strings_limit(struct task *t)
{
	uint64_t limit = rlimit_cur(t, RLIMIT_STACK) / 4;

	if (limit > EXEC_STRINGS_MAX)
		limit = EXEC_STRINGS_MAX;
	return limit < EXEC_STRINGS_MIN ? EXEC_STRINGS_MIN : limit;
}

static int do_exec(struct task *t, struct exec_args *ea, uint64_t argv, uint64_t envp)
{
	struct window *w = malloc(2 * sizeof(*w));
	struct strings s = { .budget = strings_limit(t) };
	size_t argc, total;
	char **vec = NULL;
	int err;

	if (!w)
		return -ENOMEM;
	w[0].t = w[1].t = t;
	w[0].base = w[1].base = w[0].len = w[1].len = 0;
	err = strlen(ea->path) + 1 > s.budget ? -E2BIG : add_array(&s, &w[0], &w[1], argv);
	/* A program always has a name: an empty argv becomes one empty string. */
	if (!err && s.count == 0) {
		err = strings_reserve(&s, 1);
		if (!err)
			err = add_slot(&s);
		if (!err)
			s.bytes[s.used++] = '\0';
	}
	argc = s.count;
	if (!err)
		err = add_array(&s, &w[0], &w[1], envp);
	total = s.count;
	if (!err) {
		vec = malloc((total + 1) * sizeof(*vec));
		err = vec ? 0 : -ENOMEM;
	}
	if (!err) {
		for (size_t i = 0; i < total; i++)
			vec[i] = s.bytes + s.offsets[i];
		vec[total] = NULL;
		ea->argv = vec;
		ea->argc = argc;
		ea->envp = vec + argc;
		ea->envc = total - argc;
		err = task_exec(t, ea);
	}
	free(vec);
	free(s.bytes);
	free(s.offsets);
	free(w);
	if (ea->file)
		file_put(ea->file);
	return err;
}

/* Opens relative to a descriptor, and makes up the name scripts and AT_EXECFN will see. */
static int open_at(struct task *t, int dirfd, const char *path, int flags, struct exec_args *ea,
		   char *name, size_t size)
{
	struct file *dir = NULL;
	struct vfs_ctx ctx;
	struct path start;
	uint32_t lookup = flags & AT_SYMLINK_NOFOLLOW ? 0 : LOOKUP_FOLLOW;

	if (flags & AT_EMPTY_PATH)
		lookup |= LOOKUP_EMPTY;
	if (*path != '/' && dirfd != AT_FDCWD) {
		dir = fd_get_path(t, dirfd);
		if (!dir)
			return -EBADF;
		start = dir->path;
	}
	task_vfs_ctx(t, &ctx);
	ea->file = vfs_open_exec(&ctx, dir ? &start : NULL, path, lookup);
	task_vfs_ctx_put(&ctx);
	if (dir)
		file_put(dir);
	if (IS_ERR(ea->file)) {
		int err = (int)PTR_ERR(ea->file);

		ea->file = NULL;
		return err;
	}
	ea->path = path;
	if (dir) {
		snprintf(name, size, *path ? "/dev/fd/%d/%s" : "/dev/fd/%d", dirfd, path);
		ea->path = name;
		ea->path_inaccessible = fd_get_cloexec(t, dirfd) == 1;
	}
	return 0;
}

SYSCALL_HANDLER(execveat)
{
	int flags = (int)a->a[4], err;
	struct exec_args ea = { 0 };
	char *path, *name;

	if (flags & ~(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH))
		return -EINVAL;
	path = copy_path_from_user(t, a->a[1]);
	if (IS_ERR(path))
		return PTR_ERR(path);
	name = malloc(PATH_MAX + 32);
	err = name ? open_at(t, (int)a->a[0], path, flags, &ea, name, PATH_MAX + 32) : -ENOMEM;
	if (!err)
		err = do_exec(t, &ea, a->a[2], a->a[3]);
	free(name);
	free(path);
	return err;
}

SYSCALL_HANDLER(execve)
{
	char *path = copy_path_from_user(t, a->a[0]);
	struct exec_args ea = { 0 };
	int err;

	if (IS_ERR(path))
		return PTR_ERR(path);
	err = open_at(t, AT_FDCWD, path, 0, &ea, NULL, 0);
	if (!err)
		err = do_exec(t, &ea, a->a[1], a->a[2]);
	free(path);
	return err;
}
