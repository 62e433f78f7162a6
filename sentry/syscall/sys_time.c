/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks, sleeping, timers: argument checks and copying; the work is in sentry/time. */
#include <limits.h>
#include <string.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/timex.h>

#include "platform/base/log.h"
#include "sentry/loader/loader.h"
#include "sentry/fd/fdtable.h"
#include "sentry/mm/mm.h"
#include "sentry/syscall/syscall.h"
#include "sentry/time/timers.h"
#include "vfs/anon/anon.h"

/* ---- clocks ---- */

SYSCALL_HANDLER(clock_gettime)
{
	uint64_t ns;
	int err = vdso_clock_read(t->k, (int)a->a[0], &ns) ? 0 : clock_now(t, (int)a->a[0], &ns);

	return err ? err : timespec_to_user(t, a->a[1], ns);
}

SYSCALL_HANDLER(clock_getres)
{
	int clock = (int)a->a[0], err;
	uint64_t ns = 1;

	err = clock_now(t, clock, &ns);
	if (err)
		return err;
	ns = 1;
	if (clock == CLOCK_REALTIME_COARSE || clock == CLOCK_MONOTONIC_COARSE) {
		struct timespec ts = { 0 };

		clock_getres(clock, &ts);
		ns = (uint64_t)ts.tv_nsec;
	}
	return a->a[1] ? timespec_to_user(t, a->a[1], ns) : 0;
}

SYSCALL_HANDLER(clock_settime)
{
	int clock = (int)a->a[0], err;
	uint64_t ns;

	if (clock == CLOCK_PROCESS_CPUTIME_ID || clock == CLOCK_THREAD_CPUTIME_ID || clock < 0) {
		err = clock_now(t, clock, &ns);
		if (err)
			return err;
		err = timespec_from_user(t, a->a[1], &ns);
		return err ? err : -EPERM;
	}
	if (clock != CLOCK_REALTIME)
		return -EINVAL;
	err = timespec_from_user(t, a->a[1], &ns);
	if (err)
		return err;
	if (!cred_has_cap(task_cred(t), CAP_SYS_TIME))
		return -EPERM;
	clock_set_real(t->k, ns);
	return 0;
}

/* As the vDSO tells it. */
static uint64_t real_now(struct task *t)
{
	uint64_t ns;

	return vdso_clock_read(t->k, CLOCK_REALTIME, &ns) ? ns : kernel_real_now(t->k);
}

SYSCALL_HANDLER(gettimeofday)
{
	if (a->a[0]) {
		uint64_t ns = real_now(t);
		int64_t tv[2] = { (int64_t)(ns / NSEC_PER_SEC),
				  (int64_t)(ns % NSEC_PER_SEC / 1000) };

		if (copy_to_user(t, a->a[0], tv, sizeof(tv)))
			return -EFAULT;
	}
	if (a->a[1]) {
		struct timezone tz = { 0 };

		if (copy_to_user(t, a->a[1], &tz, sizeof(tz)))
			return -EFAULT;
	}
	return 0;
}

SYSCALL_HANDLER(settimeofday)
{
	struct timezone tz;
	int64_t tv[2] = { 0 };
	uint64_t ns = 0;

	if (a->a[0]) {
		if (copy_from_user(t, tv, a->a[0], sizeof(tv)))
			return -EFAULT;
		if (tv[1] < 0 || tv[1] > 1000000 || timespec_to_ns(tv[0], tv[1] * 1000, &ns))
			return -EINVAL;
	}
	if (a->a[1] && copy_from_user(t, &tz, a->a[1], sizeof(tz)))
		return -EFAULT;
	if (!cred_has_cap(task_cred(t), CAP_SYS_TIME))
		return -EPERM;
	if (a->a[1] && (tz.tz_minuteswest > 15 * 60 || tz.tz_minuteswest < -15 * 60))
		return -EINVAL;
	if (a->a[0])
		clock_set_real(t->k, ns);
	return 0;
}

SYSCALL_HANDLER(time)
{
	uint64_t now = real_now(t) / NSEC_PER_SEC;

	if (a->a[0] && put_user_u64(t, a->a[0], now))
		return -EFAULT;
	return (long)now;
}

/*
 * The clock is the host's, which disciplines it: the state reads as that of an unsynchronised
 * clock, and the one change possible is a step.
 */
