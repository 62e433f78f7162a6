/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timerfd: a timer whose expirations are read as a count.
 *
 * Theory of operation: the ktimer fires once per expiry that somebody has not yet looked at. A
 * periodic timer is not re-armed when it fires but when it is next read, asked or set; the ticks
 * that went by are then counted from the clock. So an unread timer costs nothing, and a periodic
 * one wakes edge-triggered watchers once per read, both as on Linux.
 *
 * Deadlines are kept on the timer's own clock and turned into CLOCK_MONOTONIC when armed. A
 * realtime timer that fires early, because the host's clock was set back, arms itself again.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/timerfd.h>

#include "platform/base/ktimer.h"
#include "vfs/anon/anon.h"

#ifndef TFD_IOC_SET_TICKS
#define TFD_IOC_SET_TICKS _IOW('T', 0, uint64_t)
#endif
#define NS_PER_SEC 1000000000ull
#define TIME_MAX_NS ((uint64_t)INT64_MAX)

struct timerfd {
	struct lock lock;     /* RANK_TIMER_OBJ */
	struct ktimer timer;
	int clockid;	      /* [I] */
	int settime_flags;    /* [lock] of the last settime, for fdinfo */
	int armed;	      /* [lock] `deadline` means something */
	int expired;	      /* [lock] fired since the deadline was last moved on */
	uint64_t deadline;    /* [lock] ns on clockid */
	uint64_t interval;    /* [lock] ns, 0: one shot */
	uint64_t ticks;	      /* [lock] expirations not yet read */
	struct waitq wq;
};

static const struct file_ops g_timerfd_ops;

int file_is_timerfd(const struct file *f)
{
	return f->ops == &g_timerfd_ops;
}

static int is_alarm(int clockid)
{
	return clockid == CLOCK_REALTIME_ALARM || clockid == CLOCK_BOOTTIME_ALARM;
}

static uint64_t clock_now(const struct timerfd *t)
{
	struct timespec ts;
	clockid_t id = CLOCK_MONOTONIC;

	if (t->clockid == CLOCK_REALTIME || t->clockid == CLOCK_REALTIME_ALARM)
		id = CLOCK_REALTIME;
	else if (t->clockid == CLOCK_BOOTTIME || t->clockid == CLOCK_BOOTTIME_ALARM)
		id = CLOCK_BOOTTIME;
	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_SEC + (uint64_t)ts.tv_nsec;
}

static uint64_t add_sat(uint64_t a, uint64_t b)
{
	return a > TIME_MAX_NS - b ? TIME_MAX_NS : a + b;
}

static uint64_t to_ns(const struct timespec *ts)
{
	if ((uint64_t)ts->tv_sec >= TIME_MAX_NS / NS_PER_SEC)
		return TIME_MAX_NS;
	return (uint64_t)ts->tv_sec * NS_PER_SEC + (uint64_t)ts->tv_nsec;
}

static struct timespec from_ns(uint64_t ns)
{
	return (struct timespec){ .tv_sec = (time_t)(ns / NS_PER_SEC),
				  .tv_nsec = (long)(ns % NS_PER_SEC) };
}

static int spec_valid(const struct timespec *ts)
{
	return ts->tv_sec >= 0 && (uint64_t)ts->tv_nsec < NS_PER_SEC;
}

static void arm_locked(struct timerfd *t, uint64_t now)
{
	uint64_t wait = t->deadline > now ? t->deadline - now : 0;

	lock_assert_held(&t->lock);
	ktimer_arm(&t->timer, add_sat(mono_now_ns(), wait));
}

static void timerfd_fire(struct ktimer *kt)
{
	struct timerfd *t = kt->priv;
	uint64_t now;

	lock_acquire(&t->lock);
	now = clock_now(t);
	if (t->armed && !t->expired) {
		if (now < t->deadline) {
			arm_locked(t, now);
		} else {
			t->expired = 1;
			t->ticks++;
			waitq_wake(&t->wq, POLLIN);
		}
	}
	lock_release(&t->lock);
}

/* Counts the intervals that went by since the deadline and moves it past now. */
static void catch_up_locked(struct timerfd *t)
{
	uint64_t now, n;

	if (!t->expired || !t->interval)
		return;
	now = clock_now(t);
	n = now < t->deadline ? 0 : (now - t->deadline) / t->interval + 1;
	/* The first of them was counted when the timer fired. */
	if (n) {
		t->ticks += n - 1;
		t->deadline = add_sat(t->deadline, n * t->interval);
		t->expired = 0;
		arm_locked(t, now);
	}
}

static ssize_t timerfd_read_op(struct file *f, struct uio *u, int64_t *pos)
{
	struct timerfd *t = f->priv;
	uint64_t v;
	ssize_t r;

	(void)pos;
	if (u->left < sizeof(v))
		return -EINVAL;
	lock_acquire(&t->lock);
	if (!t->ticks) {
		lock_release(&t->lock);
		return -EAGAIN;
	}
	catch_up_locked(t);
	v = t->ticks;
	t->ticks = 0;
	lock_release(&t->lock);
	r = uio_copy_out(u, &v, sizeof(v));
	return r == sizeof(v) ? r : -EFAULT;
}

