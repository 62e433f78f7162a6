/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hostile programs: execve of ELF files with mutated headers, and of scripts.
 *
 *   elf_fuzz SEED SECONDS
 *
 * A small static program is written out, a few fields of its ELF and program headers are replaced
 * by values near the edges, and a child executes it. It may run, fail or die; the sandbox must not.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SIZE 16384
#define PHDRS 6

static uint64_t g_state;
static uint8_t g_image[SIZE];

static uint64_t rnd(void)
{
	g_state ^= g_state << 13;
	g_state ^= g_state >> 7;
	g_state ^= g_state << 17;
	return g_state * 0x2545f4914f6cdd1dull >> 8;
}

static uint64_t edge(void)
{
	static const uint64_t v[] = {
		0, 1, 2, 7, 8, 56, 64, 4095, 4096, 4097, SIZE - 1, SIZE, SIZE + 1, 65535, 65536, 0x400000, 0x401000,
		0x7fffffff, 0x80000000, 0xffffffff, 0x100000000, 0x7fffbffff000, 0x7fffc0000000, 0x7ffffffff000,
		0x800000000000, 0x7fffffffffffffff, 0x8000000000000000, 0xffffffffff600000, 0xfffffffffffff000,
		0xffffffffffffffff,
	};

	switch (rnd() % 4) {
	case 0:
		return rnd();
	case 1:
		return v[rnd() % (sizeof(v) / sizeof(*v))] + rnd() % 3 - 1;
	default:
		return v[rnd() % (sizeof(v) / sizeof(*v))];
	}
}

/* exit(0), and little else. */
static void base(void)
{
	static const uint8_t code[] = { 0x31, 0xff, 0xb8, 0x3c, 0, 0, 0, 0x0f, 0x05 };
	Elf64_Ehdr *e = (void *)g_image;
	Elf64_Phdr *p = (void *)(g_image + sizeof(*e));

	memset(g_image, 0, SIZE);
	memcpy(e->e_ident, ELFMAG, SELFMAG);
	e->e_ident[EI_CLASS] = ELFCLASS64;
	e->e_ident[EI_DATA] = ELFDATA2LSB;
	e->e_ident[EI_VERSION] = EV_CURRENT;
	e->e_type = rnd() % 2 ? ET_EXEC : ET_DYN;
	e->e_machine = EM_X86_64;
	e->e_version = 1;
	e->e_entry = 0x401000;
	e->e_phoff = sizeof(*e);
	e->e_ehsize = sizeof(*e);
	e->e_phentsize = sizeof(*p);
	e->e_phnum = PHDRS;
	p[0] = (Elf64_Phdr){ PT_LOAD, PF_R, 0, 0x400000, 0x400000, 0x1000, 0x1000, 0x1000 };
	p[1] = (Elf64_Phdr){ PT_LOAD, PF_R | PF_X, 0x1000, 0x401000, 0x401000, 0x1000, 0x1000, 0x1000 };
	p[2] = (Elf64_Phdr){ PT_LOAD, PF_R | PF_W, 0x2000, 0x402000, 0x402000, 0x1000, 0x3000, 0x1000 };
	p[3] = (Elf64_Phdr){ PT_GNU_STACK, PF_R | PF_W, 0, 0, 0, 0, 0, 16 };
	p[4] = (Elf64_Phdr){ PT_NOTE, PF_R, 0x3000, 0x403000, 0x403000, 0x100, 0x100, 4 };
	p[5] = (Elf64_Phdr){ rnd() % 4 ? PT_NULL : PT_INTERP, PF_R, 0x3200, 0x403200, 0x403200, 28, 28, 1 };
	memcpy(g_image + 0x1000, code, sizeof(code));
	strcpy((char *)g_image + 0x3200, rnd() % 2 ? "/tmp/elf" : "/lib64/ld-linux-x86-64.so.2");
}

static size_t mutate(void)
{
	size_t header = sizeof(Elf64_Ehdr) + PHDRS * sizeof(Elf64_Phdr);

	for (uint64_t n = 1 + rnd() % 4; n; n--) {
		uint64_t v = edge();
		static const size_t width[] = { 1, 2, 4, 8 };
		size_t w = width[rnd() % 4], at = (size_t)(rnd() % (header / w)) * w;

		memcpy(g_image + at, &v, w);
	}
	return rnd() % 8 ? SIZE : rnd() % SIZE;
}

static size_t script(void)
{
	static const char *const lines[] = {
		"#!/tmp/elf\n", "#!\n", "#!   \n", "#!/bin/sh -e", "#!/tmp/elf arg arg\n", "#! /bin/nope\n", "#!/tmp\n", "#",
	};
	const char *s = lines[rnd() % (sizeof(lines) / sizeof(*lines))];

	memset(g_image, rnd() % 2 ? 'A' : 0, SIZE);
	memcpy(g_image, s, strlen(s));
	return rnd() % 2 ? strlen(s) : 255 + rnd() % 4;
}

int main(int argc, char **argv)
{
	struct timespec now;
	uint64_t seconds = argc > 2 ? strtoull(argv[2], NULL, 0) : 5, made = 0, ran = 0;
	time_t end;

	g_state = (argc > 1 ? strtoull(argv[1], NULL, 0) : 1) * 0x9e3779b97f4a7c15ull | 1;
	clock_gettime(CLOCK_MONOTONIC, &now);
	end = now.tv_sec + (time_t)seconds;
	signal(SIGPIPE, SIG_IGN);
	do {
		char name[] = "/tmp/elf";
		char *args[] = { name, NULL };
		size_t size;

		base();
		size = rnd() % 10 ? mutate() : script();
		unlink(name);
		int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0755);

		if (fd < 0 || write(fd, g_image, size) != (ssize_t)size)
			return 1;
		close(fd);
		made++;
		pid_t pid = vfork();

		if (pid == 0) {
			execve(name, args, args + 1);
			_exit(99);
		}
		/* A mutant may loop: entries are anywhere. */
		int status = 0, got = 0;

		for (int i = 0; pid > 0 && i < 200 && !(got = waitpid(pid, &status, WNOHANG) == pid); i++)
			usleep(i < 20 ? 200 : 1000);
		if (pid > 0 && !got) {
			kill(pid, SIGKILL);
			waitpid(pid, &status, 0);
		}
		ran += WIFEXITED(status) && WEXITSTATUS(status) == 0;
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec < end);
	printf("elf: done, %llu files, %llu ran\n", (unsigned long long)made, (unsigned long long)ran);
	return 0;
}