static long adjust(struct task *t, uint64_t addr)
{
	struct timex tx;
	uint64_t now;

	if (copy_from_user(t, &tx, addr, sizeof(tx)))
		return -EFAULT;
	if (tx.modes && tx.modes != 0xa001 /* ADJ_OFFSET_SS_READ */) {
		if (!cred_has_cap(task_cred(t), CAP_SYS_TIME))
			return -EPERM;
		if ((tx.modes & ~(unsigned int)ADJ_NANO) != ADJ_SETOFFSET) {
			log_once("adjtimex modes %#x: the host keeps the clock: EPERM", tx.modes);
			return -EPERM;
		}
		int64_t unit = tx.modes & ADJ_NANO ? 1 : 1000;

		if (tx.time.tv_usec < 0 || tx.time.tv_usec >= (int64_t)NSEC_PER_SEC / unit ||
		    tx.time.tv_sec > INT32_MAX || tx.time.tv_sec < INT32_MIN)
			return -EINVAL;
		clock_set_real(t->k, kernel_real_now(t->k) +
					     (uint64_t)(tx.time.tv_sec * (int64_t)NSEC_PER_SEC +
							tx.time.tv_usec * unit));
	}
	now = kernel_real_now(t->k);
	memset((char *)&tx + sizeof(tx.modes), 0, sizeof(tx) - sizeof(tx.modes));
	tx.status = STA_UNSYNC;
	tx.maxerror = tx.esterror = 16000000;
	tx.constant = 2;
	tx.precision = 1;
	tx.tolerance = 32768000;
	tx.tick = 10000;
	tx.time.tv_sec = (time_t)(now / NSEC_PER_SEC);
	tx.time.tv_usec = (suseconds_t)(now % NSEC_PER_SEC / 1000);
	if (copy_to_user(t, addr, &tx, sizeof(tx)))
		return -EFAULT;
	return TIME_ERROR;
}

SYSCALL_HANDLER(adjtimex)
{
	return adjust(t, a->a[0]);
}

SYSCALL_HANDLER(clock_adjtime)
{
	uint64_t ns;
	int clock = (int)a->a[0];

	if (clock == CLOCK_REALTIME)
		return adjust(t, a->a[1]);
	return clock_now(t, clock, &ns) ? -EINVAL : -EOPNOTSUPP;
}

/* ---- sleeping ---- */

#define CPU_SLEEP_MIN_NS 4000000ull

/* The next moment worth looking at a clock: exact for wall clocks, a guess for CPU clocks. */
static uint64_t sleep_deadline(struct task *t, int clock, uint64_t now, uint64_t until, int is_cpu)
{
	uint64_t left = until - now, cpus = t->k->cpu_count ? t->k->cpu_count : 1;

	if (!is_cpu)
		return clock_to_mono(t->k, clock, until);
	left /= cpus + 1;
	return deadline_add(mono_now_ns(), left < CPU_SLEEP_MIN_NS ? CPU_SLEEP_MIN_NS : left);
}

/* Until an instant on a clock: 0, -ERESTARTSYS with the time left, or an error. */
static int sleep_until(struct task *t, int clock, uint64_t until, uint64_t *left)
{
	int is_cpu = clock < 0 || clock == CLOCK_PROCESS_CPUTIME_ID, err;
	uint64_t now;

	for (;;) {
		err = clock_now(t, clock, &now);
		if (err)
			return err;
		if (now >= until)
			return 0;
		err = task_sleep(t, sleep_deadline(t, clock, now, until, is_cpu));
		if (err == -ERESTARTSYS)
			break;
	}
	clock_now(t, clock, &now);
	*left = until > now ? until - now : 0;
	return *left ? err : 0;
}

static long relative_sleep(struct task *t, int clock, uint64_t until, uint64_t rem_addr);

static long restart_sleep(struct task *t, struct restart_block *rb)
{
	return relative_sleep(t, rb->clock, rb->deadline_ns, rb->rem_addr);
}

static long relative_sleep(struct task *t, int clock, uint64_t until, uint64_t rem_addr)
{
	uint64_t left = 0;
	int err = sleep_until(t, clock, until, &left);

	if (err != -ERESTARTSYS)
		return err;
	if (rem_addr && timespec_to_user(t, rem_addr, left))
		return -EFAULT;
	t->restart = (struct restart_block){
		.fn = restart_sleep, .clock = clock, .deadline_ns = until, .rem_addr = rem_addr
	};
	return -ERESTART_RESTARTBLOCK;
}

SYSCALL_HANDLER(nanosleep)
{
	uint64_t ns;
	int err = timespec_from_user(t, a->a[0], &ns);

	if (err)
		return err;
	return relative_sleep(t, CLOCK_MONOTONIC, deadline_add(mono_now_ns(), ns), a->a[1]);
}

