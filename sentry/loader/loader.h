/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From an executable file to a ready address space: ELF images, scripts, the initial stack. Works
 * on a fresh mm that no task runs in yet, so every failure leaves the caller's process as it was.
 * File contents are hostile: every number is bounded before it is used.
 */
#ifndef CAISSON_LOADER_H
#define CAISSON_LOADER_H

#include <elf.h>
#include <stddef.h>
#include <stdint.h>

#include "sentry/mm/mm.h"

#define EXEC_HEAD_SIZE 256 /* BINPRM_BUF_SIZE */

/* ---- script.c ---- */

struct script {
	char *interp; /* both point into the head buffer, which is cut up */
	char *arg;    /* NULL: none */
};
/* Parses "#!" lines: 0, or -ENOEXEC when it is no script or a broken one. head has
 * EXEC_HEAD_SIZE bytes, zero-filled past the file's end. */
int script_parse(char head[EXEC_HEAD_SIZE], struct script *s);

/* ---- elf.c ---- */

#define ELF_PHNUM_MAX (65536 / sizeof(Elf64_Phdr))

struct elf_file {
	struct file *file; /* borrowed */
	Elf64_Ehdr eh;
	Elf64_Phdr *ph; /* owned */
	char *interp;	/* owned; PT_INTERP's path, or NULL */
	int exec_stack; /* 1, 0, or -1 without PT_GNU_STACK */
	uint64_t lo, hi; /* page-rounded span of the PT_LOADs; hi > lo */
};
/* Reads and checks the headers. -ENOEXEC for what is no x86-64 ELF program, -EIO, -ENOMEM. */
int elf_open(struct file *f, struct elf_file *e);
void elf_close(struct elf_file *e);

struct elf_image {
	uint64_t bias;	/* added to the addresses in the file */
	uint64_t entry;
	uint64_t phdr;	/* guest address of the program headers, 0 when not loaded */
	uint64_t start_code, end_code, start_data, end_data;
	uint64_t end; /* highest address + memsz: where the heap may begin */
};
/* Partial pages at the ends of file segments, to be zeroed once the mappings are in force. */
#define ELF_TAILS_MAX 64
struct elf_tails {
	size_t count;
	struct {
		uint64_t from, to;
	} v[ELF_TAILS_MAX];
};
/* Zeroes them: after mm_batch_end. -EFAULT when that is not possible. */
int elf_zero_tails(struct mm *mm, struct elf_tails *t);

/* Where the base of an ET_DYN image is to be; ET_EXEC ignores it. 0: the mmap area. */
int elf_map(const struct elf_file *e, struct mm *mm, struct context *ctx, uint64_t base,
	    struct elf_image *img, struct elf_tails *tails);

/* ---- auxv.c: the initial stack ---- */

struct stack_args {
	char *const *argv, *const *envp;
	size_t argc, envc;
	const char *execfn;
	const struct elf_file *elf;
	const struct elf_image *img;
	uint64_t interp_base; /* 0: none */
	const struct cred *cred;
	int secure;
	uint64_t stack_top; /* the strings end 8 bytes below */
	uint64_t align_random; /* bytes to lower the stack pointer by, below 8192 */
};
/* Writes strings, vectors and auxv into mm, after mm_batch_end; its arg and env bounds and auxv are set. */
int stack_build(struct mm *mm, const struct stack_args *a, uint64_t *sp);
/* Bytes the strings and vectors will take. */
size_t stack_size_needed(const struct stack_args *a);

/* ---- vdso.c ---- */

/* Once at boot, before lockdown. Without a vDSO programs run all the same. */
int vdso_start(struct kernel *k);
/* Reads a clock as the vDSO would, renewing the time page when it is too old: 1 and *ns, or 0 when this
 * clock is not served so. All reads of the guest go this way, so that none goes back. */
int vdso_clock_read(struct kernel *k, int clock, uint64_t *ns);
/* Maps it into mm and sets mm->vdso; no vDSO is no error. */
int vdso_map(struct mm *mm, struct context *ctx);

#endif
