/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The audit file: one JSON object a line, each by one write(2) to a file that was opened for
 * appending. A guest chooses how often it is refused, so the number of lines a second is limited; what
 * was left out is counted in the next line that is written.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "platform/base/ktimer.h"
#include "sentry/egress/egress_priv.h"
#include "sentry/task/task.h"

struct line {
	char text[2048];
	size_t len;
};

__attribute__((format(printf, 2, 3))) static void add(struct line *l, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(l->text + l->len, sizeof(l->text) - l->len, fmt, ap);
	va_end(ap);
	l->len += (size_t)n < sizeof(l->text) - l->len ? (size_t)n : sizeof(l->text) - 1 - l->len;
}

/* Guests choose some of these bytes: what is no plain ASCII is escaped. */
static void add_string(struct line *l, const char *key, const char *s, size_t max)
{
	add(l, ",\"%s\":\"", key);
	for (size_t i = 0; i < max && s[i]; i++) {
		unsigned char c = (unsigned char)s[i];

		if (c < ' ' || c > '~' || c == '"' || c == '\\')
			add(l, "\\u%04x", c);
		else
			add(l, "%c", c);
	}
	add(l, "\"");
}

/* Without the C library's time zones, which would want files. Days to date as in RFC 3339's appendix. */
static void add_time(struct line *l)
{
	uint64_t ns = real_now_ns(), sec = ns / 1000000000u, day = sec / 86400u;
	uint64_t z = day + 719468u, era = z / 146097u, doe = z % 146097u;
	uint64_t yoe = (doe - doe / 1460u + doe / 36524u - doe / 146096u) / 365u;
	uint64_t doy = doe - (365u * yoe + yoe / 4u - yoe / 100u), mp = (5u * doy + 2u) / 153u;
	unsigned d = (unsigned)(doy - (153u * mp + 2u) / 5u + 1u), m = (unsigned)(mp < 10u ? mp + 3u : mp - 9u);
	unsigned y = (unsigned)(yoe + era * 400u + (m <= 2));

	add(l, "{\"time\":\"%04u-%02u-%02uT%02u:%02u:%02u.%03uZ\"", y, m, d, (unsigned)(sec / 3600u % 24u),
	    (unsigned)(sec / 60u % 60u), (unsigned)(sec % 60u), (unsigned)(ns / 1000000u % 1000u));
}

void audit_write(struct egress *e, const struct audit_record *r)
{
	struct line l = { .len = 0 };
	char addr[INET6_ADDRSTRLEN];
	uint64_t lost;

	if (e->audit.fd < 0)
		return;
	lock_acquire(&e->lock);
	int may = egress_bucket_take(&e->audit.limit, 1, mono_now_ns());

	lock_release(&e->lock);
	if (!may) {
		__atomic_fetch_add(&e->audit.unwritten, 1, __ATOMIC_RELAXED);
		return;
	}
	add_time(&l);
	add_string(&l, "sandbox", e->audit.sandbox, sizeof(e->audit.sandbox));
	add_string(&l, "event", r->event, 64);
	if (r->who.id) {
		add(&l, ",\"pid\":%d", r->who.id);
		add_string(&l, "comm", r->who.text, sizeof(r->who.text));
	}
	if (r->proto)
		add_string(&l, "proto", r->proto, 32);
	if (r->direction)
		add_string(&l, "direction", r->direction, 8);
	if (r->addr) {
		int v4 = ip_is_v4(r->addr);

		inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? (const void *)&r->addr->w[3] : r->addr->b, addr, sizeof(addr));
		add_string(&l, "address", addr, sizeof(addr));
	}
	if (r->port >= 0)
		add(&l, ",\"port\":%d", r->port);
	if (r->name[0])
		add_string(&l, "name", r->name, sizeof(r->name));
	if (r->rule[0])
		add_string(&l, "rule", r->rule, sizeof(r->rule));
	if (r->direction)
		add(&l, ",\"bytes_in\":%llu,\"bytes_out\":%llu", (unsigned long long)r->bytes_in,
		    (unsigned long long)r->bytes_out);
	lost = __atomic_exchange_n(&e->audit.unwritten, 0, __ATOMIC_RELAXED);
	if (lost)
		add(&l, ",\"unwritten\":%llu", (unsigned long long)lost);
	add(&l, "}\n");
	if (write(e->audit.fd, l.text, l.len) != (ssize_t)l.len)
		__atomic_fetch_add(&e->audit.unwritten, lost + 1, __ATOMIC_RELAXED);
}

void audit_label(struct task *t, struct ep_label *l)
{
	l->id = task_tgid(t);
	memcpy(l->text, t->comm, sizeof(l->text));
	l->text[sizeof(l->text) - 1] = '\0';
}
