/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first stub process, from which all others are cloned. It starts as a fork of the sentry,
 * before the sentry has threads or secrets, gives up everything it inherited, and ends in the
 * stub's signal handler with nothing mapped but the stub's text and its own slot.
 */
#include <cpuid.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "platform/base/log.h"
#include "platform/systrap/systrap.h"

#define ZYGOTE_STACK_SIZE (256 * 1024)
#define ZYGOTE_TIMEOUT_NS 5000000000ull
#define KERNEL_SA_RESTORER 0x04000000

struct kernel_sigaction {
	uint64_t handler, flags, restorer, mask;
};

/* The steps, for the error message; the child leaves the number of the failed one in its slot. */
enum step { STEP_CREDS = 1, STEP_SIGNALS, STEP_MAP, STEP_RSEQ, STEP_STACK, STEP_UNMAP, STEP_FILTER };
static const char *const g_steps[] = { "?",	       "credentials",  "signals",	"mappings",
				       "rseq",	       "signal stack", "unmapping",	"seccomp filter" };

static __attribute__((noreturn)) void fail(struct sysmsg *m, enum step step, int err)
{
	m->orders[0].nr = step;
	m->orders[0].ret = -err;
	__atomic_store_n(&m->turn, TURN_DEAD, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &m->turn, 1 /* FUTEX_WAKE */, 1, NULL, NULL, 0);
	syscall(SYS_exit_group, 1);
	__builtin_unreachable();
}

static int drop_privileges(const struct systrap *p)
{
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct none[2] = { 0 };
	struct rlimit nofile = { 16, 16 }, core = { 0, 0 };

	setsid();
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != p->sentry_pid)
		return -EPERM;
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (syscall(SYS_capset, &header, none) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    setrlimit(RLIMIT_CORE, &core) || setrlimit(RLIMIT_NOFILE, &nofile))
		return -errno;
	/* process_vm_readv by the sentry needs it. */
	return prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) ? -errno : 0;
}

/*
 * The six signals of guest code and the interrupt go to the stub; the rest is ignored, so that a
 * signal to the sentry's terminal group does not end guests. SEGV and BUS stay open inside the
 * handler for stub_cmpxchg32's fixup.
 */
static int set_signals(const struct systrap *p)
{
	const uint64_t open = 1ull << (SIGSEGV - 1) | 1ull << (SIGBUS - 1);
	uint64_t none = 0;

	for (int sig = 1; sig <= 64; sig++) {
		struct kernel_sigaction sa = { .handler = (uint64_t)(uintptr_t)SIG_IGN };
		int ours = sig == SIGSEGV || sig == SIGBUS || sig == SIGFPE || sig == SIGILL ||
			   sig == SIGTRAP || sig == SIGSYS || sig == STUB_INTERRUPT_SIGNAL;

		if (sig == SIGKILL || sig == SIGSTOP)
			continue;
		if (sig == SIGCHLD)
			sa.handler = (uint64_t)(uintptr_t)SIG_DFL;
		if (ours) {
			sa.handler = STUB_TEXT_ADDR + p->stub->handler;
			sa.restorer = STUB_TEXT_ADDR + p->stub->restorer;
			sa.flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER | KERNEL_SA_RESTORER;
			sa.mask = ~open;
		}
		if (syscall(SYS_rt_sigaction, sig, &sa, NULL, 8))
			return -errno;
	}
	return syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, 8) ? -errno : 0;
}

