/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals at random moments to threads that make syscalls as fast as they can: in patched sites, in
 * answers given without the kernel, in copies, in handlers. No syscall may be lost or done twice, no
 * register changed, no signal lost or out of order. `signal_storm COUNT` sends that many.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/lib/guest.h"

#define WORKERS 3
#define COUNT_DEFAULT 20000
#define IN_FLIGHT 24
#define BIG (48 * 1024)

/* What a site loads before its syscall and stores after it. */
struct frame {
	uint64_t in[12];  /* rbx rbp r12-r15 rsi rdx r8 r9 r10 rdi */
	uint64_t xmm[18]; /* xmm0-xmm7, xmm15 */
	uint64_t out[12];
	uint64_t xmm_out[18];
	uint64_t rax, carry;
};

/* A function `name(struct frame *)`; `how` gets the number into eax. */
#define SITE(name, how)                                                                     \
	__asm__(".text\n.globl " #name "\n.type " #name ", @function\n" #name ":\n"        \
		"push %rbx\npush %rbp\npush %r12\npush %r13\npush %r14\npush %r15\npush %rdi\n" \
		"mov 0(%rdi), %rbx\nmov 8(%rdi), %rbp\nmov 16(%rdi), %r12\nmov 24(%rdi), %r13\n"  \
		"mov 32(%rdi), %r14\nmov 40(%rdi), %r15\nmov 48(%rdi), %rsi\nmov 56(%rdi), %rdx\n" \
		"mov 64(%rdi), %r8\nmov 72(%rdi), %r9\nmov 80(%rdi), %r10\n"                  \
		"movdqu 96(%rdi), %xmm0\nmovdqu 112(%rdi), %xmm1\nmovdqu 128(%rdi), %xmm2\n"  \
		"movdqu 144(%rdi), %xmm3\nmovdqu 160(%rdi), %xmm4\nmovdqu 176(%rdi), %xmm5\n" \
		"movdqu 192(%rdi), %xmm6\nmovdqu 208(%rdi), %xmm7\nmovdqu 224(%rdi), %xmm15\n" \
		"mov 88(%rdi), %rdi\nstc\n" how "\nsyscall\n"                               \
		"setc %cl\nmov (%rsp), %r11\nmov %rax, 480(%r11)\nmovzbl %cl, %eax\n"         \
		"mov %rax, 488(%r11)\n"                                                        \
		"mov %rbx, 240(%r11)\nmov %rbp, 248(%r11)\nmov %r12, 256(%r11)\n"             \
		"mov %r13, 264(%r11)\nmov %r14, 272(%r11)\nmov %r15, 280(%r11)\n"             \
		"mov %rsi, 288(%r11)\nmov %rdx, 296(%r11)\nmov %r8, 304(%r11)\n"              \
		"mov %r9, 312(%r11)\nmov %r10, 320(%r11)\nmov %rdi, 328(%r11)\n"              \
		"movdqu %xmm0, 336(%r11)\nmovdqu %xmm1, 352(%r11)\nmovdqu %xmm2, 368(%r11)\n" \
		"movdqu %xmm3, 384(%r11)\nmovdqu %xmm4, 400(%r11)\nmovdqu %xmm5, 416(%r11)\n" \
		"movdqu %xmm6, 432(%r11)\nmovdqu %xmm7, 448(%r11)\nmovdqu %xmm15, 464(%r11)\n" \
		"pop %rdi\npop %r15\npop %r14\npop %r13\npop %r12\npop %rbp\npop %rbx\nret\n"); \
	void name(struct frame *f)

SITE(site_lseek, "mov $8, %eax");
SITE(site_getpid, "mov $39, %eax");
/* No constant beside the syscall: other instructions have to move. */
SITE(site_lseek_far, "mov $8, %eax\nmov %r10, %rcx\nmov %rcx, %r10\nlea (%rax), %eax");

_Static_assert(sizeof(struct frame) == 496, "the offsets above");

