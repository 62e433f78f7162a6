/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last words of a sentry that faults: a crash ends the sandbox in any case, but core dumps are
 * off and no debugger reaches in, so without them a fault in the field leaves nothing to work with.
 * One log line with the signal, the address, and the words of the stack that point into our own
 * text, all relative to the image (addr2line -e caisson-sentry takes them).
 *
 * Runs in a broken process: no locks, no memory, no library calls.
 */
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#include "sentry/boot.h"

extern const char __executable_start[], etext[];

#define STACK_BYTES 4096
#define ADDRESSES 48

static int g_crash_fd = -1;

static char *put_text(char *p, const char *s)
{
	while (*s)
		*p++ = *s++;
	return p;
}

static char *put_hex(char *p, uint64_t v)
{
	int shift = 60;

	while (shift && !(v >> shift & 15))
		shift -= 4;
	for (; shift >= 0; shift -= 4)
		*p++ = "0123456789abcdef"[v >> shift & 15];
	return p;
}

/* The stack is read beyond its frames on purpose. */
__attribute__((no_sanitize("address", "undefined"))) static void on_crash(int signo, siginfo_t *si,
									    void *ctx)
{
	const ucontext_t *uc = ctx;
	const uint64_t low = (uint64_t)__executable_start, high = (uint64_t)etext;
	const uint64_t rip = (uint64_t)uc->uc_mcontext.gregs[REG_RIP];
	const uint64_t rsp = (uint64_t)uc->uc_mcontext.gregs[REG_RSP];
	char line[128 + ADDRESSES * 20], *p = line;
	int count = 0;

	p = put_text(p, "sentry: crashed: signal 0x");
	p = put_hex(p, (uint64_t)signo);
	p = put_text(p, " address 0x");
	p = put_hex(p, (uint64_t)si->si_addr);
	p = put_text(p, " at 0x");
	p = put_hex(p, rip - low);
	p = put_text(p, "; stack:");
	/* The stack may end early; a second fault then ends the process, but this much is said. */
	ssize_t ignored = write(g_crash_fd, line, (size_t)(p - line));

	p = line;
	for (uint64_t a = (rsp + 7) & ~7ull; a < rsp + STACK_BYTES && count < ADDRESSES; a += 8) {
		uint64_t v = *(const volatile uint64_t *)a;

		if (v >= low && v < high) {
			p = put_text(p, " 0x");
			p = put_hex(p, v - low);
			count++;
		}
	}
	*p++ = '\n';
	ignored += write(g_crash_fd, line, (size_t)(p - line));
	(void)ignored;
	/* Dispositions are back at their defaults, and raise() is not in the filter. */
	__builtin_trap();
}

#ifdef __SANITIZE_ADDRESS__
/* No symbolizer can be started from here, and no ptrace for leaks. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "symbolize=0:detect_leaks=0:handle_segv=0:handle_abort=0:quarantine_size_mb=32:"
	       "use_sigaltstack=0:malloc_context_size=12";
}
const char *__ubsan_default_options(void);
const char *__ubsan_default_options(void)
{
	return "symbolize=0:print_stacktrace=1";
}
#endif

void crash_setup(int log_fd)
{
	static const int fatal[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT };
	struct sigaction sa;

	g_crash_fd = log_fd;
#ifdef __SANITIZE_ADDRESS__
	dup2(log_fd, 2); /* where reports go */
#endif
	memset(&sa, 0, sizeof(sa));
	sa.sa_sigaction = on_crash;
	sa.sa_flags = SA_SIGINFO | (int)SA_RESETHAND | SA_NODEFER;
	for (size_t i = 0; i < sizeof(fatal) / sizeof(*fatal); i++)
		sigaction(fatal[i], &sa, NULL);
}
