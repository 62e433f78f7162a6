/* SPDX-License-Identifier: Apache-2.0 */
/* The signal frame: layout, registers, FP state, and what rt_sigreturn makes of changes. */
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "tests/lib/guest.h"

struct sw_bytes {
	uint32_t magic1, extended_size;
	uint64_t xfeatures;
	uint32_t xstate_size, pad[7];
};

static uint64_t g_frame, g_rsp, g_fp, g_flags, g_eflags_in;
static greg_t g_regs[NGREG];
static struct sw_bytes g_sw;
static uint32_t g_magic2;
static siginfo_t g_si;
static int g_cs_ok;
static uint64_t g_mask;

static void on_sig(int s, siginfo_t *si, void *ucp)
{
	ucontext_t *uc = ucp;
	char *fp = (char *)uc->uc_mcontext.fpregs;

	(void)s;
	__asm__ volatile("pushfq; popq %0" : "=r"(g_eflags_in));
	g_frame = (uint64_t)(uintptr_t)uc - 8;
	g_si = *si;
	g_flags = uc->uc_flags;
	memcpy(g_regs, uc->uc_mcontext.gregs, sizeof(g_regs));
	g_fp = (uint64_t)(uintptr_t)fp;
	memcpy(&g_sw, fp + 464, sizeof(g_sw));
	memcpy(&g_magic2, fp + g_sw.xstate_size, 4);
	g_cs_ok = (g_regs[REG_CSGSFS] & 0xffff) == 0x33 && (g_regs[REG_CSGSFS] >> 48 & 0xffff) == 0x2b;
	memcpy(&g_mask, &uc->uc_sigmask, 8);
	g_rsp = (uint64_t)(uintptr_t)si;
}

static void install(int s, void (*fn)(int, siginfo_t *, void *))
{
	struct sigaction sa = { .sa_sigaction = fn, .sa_flags = SA_SIGINFO };

	sigaction(s, &sa, NULL);
}

static void test_layout(void)
{
	sigset_t set;

	install(SIGUSR1, on_sig);
	sigemptyset(&set);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_SETMASK, &set, NULL);
	raise(SIGUSR1);
	CHECK("siginfo lies behind the ucontext", g_rsp == g_frame + 8 + 304);
	CHECK("the frame is aligned as after a call", (g_frame & 15) == 8);
	CHECK("the FP state is aligned to 64", (g_fp & 63) == 0);
	CHECK("and above the frame", g_fp >= g_frame + 440);
	CHECK("below the red zone", g_fp + g_sw.extended_size <= (uint64_t)g_regs[REG_RSP] - 128);
	CHECK("uc_flags", g_flags == 7);
	CHECK("magic1", g_sw.magic1 == 0x46505853);
	CHECK("magic2", g_magic2 == 0x46505845);
	CHECK("sizes", g_sw.xstate_size >= 576 && g_sw.extended_size == g_sw.xstate_size + 4);
	CHECK("x87 and SSE are in the image", (g_sw.xfeatures & 3) == 3);
	CHECK("selectors", g_cs_ok);
	CHECK("saved mask", g_mask == 1ull << (SIGHUP - 1) && g_regs[REG_OLDMASK] == (greg_t)g_mask);
	sigemptyset(&set);
	sigprocmask(SIG_SETMASK, &set, NULL);
}

/* All registers survive a handler that clobbers them. */
static void on_clobber(int s, siginfo_t *si, void *uc)
{
	(void)s;
	(void)si;
	(void)uc;
	__asm__ volatile("mov $-1, %%rax; mov %%rax, %%rcx; mov %%rax, %%rdx; mov %%rax, %%r8\n"
			 "mov %%rax, %%r9; mov %%rax, %%r10; mov %%rax, %%r11\n"
			 "pxor %%xmm0, %%xmm0; pxor %%xmm1, %%xmm1; pxor %%xmm15, %%xmm15\n"
			 "std; cld\n" ::
				 : "rax", "rcx", "rdx", "r8", "r9", "r10", "r11", "xmm0", "xmm1",
				   "xmm15", "cc", "memory");
}