struct worker {
	pthread_t thread;
	pid_t tid;
	int fd, big_fd, pipe[2];
	uint64_t calls;		    /* of lseek */
	uint64_t wrong_regs, wrong_results, wrong_data, rounds;
	_Atomic uint32_t received;  /* by its handler */
	uint32_t sent, out_of_order, wrong_handler;
	char *big;
};

static struct worker g_worker[WORKERS];
static _Atomic int g_stop;
static pid_t g_pid;
static __thread struct worker *g_self;

static uint64_t next_random(uint64_t *s)
{
	*s ^= *s << 13;
	*s ^= *s >> 7;
	*s ^= *s << 17;
	return *s;
}

static void on_signal(int sig, siginfo_t *si, void *uc)
{
	struct worker *w = g_self;
	uint32_t n = atomic_load(&w->received);
	int saved = errno;

	(void)sig, (void)uc;
	if ((uint32_t)si->si_value.sival_int != n)
		w->out_of_order++;
	/* Everything the interrupted code might have had in registers. */
	__asm__ volatile("pcmpeqd %%xmm0, %%xmm0\npcmpeqd %%xmm1, %%xmm1\npcmpeqd %%xmm2, %%xmm2\n"
			 "pcmpeqd %%xmm3, %%xmm3\npcmpeqd %%xmm7, %%xmm7\npcmpeqd %%xmm15, %%xmm15\n"
			 ::: "xmm0", "xmm1", "xmm2", "xmm3", "xmm7", "xmm15");
	/* Now and then syscalls of its own, answered here and there. */
	if (n % 4 == 0 && syscall(SYS_getpid) != g_pid)
		w->wrong_handler++;
	if (n % 8 == 0 && lseek(w->big_fd, 0, SEEK_CUR) < 0)
		w->wrong_handler++;
	errno = saved;
	atomic_store(&w->received, n + 1);
}

static void call_site(struct worker *w, uint64_t *seed, void (*site)(struct frame *), int seek)
{
	struct frame f;

	for (int i = 0; i < 12; i++)
		f.in[i] = next_random(seed);
	for (int i = 0; i < 18; i++)
		f.xmm[i] = next_random(seed);
	f.in[6] = 1;
	f.in[7] = (f.in[7] & ~0xffffffffull) | SEEK_CUR;
	f.in[11] = (uint64_t)w->fd;
	site(&f);
	if (memcmp(f.in, f.out, sizeof(f.in)) || memcmp(f.xmm, f.xmm_out, sizeof(f.xmm)) || f.carry != 1)
		w->wrong_regs++;
	if (seek) {
		if (f.rax != ++w->calls)
			w->wrong_results++;
	} else if (f.rax != (uint64_t)g_pid) {
		w->wrong_results++;
	}
}

static void copies(struct worker *w, uint64_t *seed)
{
	uint64_t token = next_random(seed), back = 0;
	size_t len = 1 + next_random(seed) % BIG;
	char first = (char)token;

	if (write(w->pipe[1], &token, sizeof(token)) != sizeof(token) ||
	    read(w->pipe[0], &back, sizeof(back)) != sizeof(back) || back != token)
		w->wrong_data++;
	memset(w->big, first, len);
	if (pwrite(w->big_fd, w->big, len, 0) != (ssize_t)len)
		w->wrong_data++;
	memset(w->big, ~first, len);
	if (pread(w->big_fd, w->big, len, 0) != (ssize_t)len)
		w->wrong_data++;
	for (size_t i = 0; i < len; i += 509)
		if (w->big[i] != first)
			w->wrong_data++;
	if (w->big[len - 1] != first)
		w->wrong_data++;
}