/* 0 when one can sleep on the clock. */
static int check_sleep_clock(struct task *t, int clock)
{
	struct cpu_clock c;
	int err, own;

	switch (clock) {
	case CLOCK_REALTIME:
	case CLOCK_MONOTONIC:
	case CLOCK_BOOTTIME:
	case CLOCK_TAI:
	case CLOCK_PROCESS_CPUTIME_ID:
		return 0;
	case CLOCK_REALTIME_ALARM:
	case CLOCK_BOOTTIME_ALARM:
		return cred_has_cap(task_cred(t), CAP_WAKE_ALARM) ? 0 : -EPERM;
	case CLOCK_THREAD_CPUTIME_ID:
	case CLOCK_MONOTONIC_RAW:
	case CLOCK_REALTIME_COARSE:
	case CLOCK_MONOTONIC_COARSE:
		return -EOPNOTSUPP;
	}
	err = cpu_clock_decode(t, clock, &c);
	if (err)
		return err;
	own = c.thread == t; /* it would never get there */
	cpu_clock_put(&c);
	return own ? -EINVAL : 0;
}

SYSCALL_HANDLER(clock_nanosleep)
{
	int clock = (int)a->a[0], err = check_sleep_clock(t, clock);
	uint64_t ns, now, left;

	if (err)
		return err;
	err = timespec_from_user(t, a->a[2], &ns);
	if (err)
		return err;
	if ((int)a->a[1] & TIMER_ABSTIME) {
		err = sleep_until(t, clock, ns, &left);
		return err == -ERESTARTSYS ? -ERESTARTNOHAND : err;
	}
	/* A relative sleep does not follow changes of the wall clock. */
	if (clock == CLOCK_REALTIME || clock == CLOCK_TAI)
		clock = CLOCK_MONOTONIC;
	err = clock_now(t, clock, &now);
	return err ? err : relative_sleep(t, clock, deadline_add(now, ns), a->a[3]);
}

/* ---- interval timers ---- */

struct linux_itimerval {
	int64_t interval_sec, interval_usec, value_sec, value_usec;
};

static struct linux_itimerval itimerval_of(const struct itimer_ns *i)
{
	return (struct linux_itimerval){
		.interval_sec = (int64_t)(i->interval / NSEC_PER_SEC),
		.interval_usec = (int64_t)(i->interval % NSEC_PER_SEC / 1000),
		.value_sec = (int64_t)(i->value / NSEC_PER_SEC),
		.value_usec = (int64_t)(i->value % NSEC_PER_SEC / 1000),
	};
}

static int timeval_to_ns(int64_t sec, int64_t usec, uint64_t *ns)
{
	if (usec < 0 || usec >= 1000000)
		return -EINVAL;
	return timespec_to_ns(sec, usec * 1000, ns);
}

SYSCALL_HANDLER(getitimer)
{
	struct linux_itimerval v;
	struct itimer_ns cur;

	if ((int)a->a[0] < ITIMER_REAL || (int)a->a[0] > ITIMER_PROF)
		return -EINVAL;
	itimer_get(t, (int)a->a[0], &cur);
	v = itimerval_of(&cur);
	return copy_to_user(t, a->a[1], &v, sizeof(v));
}

SYSCALL_HANDLER(setitimer)
{
	struct linux_itimerval v = { 0 };
	struct itimer_ns val, old;
	int which = (int)a->a[0], err;

	/* Without a new value Linux takes zeroes. */
	if (a->a[1] && copy_from_user(t, &v, a->a[1], sizeof(v)))
		return -EFAULT;
	if (timeval_to_ns(v.value_sec, v.value_usec, &val.value) ||
	    timeval_to_ns(v.interval_sec, v.interval_usec, &val.interval))
		return -EINVAL;
	if (which < ITIMER_REAL || which > ITIMER_PROF)
		return -EINVAL;
	err = itimer_set(t, which, &val, &old);
	if (err || !a->a[2])
		return err;
	v = itimerval_of(&old);
	return copy_to_user(t, a->a[2], &v, sizeof(v));
}

SYSCALL_HANDLER(alarm)
{
	struct itimer_ns val = { 0 }, old;
	uint64_t sec = (uint32_t)a->a[0];

	val.value = (sec > INT_MAX ? INT_MAX : sec) * NSEC_PER_SEC;
	itimer_set(t, ITIMER_REAL, &val, &old);
	/* Rounded, but never to "none" while there is one. */
	sec = old.value / NSEC_PER_SEC;
	if ((!sec && old.value) || old.value % NSEC_PER_SEC >= NSEC_PER_SEC / 2)
		sec++;
	return (long)sec;
}