static int map_stub(const struct systrap *p, uint32_t slot)
{
	size_t size = (size_t)(systrap_stub_image_end - systrap_stub_image);
	void *text = mmap((void *)STUB_TEXT_ADDR, STUB_TEXT_SIZE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

	if (text == MAP_FAILED)
		return -errno;
	memcpy(text, systrap_stub_image, size);
	if (p->bring)
		memcpy((void *)STUB_BRING_ADDR, p->bring, BRING_NUMBERS);
	if (mprotect(text, STUB_TEXT_SIZE, PROT_READ | PROT_EXEC))
		return -errno;
	if (mmap((void *)slot_address(slot), SLOT_SIZE, PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_FIXED, p->slots_fd, (off_t)slot * SLOT_SIZE) == MAP_FAILED)
		return -errno;
	return madvise((void *)slot_address(slot), SLOT_SIZE, MADV_DONTFORK) ? -errno : 0;
}

/* libc's registration would make the host write to memory that is about to go. */
static int drop_rseq(void)
{
	const uint32_t sig = 0x53053053;
	char *area = (char *)__builtin_thread_pointer() + __rseq_offset;

	if (__rseq_size && syscall(SYS_rseq, area, 32, 1 /* UNREGISTER */, sig) && errno != ENOSYS)
		return -errno;
	return 0;
}

/* Runs on a stack of its own, so that libc's stack, vDSO and all may lie where the stub goes. */
static int zygote_main(void *arg)
{
	struct systrap *p = arg;
	const uint32_t slot = p->zygote->slot;
	struct sysmsg *m = p->zygote->msg;
	uint64_t top = slot_address(slot) + SLOT_SIZE;
	int err;

	if ((err = drop_privileges(p)))
		fail(m, STEP_CREDS, err);
	if ((err = set_signals(p)))
		fail(m, STEP_SIGNALS, err);
	if ((err = map_stub(p, slot)))
		fail(m, STEP_MAP, err);
	if ((err = drop_rseq()))
		fail(m, STEP_RSEQ, err);
	stack_t stack = { .ss_sp = (void *)(slot_address(slot) + SLOT_STACK),
			  .ss_size = SLOT_SIZE - SLOT_STACK };
	if (sigaltstack(&stack, NULL))
		fail(m, STEP_STACK, -errno);
	if (munmap((void *)top, STUB_RANGE_END - top))
		fail(m, STEP_UNMAP, -errno);
	err = trap_filter_install();
	if (err < 0)
		fail(m, STEP_FILTER, err);
	m->listener = (uint32_t)err + 1;
	__asm__ volatile("jmp *%0" ::"r"(STUB_TEXT_ADDR + p->stub->zygote) : "memory");
	__builtin_unreachable();
}

/* What the host must offer; each lack gets its own line in the log. */
static int check_host(struct systrap *p)
{
	unsigned int a, b, c, d;

	if (!(getauxval(AT_HWCAP2) & 2)) {
		log_error("systrap: this host does not let programs use FSGSBASE");
		return -EOPNOTSUPP;
	}
	if (!__get_cpuid_count(0xd, 0, &a, &b, &c, &d) || b < 576) {
		log_error("systrap: this processor has no XSAVE");
		return -EOPNOTSUPP;
	}
	p->base.xstate_size = b;
	p->base.xcr0 = (uint64_t)d << 32 | a;

	unsigned long frame = getauxval(AT_MINSIGSTKSZ);

	/* Two frames can nest (a fault in stub_cmpxchg32), plus the handler's own few calls. */
	if (frame * 2 + 8192 > SLOT_SIZE - SLOT_STACK) {
		log_error("systrap: signal frames of %lu bytes are too large here", frame);
		return -EOPNOTSUPP;
	}
	return 0;
}

/* Waits for the zygote's first event. It may die without a word. */
static int await_zygote(struct systrap *p, pid_t pid)
{
	struct sysmsg *m = p->zygote->msg;
	int status;

	for (int i = 0; i < 500; i++) {
		uint32_t turn = __atomic_load_n(&m->turn, __ATOMIC_SEQ_CST);

		if (turn == TURN_SENTRY)
			return 0;
		if (turn == TURN_DEAD) {
			uint64_t step = m->orders[0].nr < 8 ? m->orders[0].nr : 0;

			log_error("systrap: setting up the first stub failed at %s: errno %d",
				  g_steps[step], (int)-m->orders[0].ret);
			waitpid(pid, NULL, 0);
			return m->orders[0].ret ? (int)m->orders[0].ret : -EIO;
		}
		if (waitpid(pid, &status, WNOHANG) == pid) {
			log_error("systrap: the first stub died at once (wait status %#x)",
				  (unsigned int)status);
			return -EIO;
		}
		futex_wait(&m->turn, turn, ZYGOTE_TIMEOUT_NS / 500);
	}
	log_error("systrap: the first stub does not answer");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return -ETIMEDOUT;
}

int zygote_start(struct systrap *p)
{
	struct systrap_context *z = p->zygote;
	int ret = check_host(p);

	if (ret)
		return ret;
	void *stack = mmap(NULL, ZYGOTE_STACK_SIZE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);

	if (stack == MAP_FAILED)
		return -errno;
	z->msg->turn = TURN_STUB;
	z->msg->sentry_sleeps = 1;
	p->sentry_pid = getpid();
	/* The shared fd table is how the listener gets here; the stub leaves it right after. */
	pid_t pid = clone(zygote_main, (char *)stack + ZYGOTE_STACK_SIZE, CLONE_FILES | SIGCHLD, p);

	if (pid < 0) {
		ret = -errno;
		munmap(stack, ZYGOTE_STACK_SIZE);
		return ret;
	}
	ret = await_zygote(p, pid);
	munmap(stack, ZYGOTE_STACK_SIZE);
	if (ret)
		return ret;
	p->listener = (int)z->msg->listener - 1;
	z->msg->sentry_sleeps = 0;

	uint64_t magic = 0;
	struct iovec local = { &magic, sizeof(magic) };
	struct iovec remote = { (void *)STUB_TEXT_ADDR, sizeof(magic) };

	if (frame_check(z, z->msg->frame) || z->msg->event_signo != SIGTRAP) {
		log_error("systrap: the first stub stopped in a strange way (signal %u)",
			  z->msg->event_signo);
		ret = -EIO;
	} else if (process_vm_readv(pid, &local, 1, &remote, 1, 0) != (ssize_t)sizeof(magic)) {
		ret = -errno;
		log_error("systrap: process_vm_readv of a stub is refused (errno %d)", -ret);
	}
	if (ret) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		return ret;
	}
	lock_acquire(&p->lock);
	context_publish(z, pid);
	lock_release(&p->lock);
	fpstate_probe(p);
	return 0;
}