static void *work(void *arg)
{
	struct worker *w = arg;
	uint64_t seed = 0x9e3779b97f4a7c15u * (uint64_t)(w - g_worker + 1);

	g_self = w;
	w->tid = (pid_t)syscall(SYS_gettid);
	__atomic_store_n(&w->sent, 0, __ATOMIC_SEQ_CST);
	atomic_store(&w->received, 0);
	while (!atomic_load(&g_stop)) {
		w->rounds++;
		switch (next_random(&seed) % 8) {
		case 0: case 1:
			call_site(w, &seed, site_lseek, 1);
			break;
		case 2: case 3:
			call_site(w, &seed, site_getpid, 0);
			break;
		case 4: case 5:
			call_site(w, &seed, site_lseek_far, 1);
			break;
		case 6:
			if (syscall(SYS_gettid) != w->tid || getpid() != g_pid || sched_yield())
				w->wrong_results++;
			break;
		default:
			copies(w, &seed);
		}
	}
	return NULL;
}

static int queue_signal(struct worker *w, uint32_t n)
{
	siginfo_t si = { .si_signo = SIGRTMIN, .si_code = SI_QUEUE };

	si.si_pid = g_pid;
	si.si_value.sival_int = (int)n;
	return (int)syscall(SYS_rt_tgsigqueueinfo, g_pid, w->tid, SIGRTMIN, &si);
}

static void storm(uint64_t count)
{
	uint64_t seed = 88172645463325252u, failed = 0;

	for (uint64_t n = 0; n < count && !failed; n++) {
		struct worker *w = &g_worker[next_random(&seed) % WORKERS];

		while (w->sent - atomic_load(&w->received) >= IN_FLIGHT)
			sched_yield();
		failed += queue_signal(w, w->sent) != 0;
		w->sent++;
		for (volatile uint64_t i = next_random(&seed) % 2000; i; i--)
			;
	}
	CHECK("signals sent", failed == 0);
}

static void start(struct worker *w)
{
	w->fd = memfd_create("seek", 0);
	w->big_fd = memfd_create("big", 0);
	w->big = malloc(BIG);
	w->tid = 0;
	if (w->fd < 0 || w->big_fd < 0 || !w->big || pipe(w->pipe) ||
	    pthread_create(&w->thread, NULL, work, w)) {
		perror("start");
		exit(2);
	}
	while (!*(volatile pid_t *)&w->tid || !*(volatile uint64_t *)&w->rounds)
		sched_yield();
}

int main(int argc, char **argv)
{
	struct sigaction sa = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART };
	uint64_t count = argc > 1 ? strtoull(argv[1], NULL, 10) : COUNT_DEFAULT, got = 0;
	uint64_t regs = 0, results = 0, data = 0, rounds = 0, order = 0, handler = 0, lost = 0;

	g_pid = getpid();
	sigaction(SIGRTMIN, &sa, NULL);
	for (int i = 0; i < WORKERS; i++)
		start(&g_worker[i]);
	storm(count);
	for (int i = 0; i < WORKERS; i++) /* what is still queued */
		for (int ms = 0; ms < 20000 && atomic_load(&g_worker[i].received) != g_worker[i].sent; ms++)
			usleep(1000);
	atomic_store(&g_stop, 1);
	for (int i = 0; i < WORKERS; i++) {
		struct worker *w = &g_worker[i];

		pthread_join(w->thread, NULL);
		got += w->received;
		regs += w->wrong_regs;
		results += w->wrong_results;
		data += w->wrong_data;
		rounds += w->rounds;
		order += w->out_of_order;
		handler += w->wrong_handler;
		lost += lseek(w->fd, 0, SEEK_CUR) != (off_t)w->calls;
	}
	CHECK("every signal arrived", got == count);
	CHECK("signals in order", order == 0);
	CHECK("registers", regs == 0);
	CHECK("results", results == 0);
	CHECK("no syscall lost or doubled", lost == 0);
	CHECK("data", data == 0);
	CHECK("syscalls in the handler", handler == 0);
	printf("%llu signals, %llu rounds\n", (unsigned long long)got, (unsigned long long)rounds);
	return guest_done();
}
