/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time page's writer. It compares the time stamp counter with the host's clocks whenever a guest
 * asks for the time by a system call, which the vDSO does once the page is older than SPAN_NS.
 *
 * Time must not go back for a guest that reads now by the page, now by a call. So calls answer from
 * the page too, and when a new comparison finds the page ahead of the host, it goes on from where
 * it is and runs a little slower until the next one.
 */
#include <cpuid.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "platform/base/fence.h"
#include "platform/base/log.h"
#include "sentry/kernel.h"
#include "sentry/loader/loader.h"
#include "sentry/loader/vdso/vvar.h"
#include "sentry/loader/vdso_priv.h"
#include "sentry/time/timers.h"

#define SPAN_NS 500000000ull	/* how long a comparison is good for */
#define FIRST_RATE_NS 3000000ull /* the first two must lie this far apart */
#define RATE_NS 20000000ull	/* later ones */
#define SAMPLE_TRIES 5
#define SAMPLE_GOOD_TICKS 4000u
#define AHEAD_MAX_NS 1000000ull /* more than this is given up over several spans */

struct sample {
	uint64_t tsc, mono_ns;
};

static struct {
	pthread_mutex_t lock;
	struct vvar *page; /* NULL: no vDSO */
	int tsc_ok;
	uint64_t mult; /* 0: rate not known yet */
	struct sample last;
} g_clock = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* #hostcalls: none after isolation; before it, openat read */
void vdso_clock_probe(void)
{
	unsigned a, b, c, d = 0;
	char name[32] = "";
	int fd;

	if (!__get_cpuid(0x80000007, &a, &b, &c, &d) || !(d & (1u << 8)))
		return; /* the counter may stop or change its rate */
	fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource",
		  O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	ssize_t n = read(fd, name, sizeof(name) - 1);

	close(fd);
	g_clock.tsc_ok = n >= 3 && !strncmp(name, "tsc", 3);
}

static uint64_t ns_of(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* The counter and CLOCK_MONOTONIC at one moment, as nearly as it goes. */
static void take_sample(struct sample *s)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < SAMPLE_TRIES && best > SAMPLE_GOOD_TICKS; i++) {
		uint64_t before = vvar_tsc(), ns = ns_of(CLOCK_MONOTONIC), after = vvar_tsc();

		if (after - before < best) {
			best = after - before;
			s->tsc = before + (after - before) / 2;
			s->mono_ns = ns;
		}
	}
}

static uint64_t rate(const struct sample *from, const struct sample *to)
{
	uint64_t ticks = to->tsc - from->tsc, ns = to->mono_ns - from->mono_ns;

	if (!ticks)
		return 0;
	return (uint64_t)(((unsigned __int128)ns << 32) / ticks);
}

static void publish(const struct vvar *v)
{
	struct vvar *p = g_clock.page;
	uint32_t seq = p->seq;

	__atomic_store_n(&p->seq, seq + 1, __ATOMIC_RELAXED);
	fence_write();
	p->usable = v->usable;
	p->tsc_base = v->tsc_base;
	p->tsc_span = v->tsc_span;
	p->mono_ns = v->mono_ns;
	p->mult = v->mult;
	p->real_offset = v->real_offset;
	p->boot_offset = v->boot_offset;
	__atomic_store_n(&p->seq, seq + 2, __ATOMIC_RELEASE);
}

/* With the lock: compares the clocks anew and writes the page. */
static void renew(struct kernel *k)
{
	struct vvar v, old = *g_clock.page;
	struct sample now;
	uint64_t span_ns, shown, ahead;

	take_sample(&now);
	if (!g_clock.last.tsc)
		g_clock.last = now;
	span_ns = now.mono_ns - g_clock.last.mono_ns;
	if (span_ns >= (g_clock.mult ? RATE_NS : FIRST_RATE_NS)) {
		g_clock.mult = rate(&g_clock.last, &now);
		g_clock.last = now;
	}
	if (!g_clock.mult)
		return;
	memset(&v, 0, sizeof(v));
	v.usable = 1;
	v.tsc_base = now.tsc;
	v.mono_ns = now.mono_ns;
	v.mult = g_clock.mult;
	v.tsc_span = (uint64_t)(((unsigned __int128)SPAN_NS << 32) / g_clock.mult);
	/* What the old page has shown at most: nobody has read it beyond its span. */
	if (old.usable) {
		uint64_t delta = now.tsc - old.tsc_base;

		if ((int64_t)delta < 0 || delta > old.tsc_span)
			delta = old.tsc_span;
		shown = old.mono_ns + (uint64_t)(((unsigned __int128)delta * old.mult) >> 32);
		if (shown > v.mono_ns) {
			ahead = shown - v.mono_ns;
			v.mono_ns = shown;
			if (ahead > AHEAD_MAX_NS)
				ahead = AHEAD_MAX_NS;
			v.mult -= (uint64_t)((unsigned __int128)v.mult * ahead / SPAN_NS);
		}
	}
	v.real_offset = (int64_t)(kernel_real_now(k) - ns_of(CLOCK_MONOTONIC));
	v.boot_offset = (int64_t)(ns_of(CLOCK_BOOTTIME) - ns_of(CLOCK_MONOTONIC));
	/* The two reads are not of one moment; a suspended second is not lost in that noise. */
	if (v.boot_offset < 1000000)
		v.boot_offset = 0;
	/* A real offset that only jitters stays as it is: REALTIME must not step by noise. */
	if (old.usable && v.real_offset - old.real_offset < 20000 &&
	    old.real_offset - v.real_offset < 20000)
		v.real_offset = old.real_offset;
	publish(&v);
}

void vdso_clock_start(struct kernel *k, void *page)
{
	(void)k;
	if (!g_clock.tsc_ok) {
		log_info("vdso: the host's clock is not the time stamp counter; calls are made");
		return;
	}
	pthread_mutex_lock(&g_clock.lock);
	g_clock.page = page;
	take_sample(&g_clock.last);
	pthread_mutex_unlock(&g_clock.lock);
}

void vdso_clock_changed(struct kernel *k)
{
	pthread_mutex_lock(&g_clock.lock);
	if (g_clock.page && g_clock.page->usable) {
		struct vvar v = *g_clock.page;

		v.real_offset = (int64_t)(kernel_real_now(k) - ns_of(CLOCK_MONOTONIC));
		publish(&v);
	}
	pthread_mutex_unlock(&g_clock.lock);
}

int vdso_clock_read(struct kernel *k, int clock, uint64_t *ns)
{
	uint64_t mono = 0;
	int64_t off = 0;

	if (clock != CLOCK_MONOTONIC && clock != CLOCK_MONOTONIC_COARSE && clock != CLOCK_REALTIME &&
	    clock != CLOCK_REALTIME_COARSE && clock != CLOCK_BOOTTIME)
		return 0;
	pthread_mutex_lock(&g_clock.lock);
	if (g_clock.page) {
		mono = vvar_mono(g_clock.page, vvar_tsc());
		if (!mono) {
			renew(k);
			mono = vvar_mono(g_clock.page, vvar_tsc());
		}
		if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)
			off = g_clock.page->real_offset;
		else if (clock == CLOCK_BOOTTIME)
			off = g_clock.page->boot_offset;
	}
	pthread_mutex_unlock(&g_clock.lock);
	*ns = mono + (uint64_t)off;
	return mono != 0;
}
