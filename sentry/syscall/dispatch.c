/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a syscall event to its handler. One bounds-checked table made from table.def; hooks of
 * ptrace and seccomp around the call; the trace line. The result goes to regs.rax as it is:
 * signal_deliver() turns restart codes into restarts or EINTR before guest code runs again.
 */
#include <errno.h>
#include <string.h>

#include "platform/base/log.h"
#include "sentry/mm/mm.h"
#include "sentry/syscall/strace.h"
#include "sentry/syscall/syscall.h"

enum syscall_level { LEVEL_NONE, LEVEL_FULL, LEVEL_PART, LEVEL_REFUSED };

struct syscall_row {
	const char *name;
	const char *kinds;
	syscall_fn fn; /* NULL: nobody serves it yet */
	enum syscall_level level;
};

static const struct syscall_row g_table[] = {
#define SYS(nr, sysname, args, lvl)                                                                \
	[nr] = { .name = #sysname, .kinds = args, .fn = sys_##sysname, .level = LEVEL_##lvl },
#include "sentry/syscall/table.def"
#undef SYS
};

#define TABLE_COUNT (sizeof(g_table) / sizeof(g_table[0]))

/* One warning a number is enough. */
static unsigned char g_warned[TABLE_COUNT];

const char *syscall_name(uint64_t nr)
{
	return nr < TABLE_COUNT ? g_table[nr].name : NULL;
}

static void warn_unserved(uint64_t nr)
{
	if (nr >= TABLE_COUNT)
		log_once("syscall %lu is not known: ENOSYS", nr);
	else if (g_table[nr].level != LEVEL_REFUSED &&
		 !__atomic_exchange_n(&g_warned[nr], 1, __ATOMIC_RELAXED))
		log_warn("syscall %lu (%s) is not served: ENOSYS", nr,
			 g_table[nr].name ? g_table[nr].name : "?");
}

/* ---- guest memory without host calls ---- */

static uint8_t g_bring[PLATFORM_BRING_NUMBERS];
static uint8_t g_copies[TABLE_COUNT]; /* TASK_COPIES_* */

_Static_assert(TABLE_COUNT <= PLATFORM_BRING_NUMBERS, "each has its byte");

/* What the kinds of a row's arguments say of it. */
static void note_kinds(size_t nr, const char *kinds)
{
	static const struct {
		char kind;
		uint8_t what;
	} brings[] = { { 'P', BRING_A_STRING },
		       { 's', BRING_A_STRING },
		       { 'B', BRING_A_BUFFER },
		       { 'i', BRING_SOME_PAIRS },
		       { 't', BRING_A_PAIR } };

	if (strpbrk(kinds, "br"))
		g_copies[nr] |= TASK_COPIES_LATER;
	for (uint32_t arg = 0; arg < 5 && kinds[arg]; arg++)
		for (size_t i = 0; i < sizeof(brings) / sizeof(brings[0]); i++)
			if (kinds[arg] == brings[i].kind) {
				g_bring[nr] = PLATFORM_BRING(arg, brings[i].what);
				g_copies[nr] |= TASK_COPIES_BROUGHT;
				return;
			}
}

const uint8_t *syscall_bring_table(void)
{
	for (size_t nr = 0; nr < TABLE_COUNT; nr++)
		if (g_table[nr].fn && g_table[nr].kinds)
			note_kinds(nr, g_table[nr].kinds);
	return g_bring;
}

static long run(struct task *t, uint64_t nr)
{
	const struct syscall_row *row = nr < TABLE_COUNT ? &g_table[nr] : NULL;
	const struct sysargs a = { { t->regs.rdi, t->regs.rsi, t->regs.rdx, t->regs.r10, t->regs.r8,
				     t->regs.r9 } };
	struct strace_line line;
	long ret;

	if (__builtin_expect(!t->k->strace, 1)) {
		if (row && row->fn)
			return row->fn(t, &a);
		warn_unserved(nr);
		return -ENOSYS;
	}
	strace_enter(&line, t, row && row->name ? row->name : "unknown",
		     row && row->kinds ? row->kinds : "xxxxxx", &a);
	if (row && row->fn) {
		ret = row->fn(t, &a);
	} else {
		warn_unserved(nr);
		ret = -ENOSYS;
	}
	strace_exit(&line, t, row && row->name ? row->name : "unknown",
		    row && row->kinds ? row->kinds : "xxxxxx", &a, ret);
	return ret;
}

void syscall_dispatch(struct task *t, int foreign_abi)
{
	int skip = 0;

	/* The number is an int, as Linux takes it: high halves of rax do not count. */
	t->syscall_nr = (uint32_t)t->regs.orig_rax;
	t->in_syscall = 1;
	t->regs.rax = (uint64_t)-ENOSYS;
	/* A tracer or a filter may look at, and change, what the call is about to read. */
	t->copies = t->syscall_nr < TABLE_COUNT && !t->ptrace && !t->seccomp ?
			    g_copies[t->syscall_nr] :
			    0;
	if (__builtin_expect(t->ptrace != NULL, 0) && ptrace_syscall_enter)
		skip = ptrace_syscall_enter(t);
	if (!skip && __builtin_expect(t->seccomp != NULL, 0) && seccomp_check && !foreign_abi)
		skip = seccomp_check(t);
	if (!skip) {
		/* A tracer may have changed it. x32 numbers carry bit 30 and fall off the table. */
		t->syscall_nr = (uint32_t)t->regs.orig_rax;
		if (foreign_abi) {
			log_once("a syscall of another ABI (int 0x80): ENOSYS");
			t->regs.rax = (uint64_t)-ENOSYS;
		} else {
			t->regs.rax = (uint64_t)run(t, t->syscall_nr);
		}
	}
	if (t->k->memory_limit)
		mm_oom_check(t);
	if (__builtin_expect(t->ptrace != NULL, 0) && t->copies && user_copies_now(t))
		t->regs.rax = (uint64_t)-EFAULT;
	if (__builtin_expect(t->ptrace != NULL, 0) && ptrace_syscall_exit)
		ptrace_syscall_exit(t);
}
