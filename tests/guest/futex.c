/* SPDX-License-Identifier: Apache-2.0 */
/* Futexes: wait and wake, requeue, wake-op, PI, robust lists, waitv, futex2. */
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/guest.h"

#ifndef SYS_futex_wake
#define SYS_futex_wake 454
#define SYS_futex_wait 455
#define SYS_futex_requeue 456
#endif

static uint32_t g_a, g_b, g_c;

static long fx(uint32_t *u, int op, uint32_t val, void *to, uint32_t *u2, uint32_t v3)
{
	return syscall(SYS_futex, u, op, val, to, u2, v3);
}

static void on_sig(int s)
{
	(void)s;
}

static pid_t tid(void)
{
	return (pid_t)syscall(SYS_gettid);
}

static uint64_t now(clockid_t c)
{
	struct timespec ts;

	clock_gettime(c, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static struct timespec in_ms(clockid_t c, uint64_t ms)
{
	uint64_t t = now(c) + ms * 1000000;

	return (struct timespec){ .tv_sec = (time_t)(t / 1000000000u),
				  .tv_nsec = (long)(t % 1000000000u) };
}

static void test_errors(void)
{
	struct timespec bad = { .tv_nsec = 1000000000 }, ms = { .tv_nsec = 2000000 };

	g_a = 1;
	CHECK_ERRNO("another value", fx(&g_a, FUTEX_WAIT, 0, NULL, NULL, 0), EAGAIN);
	CHECK_ERRNO("timeout", fx(&g_a, FUTEX_WAIT, 1, &ms, NULL, 0), ETIMEDOUT);
	CHECK_ERRNO("bad timeout", fx(&g_a, FUTEX_WAIT, 1, &bad, NULL, 0), EINVAL);
	CHECK_ERRNO("bad timeout pointer", fx(&g_a, FUTEX_WAIT, 1, (void *)8, NULL, 0), EFAULT);
	CHECK_ERRNO("misaligned", fx((uint32_t *)((char *)&g_a + 1), FUTEX_WAIT, 1, &ms, NULL, 0),
		    EINVAL);
	CHECK_ERRNO("bad address", fx((uint32_t *)8, FUTEX_WAIT, 1, &ms, NULL, 0), EFAULT);
	CHECK_ERRNO("bad address, private", fx((uint32_t *)8, FUTEX_WAIT_PRIVATE, 1, &ms, NULL, 0),
		    EFAULT);
	CHECK_ERRNO("bad shared wake", fx((uint32_t *)8, FUTEX_WAKE, 1, NULL, NULL, 0), EFAULT);
	CHECK("private wake of nothing", fx((uint32_t *)8, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0) == 0);
	CHECK_ERRNO("unknown op", fx(&g_a, 77, 1, NULL, NULL, 0), ENOSYS);
	CHECK_ERRNO("clock on a plain wait", fx(&g_a, FUTEX_WAIT | FUTEX_CLOCK_REALTIME, 1, &ms, NULL, 0),
		    ENOSYS);
	CHECK_ERRNO("empty bitset", fx(&g_a, FUTEX_WAIT_BITSET, 1, &ms, NULL, 0), EINVAL);
	CHECK_ERRNO("empty wake bitset", fx(&g_a, FUTEX_WAKE_BITSET, 1, NULL, NULL, 0), EINVAL);
	struct timespec abs = in_ms(CLOCK_MONOTONIC, 3);

	CHECK_ERRNO("absolute timeout", fx(&g_a, FUTEX_WAIT_BITSET, 1, &abs, NULL, ~0u), ETIMEDOUT);
	abs = in_ms(CLOCK_REALTIME, 3);
	CHECK_ERRNO("absolute realtime timeout",
		    fx(&g_a, FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, 1, &abs, NULL, ~0u), ETIMEDOUT);
}

struct waiter {
	uint32_t *word;
	int op;
	uint32_t val, bitset;
	long ret;
	int err;
	pthread_t thread;
	volatile pid_t tid;
};

static void *wait_thread(void *arg)
{
	struct waiter *w = arg;

	w->tid = tid();
	w->ret = fx(w->word, w->op, w->val, NULL, NULL, w->bitset);
	w->err = errno;
	return NULL;
}

static void start(struct waiter *w, uint32_t *word, int op, uint32_t val, uint32_t bitset)
{
	*w = (struct waiter){ .word = word, .op = op, .val = val, .bitset = bitset };
	pthread_create(&w->thread, NULL, wait_thread, w);
}

/* Wakes until `want` in all were woken: waiters take a moment to get there. */
static int wake_all(uint32_t *word, int op, int want, uint32_t bitset)
{
	int n = 0;

	for (int i = 0; i < 2000 && n < want; i++) {
		n += (int)fx(word, op, INT_MAX, NULL, NULL, bitset);
		if (n < want)
			usleep(500);
	}
	return n;
}

static void test_wake(void)
{
	struct waiter w[4];

	g_a = 5;
	for (int i = 0; i < 4; i++)
		start(&w[i], &g_a, FUTEX_WAIT_PRIVATE, 5, 0);
	guest_threads_asleep(4);
	CHECK("wake one", fx(&g_a, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0) == 1);
	CHECK("private and shared do not mix", fx(&g_a, FUTEX_WAKE, 4, NULL, NULL, 0) == 0);
	CHECK("wake the rest", wake_all(&g_a, FUTEX_WAKE_PRIVATE, 3, 0) == 3);
	for (int i = 0; i < 4; i++)
		pthread_join(w[i].thread, NULL);
	CHECK("all return 0", !w[0].ret && !w[1].ret && !w[2].ret && !w[3].ret);
	start(&w[0], &g_a, FUTEX_WAIT_BITSET, 5, 1);
	start(&w[1], &g_a, FUTEX_WAIT_BITSET, 5, 2);
	guest_threads_asleep(2);
	CHECK("bitset: nobody", fx(&g_a, FUTEX_WAKE_BITSET, 9, NULL, NULL, 4) == 0);
	CHECK("bitset: one", wake_all(&g_a, FUTEX_WAKE_BITSET, 1, 2) == 1);
	pthread_join(w[1].thread, NULL);
	CHECK("bitset: the other", wake_all(&g_a, FUTEX_WAKE, 1, 0) == 1);
	pthread_join(w[0].thread, NULL);
}

static void test_requeue(void)
{
	struct waiter w[3];
	long n;

	g_a = 1;
	g_b = 1;
	for (int i = 0; i < 3; i++)
		start(&w[i], &g_a, FUTEX_WAIT, 1, 0);
	guest_threads_asleep(3);
	CHECK_ERRNO("compare fails", fx(&g_a, FUTEX_CMP_REQUEUE, 1, (void *)1l, &g_b, 2), EAGAIN);
	CHECK_ERRNO("negative count", fx(&g_a, FUTEX_CMP_REQUEUE, (uint32_t)-1, (void *)1l, &g_b, 1),
		    EINVAL);
	n = fx(&g_a, FUTEX_CMP_REQUEUE, 1, (void *)(long)INT_MAX, &g_b, 1);
	CHECK("one woken, two moved", n == 3);
	CHECK("nobody is left", fx(&g_a, FUTEX_WAKE, 9, NULL, NULL, 0) == 0);
	CHECK("two are at the new place", wake_all(&g_b, FUTEX_WAKE, 2, 0) == 2);
	for (int i = 0; i < 3; i++)
		pthread_join(w[i].thread, NULL);
}

static void test_wake_op(void)
{
	struct waiter w[2];

	g_a = 1;
	g_b = 10;
	start(&w[0], &g_a, FUTEX_WAIT, 1, 0);
	start(&w[1], &g_b, FUTEX_WAIT, 10, 0);
	guest_threads_asleep(2);
	long n = fx(&g_a, FUTEX_WAKE_OP, 1, (void *)1l, &g_b,
		    FUTEX_OP(FUTEX_OP_ADD, 5, FUTEX_OP_CMP_EQ, 10));

	CHECK("wakes both", n == 2 && g_b == 15);
	pthread_join(w[0].thread, NULL);
	pthread_join(w[1].thread, NULL);
	fx(&g_a, FUTEX_WAKE_OP, 1, (void *)1l, &g_b, FUTEX_OP(FUTEX_OP_SET, 0xff, FUTEX_OP_CMP_EQ, 0));
	CHECK("set", g_b == 0xff);
	fx(&g_a, FUTEX_WAKE_OP, 1, (void *)1l, &g_b, FUTEX_OP(FUTEX_OP_ANDN, 0xf, FUTEX_OP_CMP_EQ, 0));
	CHECK("andn", g_b == 0xf0);
	fx(&g_a, FUTEX_WAKE_OP, 1, (void *)1l, &g_b, FUTEX_OP((FUTEX_OP_OR | 8), 9, FUTEX_OP_CMP_EQ, 0));
	CHECK("shifted or", g_b == 0x2f0);
	fx(&g_a, FUTEX_WAKE_OP, 1, (void *)1l, &g_b, FUTEX_OP(FUTEX_OP_XOR, 0xf0, FUTEX_OP_CMP_EQ, 0));
	CHECK("xor", g_b == 0x200);
	CHECK_ERRNO("bad operation", fx(&g_a, FUTEX_WAKE_OP, 1, (void *)1l, &g_b, 7u << 28), ENOSYS);
	CHECK_ERRNO("bad second address", fx(&g_a, FUTEX_WAKE_OP, 1, (void *)1l, (uint32_t *)8, 0),
		    EFAULT);
}

static void test_signal(void)
{
	struct sigaction sa = { .sa_handler = on_sig };
	struct waiter w;

	sigaction(SIGUSR1, &sa, NULL);
	g_a = 1;
	start(&w, &g_a, FUTEX_WAIT, 1, 0);
	guest_threads_asleep(1);
	pthread_kill(w.thread, SIGUSR1);
	pthread_join(w.thread, NULL);
	CHECK("a signal interrupts", w.ret == -1 && w.err == EINTR);
	sa.sa_flags = SA_RESTART;
	sigaction(SIGUSR1, &sa, NULL);
	start(&w, &g_a, FUTEX_WAIT, 1, 0);
	guest_threads_asleep(1);
	pthread_kill(w.thread, SIGUSR1);
	usleep(5000);
	CHECK("with SA_RESTART it goes on", wake_all(&g_a, FUTEX_WAKE, 1, 0) == 1);
	pthread_join(w.thread, NULL);
	CHECK("and is woken", w.ret == 0);
}

static void test_shared(void)
{
	uint32_t *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t c = fork();
	int st;

	if (c == 0)
		_exit(fx(&p[1024], FUTEX_WAIT, 0, NULL, NULL, 0) == 0 ? 0 : 1);
	CHECK("across processes", wake_all(&p[1024], FUTEX_WAKE, 1, 0) == 1);
	waitpid(c, &st, 0);
	CHECK("the child saw it", st == 0);
	/* Private memory after fork is another word. */
	static uint32_t priv;

	c = fork();
	if (c == 0) {
		struct timespec ts = { .tv_nsec = 30000000 };

		_exit(fx(&priv, FUTEX_WAIT, 0, &ts, NULL, 0) == -1 && errno == ETIMEDOUT ? 0 : 1);
	}
	usleep(10000); /* it has slept, or will: both are fine */
	CHECK("private memory is not shared", fx(&priv, FUTEX_WAKE, 1, NULL, NULL, 0) == 0);
	waitpid(c, &st, 0);
	CHECK("and it timed out", st == 0);
	munmap(p, 8192);
}

static volatile int g_got;

static void *lock_thread(void *arg)
{
	long r = fx(&g_c, FUTEX_LOCK_PI, 0, NULL, NULL, 0);

	(void)arg;
	if (r == 0 && (g_c & FUTEX_TID_MASK) == (uint32_t)tid())
		g_got++;
	fx(&g_c, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0);
	return NULL;
}

static void *die_thread(void *arg)
{
	(void)arg;
	fx(&g_c, FUTEX_LOCK_PI, 0, NULL, NULL, 0);
	return NULL; /* keeps it */
}

static void test_pi(void)
{
	pthread_t t[3];
	uint32_t me = (uint32_t)tid();

	g_c = 0;
	CHECK("lock", fx(&g_c, FUTEX_LOCK_PI, 0, NULL, NULL, 0) == 0 && g_c == me);
	CHECK_ERRNO("again", fx(&g_c, FUTEX_LOCK_PI, 0, NULL, NULL, 0), EDEADLK);
	CHECK_ERRNO("trylock again", fx(&g_c, FUTEX_TRYLOCK_PI, 0, NULL, NULL, 0), EDEADLK);
	for (int i = 0; i < 3; i++)
		pthread_create(&t[i], NULL, lock_thread, NULL);
	guest_threads_asleep(3);
	CHECK("waiters bit", g_c == (me | FUTEX_WAITERS));
	CHECK("unlock", fx(&g_c, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0) == 0);
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	CHECK("each had it", g_got == 3 && (g_c & FUTEX_TID_MASK) == 0);
	CHECK_ERRNO("unlock by a stranger", fx(&g_c, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0), EPERM);
	g_c = 0;
	CHECK("trylock", fx(&g_c, FUTEX_TRYLOCK_PI, 0, NULL, NULL, 0) == 0 && g_c == me);
	fx(&g_c, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0);
	CHECK("free again", g_c == 0);
	g_c = 0x3ffffe; /* nobody */
	CHECK_ERRNO("an owner that does not exist", fx(&g_c, FUTEX_LOCK_PI, 0, NULL, NULL, 0), ESRCH);
	g_c = 0;
	struct timespec abs;
	pid_t c;
	uint32_t *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	c = fork();
	if (c == 0) {
		fx(p, FUTEX_LOCK_PI, 0, NULL, NULL, 0);
		p[1] = 1;
		for (;;)
			pause();
	}
	while (!*(volatile uint32_t *)&p[1])
		usleep(500);
	abs = in_ms(CLOCK_REALTIME, 5);
	CHECK_ERRNO("times out", fx(p, FUTEX_LOCK_PI, 0, &abs, NULL, 0), ETIMEDOUT);
	CHECK_ERRNO("trylock of a taken one", fx(p, FUTEX_TRYLOCK_PI, 0, NULL, NULL, 0), EAGAIN);
	kill(c, SIGKILL);
	waitpid(c, NULL, 0);
	munmap(p, 4096);
	/* The owner dies without unlocking while somebody waits. */
	pthread_create(&t[0], NULL, die_thread, NULL);
	pthread_join(t[0], NULL);
	CHECK("a dead owner's tid stays", (g_c & FUTEX_TID_MASK) != 0);
	g_c = 0;
}

static uint32_t g_cond, g_mutex;
static volatile int g_through;

static void *requeue_pi_thread(void *arg)
{
	long r = fx(&g_cond, FUTEX_WAIT_REQUEUE_PI, 0, NULL, &g_mutex, 0);

	(void)arg;
	if (r == 0 && (g_mutex & FUTEX_TID_MASK) == (uint32_t)tid())
		__atomic_fetch_add(&g_through, 1, __ATOMIC_SEQ_CST);
	fx(&g_mutex, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0);
	return NULL;
}

static void test_requeue_pi(void)
{
	pthread_t t[3];
	struct timespec abs = in_ms(CLOCK_MONOTONIC, 3);

	CHECK_ERRNO("times out", fx(&g_cond, FUTEX_WAIT_REQUEUE_PI, 0, &abs, &g_mutex, 0), ETIMEDOUT);
	CHECK_ERRNO("one word only", fx(&g_cond, FUTEX_WAIT_REQUEUE_PI, 0, &abs, &g_cond, 0), EINVAL);
	for (int i = 0; i < 3; i++)
		pthread_create(&t[i], NULL, requeue_pi_thread, NULL);
	guest_threads_asleep(3);
	CHECK_ERRNO("must wake one", fx(&g_cond, FUTEX_CMP_REQUEUE_PI, 2, (void *)9l, &g_mutex, 0),
		    EINVAL);
	CHECK_ERRNO("another lock", fx(&g_cond, FUTEX_CMP_REQUEUE_PI, 1, (void *)9l, &g_a, 0), EINVAL);
	CHECK_ERRNO("a plain wake", fx(&g_cond, FUTEX_WAKE, 1, NULL, NULL, 0), EINVAL);
	CHECK("all move", fx(&g_cond, FUTEX_CMP_REQUEUE_PI, 1, (void *)9l, &g_mutex, 0) == 3);
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	CHECK("each held the lock", g_through == 3);
}

static pthread_mutex_t g_robust;

static void *robust_thread(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&g_robust);
	return NULL;
}

static void test_robust(int protocol)
{
	pthread_mutexattr_t a;
	pthread_t t;

	pthread_mutexattr_init(&a);
	pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
	pthread_mutexattr_setprotocol(&a, protocol);
	pthread_mutex_init(&g_robust, &a);
	pthread_create(&t, NULL, robust_thread, NULL);
	pthread_join(t, NULL);
	CHECK("EOWNERDEAD", pthread_mutex_lock(&g_robust) == EOWNERDEAD);
	CHECK("consistent", pthread_mutex_consistent(&g_robust) == 0 &&
				    pthread_mutex_unlock(&g_robust) == 0 &&
				    pthread_mutex_lock(&g_robust) == 0);
	pthread_mutex_unlock(&g_robust);
	pthread_mutex_destroy(&g_robust);
	/* Across processes, killed while holding, with a waiter. */
	pthread_mutex_t *m = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	volatile int *flag = (int *)(m + 1);

	pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(m, &a);
	pid_t c = fork();

	if (c == 0) {
		pthread_mutex_lock(m);
		*flag = 1;
		for (;;)
			pause();
	}
	while (!*flag)
		usleep(500);
	pid_t killer = fork();

	if (killer == 0) {
		usleep(15000);
		kill(c, SIGKILL);
		_exit(0);
	}
	CHECK("a killed process's lock passes on", pthread_mutex_lock(m) == EOWNERDEAD);
	pthread_mutex_consistent(m);
	pthread_mutex_unlock(m); /* off this thread's robust list before it is unmapped */
	waitpid(c, NULL, 0);
	waitpid(killer, NULL, 0);
	munmap(m, 4096);
}

struct wv {
	uint64_t val, uaddr;
	uint32_t flags, reserved;
};

static void *wake_later(void *arg)
{
	uint32_t *w = arg;

	usleep(10000);
	__atomic_store_n(w, 1, __ATOMIC_SEQ_CST);
	for (int i = 0; i < 1000; i++)
		if (fx(w, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0) > 0)
			break;
		else
			usleep(500);
	return NULL;
}

static void test_waitv(void)
{
	static uint32_t w[3];
	struct wv v[3];
	struct timespec abs;
	pthread_t t;

	for (int i = 0; i < 3; i++)
		v[i] = (struct wv){ .uaddr = (uint64_t)(uintptr_t)&w[i], .flags = 2 | 128 };
	pthread_create(&t, NULL, wake_later, &w[1]);
	long r = syscall(SYS_futex_waitv, v, 3, 0, NULL, 0);

	pthread_join(t, NULL);
	CHECK("the index of the woken one", r == 1);
	CHECK_ERRNO("another value", syscall(SYS_futex_waitv, v, 3, 0, NULL, 0), EAGAIN);
	w[1] = 0;
	abs = in_ms(CLOCK_MONOTONIC, 3);
	CHECK_ERRNO("timeout", syscall(SYS_futex_waitv, v, 3, 0, &abs, CLOCK_MONOTONIC), ETIMEDOUT);
	CHECK_ERRNO("bad clock", syscall(SYS_futex_waitv, v, 3, 0, &abs, CLOCK_BOOTTIME), EINVAL);
	CHECK_ERRNO("none", syscall(SYS_futex_waitv, v, 0, 0, NULL, 0), EINVAL);
	CHECK_ERRNO("too many", syscall(SYS_futex_waitv, v, 129, 0, NULL, 0), EINVAL);
	CHECK_ERRNO("flags", syscall(SYS_futex_waitv, v, 3, 1, NULL, 0), EINVAL);
	v[2].flags = 0;
	CHECK_ERRNO("word size", syscall(SYS_futex_waitv, v, 3, 0, NULL, 0), EINVAL);
	v[2].flags = 2 | 128;
	v[2].reserved = 1;
	CHECK_ERRNO("reserved", syscall(SYS_futex_waitv, v, 3, 0, NULL, 0), EINVAL);
	CHECK_ERRNO("bad array", syscall(SYS_futex_waitv, (void *)8, 3, 0, NULL, 0), EFAULT);
}

static void *wait2_thread(void *arg)
{
	uint32_t *w = arg;

	return (void *)syscall(SYS_futex_wait, w, 0, ~0u, 2 | 128, NULL, 0);
}

static void test_futex2(void)
{
	static uint32_t w[2];
	pthread_t t;
	void *r;
	long n = 0;

	CHECK_ERRNO("wait, another value", syscall(SYS_futex_wait, w, 1, ~0u, 2 | 128, NULL, 0), EAGAIN);
	CHECK_ERRNO("wait, no size", syscall(SYS_futex_wait, w, 0, ~0u, 128, NULL, 0), EINVAL);
	CHECK_ERRNO("wait, no bits", syscall(SYS_futex_wait, w, 0, 0, 2 | 128, NULL, 0), EINVAL);
	CHECK_ERRNO("wake, no bits", syscall(SYS_futex_wake, w, 0, 1, 2 | 128), EINVAL);
	CHECK("wake nobody", syscall(SYS_futex_wake, w, ~0u, 0, 2 | 128) == 0);
	pthread_create(&t, NULL, wait2_thread, &w[0]);
	guest_threads_asleep(1);
	struct wv v[2] = { { .uaddr = (uint64_t)(uintptr_t)&w[0], .flags = 2 | 128 },
			   { .uaddr = (uint64_t)(uintptr_t)&w[1], .flags = 2 | 128 } };

	CHECK("requeue", syscall(SYS_futex_requeue, v, 0, 0, 1) == 1);
	for (int i = 0; i < 100 && n < 1; i++)
		n += syscall(SYS_futex_wake, &w[1], ~0u, 1, 2 | 128);
	pthread_join(t, &r);
	CHECK("woken where it was moved", n == 1 && r == NULL);
}

/* Many threads over one mutex and condition variable: nobody may be lost. */
static pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t g_cv = PTHREAD_COND_INITIALIZER;
static int g_turn, g_total;

static void *turn_thread(void *arg)
{
	int me = (int)(long)arg;

	for (int i = 0; i < 200; i++) {
		pthread_mutex_lock(&g_lock);
		while (g_turn % 4 != me)
			pthread_cond_wait(&g_cv, &g_lock);
		g_turn++;
		g_total++;
		pthread_cond_broadcast(&g_cv);
		pthread_mutex_unlock(&g_lock);
	}
	return NULL;
}

static void test_stress(void)
{
	pthread_t t[4];

	for (long i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, turn_thread, (void *)i);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	CHECK("condition variables", g_total == 800);
}

int main(void)
{
	test_errors();
	test_wake();
	test_requeue();
	test_wake_op();
	test_signal();
	test_shared();
	test_pi();
	test_requeue_pi();
	test_robust(PTHREAD_PRIO_NONE);
	test_robust(PTHREAD_PRIO_INHERIT);
	test_waitv();
	test_futex2();
	test_stress();
	return guest_done();
}