/* ---- timer_create ---- */

struct linux_sigevent {
	uint64_t value;
	int32_t signo, notify, tid;
	int32_t pad[11];
};
_Static_assert(sizeof(struct linux_sigevent) == 64, "struct sigevent");

SYSCALL_HANDLER(timer_create)
{
	struct sigevent_k sev = { .notify = SIGEV_SIGNAL, .signo = SIGALRM, .value_is_id = 1 };
	int id;

	if (a->a[1]) {
		struct linux_sigevent e;

		if (copy_from_user(t, &e, a->a[1], sizeof(e)))
			return -EFAULT;
		sev = (struct sigevent_k){
			.notify = e.notify, .signo = e.signo, .tid = e.tid, .value = e.value
		};
	}
	id = posix_timer_create(t, (int)a->a[0], &sev);
	if (id < 0)
		return id;
	if (put_user_u32(t, a->a[2], (uint32_t)id)) {
		posix_timer_delete(t, id);
		return -EFAULT;
	}
	return 0;
}

static int itimerspec_from_user(struct task *t, uint64_t addr, struct itimer_ns *v)
{
	struct linux_timespec ts[2];

	if (copy_from_user(t, ts, addr, sizeof(ts)))
		return -EFAULT;
	if (timespec_to_ns(ts[0].sec, ts[0].nsec, &v->interval) ||
	    timespec_to_ns(ts[1].sec, ts[1].nsec, &v->value))
		return -EINVAL;
	return 0;
}

static int itimerspec_to_user(struct task *t, uint64_t addr, const struct itimer_ns *v)
{
	struct linux_timespec ts[2] = {
		{ (int64_t)(v->interval / NSEC_PER_SEC), (int64_t)(v->interval % NSEC_PER_SEC) },
		{ (int64_t)(v->value / NSEC_PER_SEC), (int64_t)(v->value % NSEC_PER_SEC) },
	};

	return copy_to_user(t, addr, ts, sizeof(ts));
}

SYSCALL_HANDLER(timer_settime)
{
	struct itimer_ns val, old;
	int err;

	if (!a->a[2])
		return -EINVAL;
	err = itimerspec_from_user(t, a->a[2], &val);
	if (!err)
		err = posix_timer_set(t, (int)a->a[0], (int)a->a[1], &val, &old);
	if (err || !a->a[3])
		return err;
	return itimerspec_to_user(t, a->a[3], &old);
}

SYSCALL_HANDLER(timer_gettime)
{
	struct itimer_ns cur;
	int err = posix_timer_get(t, (int)a->a[0], &cur);

	return err ? err : itimerspec_to_user(t, a->a[1], &cur);
}

SYSCALL_HANDLER(timer_getoverrun)
{
	return posix_timer_overrun(t, (int)a->a[0]);
}

SYSCALL_HANDLER(timer_delete)
{
	return posix_timer_delete(t, (int)a->a[0]);
}

/* ---- timerfd ---- */

SYSCALL_HANDLER(timerfd_create)
{
	int flags = (int)a->a[1], fd;
	struct file *f = timerfd_new(t->k->vfs, task_cred(t), (int)a->a[0], flags);

	if (IS_ERR(f))
		return PTR_ERR(f);
	fd = fd_install(t, f, 0, (uint32_t)flags & TFD_CLOEXEC);
	if (fd < 0)
		file_put(f);
	return fd;
}

SYSCALL_HANDLER(timerfd_settime)
{
	struct itimerspec val, old;
	struct file *f;
	int err;

	_Static_assert(sizeof(struct itimerspec) == 32, "as the kernel's");
	if (copy_from_user(t, &val, a->a[2], sizeof(val)))
		return -EFAULT;
	f = fd_get(t, (int)a->a[0]);
	if (!f)
		return -EBADF;
	err = timerfd_set(f, task_cred(t), (int)a->a[1], &val, &old);
	file_put(f);
	if (err || !a->a[3])
		return err;
	return copy_to_user(t, a->a[3], &old, sizeof(old));
}

SYSCALL_HANDLER(timerfd_gettime)
{
	struct itimerspec cur;
	struct file *f = fd_get(t, (int)a->a[0]);
	int err;

	if (!f)
		return -EBADF;
	err = timerfd_get(f, &cur);
	file_put(f);
	return err ? err : copy_to_user(t, a->a[1], &cur, sizeof(cur));
}