static void test_registers(void)
{
	uint64_t in[4] = { 0x1111222233334444, 0x5555666677778888, 0x9999aaaabbbbcccc,
			   0xddddeeeeffff0000 };
	uint64_t out[4], r8, r9, r10, rdx, rbx, r12;
	uint32_t pid = (uint32_t)getpid();

	install(SIGUSR1, on_clobber);
	__asm__ volatile("movdqu (%[in]), %%xmm0\n"
			 "movdqu 16(%[in]), %%xmm15\n"
			 "mov $0x1234, %%r8; mov $0x5678, %%r9; mov $0x9abc, %%r10; mov $0xdef0, %%rdx\n"
			 "mov $0x4321, %%rbx; mov $0x8765, %%r12\n"
			 "mov $62, %%eax; mov %[pid], %%edi; mov $10, %%esi; syscall\n"
			 "movdqu %%xmm0, (%[out])\n"
			 "movdqu %%xmm15, 16(%[out])\n"
			 "mov %%r8, %[r8]; mov %%r9, %[r9]; mov %%r10, %[r10]; mov %%rdx, %[rdx]\n"
			 "mov %%rbx, %[rbx]; mov %%r12, %[r12]\n"
			 : [r8] "=m"(r8), [r9] "=m"(r9), [r10] "=m"(r10), [rdx] "=m"(rdx),
			   [rbx] "=m"(rbx), [r12] "=m"(r12)
			 : [in] "r"(in), [out] "r"(out), [pid] "r"(pid)
			 : "rax", "rdi", "rsi", "rcx", "r11", "r8", "r9", "r10", "rdx", "rbx", "r12",
			   "xmm0", "xmm15", "memory");
	CHECK("xmm registers come back", memcmp(in, out, sizeof(in)) == 0);
	CHECK("general registers come back", r8 == 0x1234 && r9 == 0x5678 && r10 == 0x9abc &&
						     rdx == 0xdef0 && rbx == 0x4321 && r12 == 0x8765);
}

static void test_entry_flags(void)
{
	uint64_t after;
	uint32_t pid = (uint32_t)getpid();

	install(SIGUSR1, on_sig);
	__asm__ volatile("std\n"
			 "mov $62, %%eax; mov %[pid], %%edi; mov $10, %%esi; syscall\n"
			 "pushfq; pop %[f]; cld\n"
			 : [f] "=r"(after)
			 : [pid] "r"(pid)
			 : "rax", "rdi", "rsi", "rcx", "r11", "memory");
	CHECK("DF is clear in the handler", !(g_eflags_in & 0x400));
	CHECK("and set again after", after & 0x400);
	CHECK("it is in the frame", g_regs[REG_EFL] & 0x400);
}

/* A handler may change what is restored. */
static void on_change(int s, siginfo_t *si, void *ucp)
{
	ucontext_t *uc = ucp;

	(void)s;
	(void)si;
	uc->uc_mcontext.gregs[REG_RAX] = 4711;
	uc->uc_mcontext.gregs[REG_EFL] |= 1;
	((uint32_t *)((char *)uc->uc_mcontext.fpregs + 160))[0] = 0xabcd1234; /* xmm0 */
	sigaddset(&uc->uc_sigmask, SIGUSR2);
}

static void test_change(void)
{
	uint64_t rax;
	uint32_t x, carry, pid = (uint32_t)getpid();
	sigset_t now;

	install(SIGUSR1, on_change);
	__asm__ volatile("pxor %%xmm0, %%xmm0\n"
			 "mov $62, %%eax; mov %[pid], %%edi; mov $10, %%esi; syscall\n"
			 "setc %%cl; movzbl %%cl, %%ecx; mov %%ecx, %[c]\n"
			 "mov %%rax, %[rax]; movd %%xmm0, %[x]\n"
			 : [rax] "=m"(rax), [x] "=m"(x), [c] "=m"(carry)
			 : [pid] "r"(pid)
			 : "rax", "rdi", "rsi", "rcx", "r11", "xmm0", "memory");
	CHECK("rax from the frame", rax == 4711);
	CHECK("flags from the frame", carry == 1);
	CHECK("xmm0 from the frame", x == 0xabcd1234);
	sigprocmask(SIG_BLOCK, NULL, &now);
	CHECK("mask from the frame", sigismember(&now, SIGUSR2));
	sigemptyset(&now);
	sigprocmask(SIG_SETMASK, &now, NULL);
}

static uint64_t g_fault_addr, g_trapno, g_err, g_cr2;
static int g_fault_code, g_fault_sig;

static void on_fault(int s, siginfo_t *si, void *ucp)
{
	ucontext_t *uc = ucp;

	g_fault_sig = s;
	g_fault_addr = (uint64_t)(uintptr_t)si->si_addr;
	g_fault_code = si->si_code;
	g_trapno = (uint64_t)uc->uc_mcontext.gregs[REG_TRAPNO];
	g_err = (uint64_t)uc->uc_mcontext.gregs[REG_ERR];
	g_cr2 = (uint64_t)uc->uc_mcontext.gregs[REG_CR2];
	uc->uc_mcontext.gregs[REG_RIP] += 3; /* every faulting instruction here is 3 bytes long */
}