static uint32_t timerfd_poll(struct file *f, struct poll_table *pt)
{
	struct timerfd *t = f->priv;
	uint32_t mask;

	poll_wait(pt, &t->wq);
	lock_acquire(&t->lock);
	mask = t->ticks ? POLLIN : 0;
	lock_release(&t->lock);
	return mask;
}

static long timerfd_ioctl(struct file *f, struct ioctl_req *r)
{
	struct timerfd *t = f->priv;
	uint64_t ticks;

	if (r->cmd != TFD_IOC_SET_TICKS)
		return -ENOIOCTLCMD;
	if (r->copy_in(r, &ticks, r->arg, sizeof(ticks)) < 0)
		return -EFAULT;
	if (!ticks)
		return -EINVAL;
	lock_acquire(&t->lock);
	t->ticks = ticks;
	waitq_wake(&t->wq, POLLIN);
	lock_release(&t->lock);
	return 0;
}

static void get_locked(struct timerfd *t, struct itimerspec *cur)
{
	uint64_t now = clock_now(t);

	cur->it_value = from_ns(t->armed && t->deadline > now ? t->deadline - now : 0);
	cur->it_interval = from_ns(t->interval);
}

int timerfd_set(struct file *f, const struct cred *cred, int flags, const struct itimerspec *val,
		    struct itimerspec *old)
{
	struct timerfd *t = f->priv;
	uint64_t now, value;

	if ((flags & ~(TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET)) ||
	    !spec_valid(&val->it_value) || !spec_valid(&val->it_interval))
		return -EINVAL;
	if (!file_is_timerfd(f))
		return -EINVAL;
	if (is_alarm(t->clockid) && !cred_has_cap(cred, CAP_WAKE_ALARM))
		return -EPERM;
	value = to_ns(&val->it_value);
	lock_acquire(&t->lock);
	catch_up_locked(t);
	if (old)
		get_locked(t, old);
	/* A firing under way finds armed or the deadline changed, and does nothing. */
	ktimer_cancel(&t->timer);
	now = clock_now(t);
	t->settime_flags = flags;
	t->ticks = 0;
	t->expired = 0;
	t->interval = to_ns(&val->it_interval);
	t->armed = value != 0;
	if (t->armed) {
		t->deadline = flags & TFD_TIMER_ABSTIME ? value : add_sat(now, value);
		arm_locked(t, now);
	}
	lock_release(&t->lock);
	return 0;
}

int timerfd_get(struct file *f, struct itimerspec *cur)
{
	struct timerfd *t = f->priv;

	if (!file_is_timerfd(f))
		return -EINVAL;
	lock_acquire(&t->lock);
	catch_up_locked(t);
	get_locked(t, cur);
	lock_release(&t->lock);
	return 0;
}

static void timerfd_free(struct timerfd *t)
{
	ktimer_cancel_sync(&t->timer);
	waitq_destroy(&t->wq);
	lock_destroy(&t->lock);
	free(t);
}

static void timerfd_release(struct file *f)
{
	timerfd_free(f->priv);
}

static void timerfd_show_fdinfo(struct file *f, struct strbuf *sb)
{
	struct timerfd *t = f->priv;
	struct itimerspec cur;

	lock_acquire(&t->lock);
	get_locked(t, &cur);
	strbuf_printf(sb,
		      "clockid: %d\nticks: %llu\nsettime flags: 0%o\n"
		      "it_value: (%lld, %ld)\nit_interval: (%lld, %ld)\n",
		      t->clockid, (unsigned long long)t->ticks, t->settime_flags,
		      (long long)cur.it_value.tv_sec, cur.it_value.tv_nsec,
		      (long long)cur.it_interval.tv_sec, cur.it_interval.tv_nsec);
	lock_release(&t->lock);
}

static const struct file_ops g_timerfd_ops = {
	.read = timerfd_read_op,
	.llseek = anon_llseek,
	.poll = timerfd_poll,
	.ioctl = timerfd_ioctl,
	.release = timerfd_release,
	.show_fdinfo = timerfd_show_fdinfo,
};

struct file *timerfd_new(struct vfs *vfs, const struct cred *cred, int clockid, int flags)
{
	struct timerfd *t;
	struct file *f;

	if ((flags & ~(TFD_CLOEXEC | TFD_NONBLOCK)) ||
	    (clockid != CLOCK_MONOTONIC && clockid != CLOCK_REALTIME && clockid != CLOCK_BOOTTIME &&
	     !is_alarm(clockid)))
		return ERR_PTR(-EINVAL);
	if (is_alarm(clockid) && !cred_has_cap(cred, CAP_WAKE_ALARM))
		return ERR_PTR(-EPERM);
	t = calloc(1, sizeof(*t));
	if (!t)
		return ERR_PTR(-ENOMEM);
	lock_init(&t->lock, RANK_TIMER_OBJ);
	ktimer_init(&t->timer, timerfd_fire, t);
	t->clockid = clockid;
	waitq_init(&t->wq);
	f = file_new_anon(vfs, "anon_inode:[timerfd]", &g_timerfd_ops, t,
			  O_RDWR | (uint32_t)(flags & TFD_NONBLOCK),
			  FMODE_READ | FMODE_WRITE | FMODE_NOPREAD, cred);
	if (IS_ERR(f))
		timerfd_free(t);
	return f;
}
