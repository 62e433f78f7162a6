/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The initial stack of a program, as the System V ABI for x86-64 wants it. From the top down: an
 * empty word, the name executed, environment strings, argument strings, the platform string and
 * the random bytes, then the auxiliary vector, envp, argv and argc, with argc on a 16-byte line.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/random.h>

#include "sentry/loader/loader.h"
#include "sentry/task/task.h"

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif
#define PLATFORM_STRING "x86_64"
#define RANDOM_BYTES 16
#define AUX_PAIRS_MAX 24
#define RED_GAP 128 /* room for alignment */

struct aux {
	uint64_t v[AUX_PAIRS_MAX * 2];
	size_t n;
};

static void aux_add(struct aux *x, uint64_t type, uint64_t val)
{
	x->v[x->n++] = type;
	x->v[x->n++] = val;
}

static size_t strings_size(const struct stack_args *a)
{
	size_t n = strlen(a->execfn) + 1;

	for (size_t i = 0; i < a->argc; i++)
		n += strlen(a->argv[i]) + 1;
	for (size_t i = 0; i < a->envc; i++)
		n += strlen(a->envp[i]) + 1;
	return n;
}

size_t stack_size_needed(const struct stack_args *a)
{
	return 8 + strings_size(a) + a->align_random + sizeof(PLATFORM_STRING) + RANDOM_BYTES +
	       (a->argc + a->envc + 3) * 8 + AUX_PAIRS_MAX * 16 + RED_GAP;
}

struct stack_addrs {
	uint64_t execfn, env, arg, platform, random;
};

static void fill_aux(struct aux *x, const struct mm *mm, const struct stack_args *a,
		     const struct stack_addrs *at)
{
	const struct cred *c = a->cred;
	unsigned long min_stack = getauxval(AT_MINSIGSTKSZ);

	if (mm->vdso)
		aux_add(x, AT_SYSINFO_EHDR, mm->vdso);
	aux_add(x, AT_MINSIGSTKSZ, min_stack ? min_stack : 2048);
	aux_add(x, AT_HWCAP, getauxval(AT_HWCAP));
	aux_add(x, AT_PAGESZ, GUEST_PAGE_SIZE);
	aux_add(x, AT_CLKTCK, 100);
	aux_add(x, AT_PHDR, a->img->phdr);
	aux_add(x, AT_PHENT, sizeof(Elf64_Phdr));
	aux_add(x, AT_PHNUM, a->elf->eh.e_phnum);
	aux_add(x, AT_BASE, a->interp_base);
	aux_add(x, AT_FLAGS, 0);
	aux_add(x, AT_ENTRY, a->img->entry);
	aux_add(x, AT_UID, c->uid);
	aux_add(x, AT_EUID, c->euid);
	aux_add(x, AT_GID, c->gid);
	aux_add(x, AT_EGID, c->egid);
	aux_add(x, AT_SECURE, (uint64_t)(a->secure != 0));
	aux_add(x, AT_RANDOM, at->random);
	aux_add(x, AT_HWCAP2, getauxval(AT_HWCAP2));
	aux_add(x, AT_EXECFN, at->execfn);
	aux_add(x, AT_PLATFORM, at->platform);
	aux_add(x, AT_NULL, 0);
}

/* Copies the strings to p (kernel memory) and their guest addresses to vec. */
static char *put_strings(char *p, char *const *s, size_t count, uint64_t guest, uint64_t *vec)
{
	for (size_t i = 0; i < count; i++) {
		size_t n = strlen(s[i]) + 1;

		memcpy(p, s[i], n);
		vec[i] = guest;
		p += n;
		guest += n;
	}
	vec[count] = 0;
	return p;
}

static uint64_t total_len(char *const *s, size_t count)
{
	uint64_t n = 0;

	for (size_t i = 0; i < count; i++)
		n += strlen(s[i]) + 1;
	return n;
}

int stack_build(struct mm *mm, const struct stack_args *a, uint64_t *sp)
{
	size_t size = (stack_size_needed(a) + 15) & ~15ull, vec_words; /* the vectors are aligned */
	struct stack_addrs at;
	struct aux aux = { .n = 0 };
	uint64_t low = a->stack_top - size, pointer;
	uint8_t *buf;
	int err = 0;

	buf = calloc(1, size);
	if (!buf)
		return -ENOMEM;
	/* Addresses, from the top. */
	at.execfn = a->stack_top - 8 - (strlen(a->execfn) + 1);
	at.env = at.execfn - total_len(a->envp, a->envc);
	at.arg = at.env - total_len(a->argv, a->argc);
	pointer = (at.arg - a->align_random) & ~15ull;
	at.platform = pointer - sizeof(PLATFORM_STRING);
	at.random = (at.platform - RANDOM_BYTES) & ~15ull;
	fill_aux(&aux, mm, a, &at);
	vec_words = 1 + a->argc + 1 + a->envc + 1 + aux.n;
	pointer = (at.random - vec_words * 8) & ~15ull;

	uint64_t *vec = (uint64_t *)(buf + (pointer - low));
	char *strings = (char *)buf + (at.arg - low);

	*vec++ = a->argc;
	strings = put_strings(strings, a->argv, a->argc, at.arg, vec);
	vec += a->argc + 1;
	strings = put_strings(strings, a->envp, a->envc, at.env, vec);
	vec += a->envc + 1;
	memcpy(vec, aux.v, aux.n * 8);
	memcpy(strings, a->execfn, strlen(a->execfn) + 1);
	memcpy(buf + (at.platform - low), PLATFORM_STRING, sizeof(PLATFORM_STRING));
	if (getrandom(buf + (at.random - low), RANDOM_BYTES, 0) != RANDOM_BYTES)
		err = -EIO;
	if (!err && mm_write(mm, pointer, buf + (pointer - low), a->stack_top - pointer) !=
			    (ssize_t)(a->stack_top - pointer))
		err = -EFAULT;
	free(buf);
	if (err)
		return err;
	mm->arg_start = at.arg;
	mm->arg_end = mm->env_start = at.env;
	mm->env_end = at.execfn;
	mm->start_stack = pointer;
	memcpy(mm->auxv, aux.v, aux.n * 8);
	mm->auxv_count = aux.n;
	*sp = pointer;
	return 0;
}