static void test_faults(void)
{
	char *ro = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	install(SIGSEGV, on_fault);
	install(SIGFPE, on_fault);
	install(SIGILL, on_fault);
	install(SIGTRAP, on_fault);
	__asm__ volatile("mov %%rax, (%0)\n" ::"D"(ro), "a"(0) : "memory");
	CHECK("write to a read-only page", g_fault_sig == SIGSEGV && g_fault_code == SEGV_ACCERR &&
						   g_fault_addr == (uint64_t)(uintptr_t)ro);
	CHECK("trap registers", g_trapno == 14 && (g_err & 6) == 6 && g_cr2 == g_fault_addr);
	munmap(ro, 4096);
	__asm__ volatile("mov (%0), %%rax\n" ::"D"(ro) : "rax", "memory");
	CHECK("read of nothing", g_fault_code == SEGV_MAPERR && (g_err & 7) == 4 &&
					 g_fault_addr == (uint64_t)(uintptr_t)ro);
	__asm__ volatile("mov (%0), %%rax\n" ::"D"(0x8000000000000000ull) : "rax", "memory");
	CHECK("non-canonical address", g_fault_sig == SIGSEGV && g_fault_code == SI_KERNEL &&
					       g_fault_addr == 0 && g_trapno == 13);
	__asm__ volatile("xor %%edx, %%edx; mov $1, %%eax; xor %%ecx, %%ecx; .byte 0x48,0xf7,0xf1\n" ::
				 : "rax", "rcx", "rdx");
	CHECK("division by zero", g_fault_sig == SIGFPE && g_fault_code == FPE_INTDIV && g_trapno == 0);
	__asm__ volatile("ud2; nop\n");
	CHECK("ud2", g_fault_sig == SIGILL && g_fault_code == ILL_ILLOPN && g_trapno == 6);
}

static void exits_with_segv(const char *name, void (*fn)(void))
{
	int st;
	pid_t c = fork();

	if (c == 0) {
		signal(SIGSEGV, SIG_DFL);
		fn();
		_exit(0);
	}
	waitpid(c, &st, 0);
	CHECK(name, WIFSIGNALED(st) && WTERMSIG(st) == SIGSEGV);
}

static void bad_sigreturn(void)
{
	__asm__ volatile("mov $8, %%rsp; mov $15, %%eax; syscall\n" ::: "memory");
}

static void on_bad_magic(int s, siginfo_t *si, void *ucp)
{
	ucontext_t *uc = ucp;

	(void)s;
	(void)si;
	uc->uc_mcontext.fpregs = (void *)16;
}

static void bad_fp_pointer(void)
{
	install(SIGUSR1, on_bad_magic);
	raise(SIGUSR1);
}

static void on_bad_mxcsr(int s, siginfo_t *si, void *ucp)
{
	ucontext_t *uc = ucp;

	(void)s;
	(void)si;
	((uint32_t *)uc->uc_mcontext.fpregs)[6] = 0xffffffff;
}

static void bad_mxcsr(void)
{
	install(SIGUSR1, on_bad_mxcsr);
	raise(SIGUSR1);
}

static void no_restorer(void)
{
	struct {
		void *h;
		unsigned long flags;
		void *r;
		uint64_t mask;
	} k = { .h = (void *)on_sig, .flags = SA_SIGINFO };

	syscall(SYS_rt_sigaction, SIGUSR1, &k, NULL, 8);
	kill(getpid(), SIGUSR1);
}

static void bad_stack(void)
{
	uint32_t pid = (uint32_t)getpid();

	install(SIGUSR1, on_sig);
	__asm__ volatile("mov $4096, %%esp\n"
			 "mov $62, %%eax; mov %0, %%edi; mov $10, %%esi; syscall\n" ::"r"(pid)
			 : "memory");
}

int main(void)
{
	test_layout();
	test_registers();
	test_entry_flags();
	test_change();
	test_faults();
	exits_with_segv("sigreturn without a frame", bad_sigreturn);
	exits_with_segv("a bad FP pointer", bad_fp_pointer);
	exits_with_segv("reserved MXCSR bits", bad_mxcsr);
	exits_with_segv("no restorer", no_restorer);
	exits_with_segv("a stack that can not be written", bad_stack);
	return guest_done();
}
