/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text to rules (the grammar is in docs/egress.md). A rule that could be read in two ways is an error:
 * whoever writes a policy must not be surprised by it.
 */
#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "netstack/egress/address.h"
#include "netstack/egress/name.h"
#include "netstack/egress/rule.h"

__attribute__((format(printf, 2, 3))) static int fail(struct egress_error *e, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(e->text, sizeof(e->text), fmt, ap);
	va_end(ap);
	return -1;
}

static int is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* A decimal number of n digits at most max; -1 otherwise. */
static long number(const char *s, size_t n, long max)
{
	long v = 0;

	if (!n || n > 5)
		return -1;
	for (size_t i = 0; i < n; i++) {
		if (s[i] < '0' || s[i] > '9')
			return -1;
		v = v * 10 + (s[i] - '0');
	}
	return v <= max ? v : -1;
}

/* PORT or PORT-PORT */
static int parse_ports(struct egress_rule *r, const char *s, struct egress_error *e)
{
	const char *dash = strchr(s, '-');
	long lo = number(s, dash ? (size_t)(dash - s) : strlen(s), 65535);
	long hi = dash ? number(dash + 1, strlen(dash + 1), 65535) : lo;

	if (lo < 0 || hi < 0)
		return fail(e, "'%s' is no port (1 to 65535) and no range of them", s);
	if (lo > hi || !lo)
		return fail(e, "the port range '%s' is empty or starts with 0", s);
	r->has_ports = 1;
	r->port_min = (uint16_t)lo;
	r->port_max = (uint16_t)hi;
	return 0;
}

static int parse_proto(struct egress_rule *r, const char *s)
{
	static const struct {
		const char *name;
		uint8_t bit;
	} protos[] = { { "tcp", EGRESS_TCP }, { "udp", EGRESS_UDP }, { "icmp", EGRESS_ICMP } };

	for (size_t i = 0; i < sizeof(protos) / sizeof(*protos); i++)
		if (!strcmp(s, protos[i].name)) {
			r->protos = protos[i].bit;
			return 1;
		}
	return 0;
}

/* host: an address without its length. 1 when it is one. */
static int parse_address(struct egress_rule *r, const char *host)
{
	struct in_addr v4;
	struct in6_addr v6;

	if (inet_pton(AF_INET, host, &v4) == 1)
		r->net = ip_from_v4(v4.s_addr);
	else if (inet_pton(AF_INET6, host, &v6) == 1)
		r->net = ip_from_v6(&v6);
	else
		return 0;
	r->plen = 128;
	return 1;
}

static int parse_length(struct egress_rule *r, const char *s, int as_v4, struct egress_error *e)
{
	long n = number(s, strlen(s), as_v4 ? 32 : 128);

	if (n < 0)
		return fail(e, "'/%s' is no prefix length of an IPv%d address", s, as_v4 ? 4 : 6);
	r->plen = (uint32_t)n + (as_v4 ? 96 : 0);
	return 0;
}

static int finish_address(struct egress_rule *r, const char *host, struct egress_error *e)
{
	/* ::ffff:10.0.0.0/104 is IPv4; ::ffff:0:0/90 holds more than that and is IPv6. */
	r->v4 = ip_is_v4(&r->net) && r->plen >= 96;
	if (egress_is_embedded(&r->net) && (r->net.d[0] || r->net.d[1]))
		return fail(e, "'%s' carries an IPv4 address; it is judged as that one, so list that", host);
	for (uint32_t bit = r->plen; bit < 128; bit++)
		if (r->net.b[bit / 8] >> (7 - bit % 8) & 1)
			return fail(e, "'%s' has bits set beyond its prefix length", host);
	return 0;
}

static int parse_name(struct egress_rule *r, const char *host, char name[EGRESS_NAME_SIZE],
		      struct egress_error *e)
{
	if (!strncmp(host, "*.", 2)) {
		r->below = 1;
		host += 2;
	}
	if (egress_name_canon(host, strlen(host), name))
		return fail(e, "'%s' is neither an address nor a host name (IDNA names in their xn-- form)", host);
	return 0;
}

/*
 * Takes "/tcp" and ":443" off the end of s. What is left is an address, with "/24" perhaps, or a
 * name. A bare IPv6 address has colons of its own, so its ports need brackets.
 */
static int parse_target(struct egress_rule *r, char *s, char name[EGRESS_NAME_SIZE], struct egress_error *e)
{
	char *slash = strrchr(s, '/'), *colon, *host = s, *length = NULL;
	int bracket = *s == '[';

	if (slash && slash != s && slash[1] >= 'a' && slash[1] <= 'z') {
		if (!parse_proto(r, slash + 1))
			return fail(e, "'%s' is none of tcp, udp, icmp", slash + 1);
		*slash = '\0';
	}
	if (bracket) {
		char *end = strchr(s, ']');

		if (!end)
			return fail(e, "'%s' lacks its ']'", s);
		*end = '\0';
		host = s + 1;
		s = end + 1;
		if (!strchr(host, ':'))
			return fail(e, "'[%s]' is no IPv6 address", host);
		if (*s == '/') {
			length = s + 1;
			s = length + strcspn(length, ":");
		}
		if (*s && *s != ':')
			return fail(e, "'%s' after ']' is not understood", s);
		colon = *s ? s : NULL;
	} else {
		colon = strchr(s, ':');
		if (colon && strchr(colon + 1, ':'))
			colon = NULL; /* IPv6, no ports */
	}
	if (colon) {
		*colon = '\0';
		if (strcmp(colon + 1, "*") && parse_ports(r, colon + 1, e))
			return -1;
	}
	slash = strchr(host, '/');
	if (slash) {
		if (length)
			return fail(e, "two prefix lengths");
		*slash = '\0';
		length = slash + 1;
	}
	if (r->has_ports && !(r->protos & (EGRESS_TCP | EGRESS_UDP)))
		return fail(e, "icmp has no ports");
	if (parse_address(r, host)) {
		if (length && parse_length(r, length, !strchr(host, ':'), e))
			return -1;
		return finish_address(r, host, e);
	}
	if (length || bracket)
		return fail(e, "'%s' is no address", host);
	return parse_name(r, host, name, e);
}

static int keep(struct egress_policy *p, struct egress_rule *r, const char *text, size_t n, const char *name,
		struct egress_error *e)
{
	size_t name_size = *name ? strlen(name) + 1 : 0;

	if (p->count % 16 == 0) {
		struct egress_rule *more = realloc(p->rule, (p->count + 16) * sizeof(*more));

		if (!more)
			return fail(e, "out of memory");
		p->rule = more;
	}
	r->text = malloc(n + 1 + name_size);
	if (!r->text)
		return fail(e, "out of memory");
	memcpy(r->text, text, n);
	r->text[n] = '\0';
	if (name_size)
		r->name = memcpy(r->text + n + 1, name, name_size);
	p->rule[p->count++] = *r;
	return 0;
}

int egress_policy_add(struct egress_policy *p, const char *text, size_t n, struct egress_error *e)
{
	struct egress_rule r = { .protos = EGRESS_ANY };
	char buf[EGRESS_TEXT_MAX + 1], name[EGRESS_NAME_SIZE] = "", *s = buf;

	while (n && is_blank(*text)) {
		text++;
		n--;
	}
	while (n && is_blank(text[n - 1]))
		n--;
	if (!n)
		return fail(e, "an empty rule");
	if (n > EGRESS_TEXT_MAX)
		return fail(e, "a rule of %zu bytes is too long", n);
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)text[i] < ' ' || (unsigned char)text[i] > '~') {
			if (text[i] != '\t')
				return fail(e, "byte 0x%02x has no place in a rule", (unsigned char)text[i]);
		}
	if (p->count >= EGRESS_RULES_MAX)
		return fail(e, "more than %u rules", EGRESS_RULES_MAX);
	memcpy(buf, text, n);
	buf[n] = '\0';
	char *blank = buf + strcspn(buf, " \t");

	if (*blank) {
		*blank = '\0';
		if (!strcmp(buf, "deny"))
			r.deny = 1;
		else if (strcmp(buf, "allow"))
			return fail(e, "'%s' is neither allow nor deny", buf);
		s = blank + 1 + strspn(blank + 1, " \t");
		if (strpbrk(s, " \t"))
			return fail(e, "more than one target in a rule");
	}
	if (parse_target(&r, s, name, e))
		return -1;
	return keep(p, &r, text, n, name, e);
}

int egress_policy_text(struct egress_policy *p, const char *text, size_t n, struct egress_error *e)
{
	size_t at = 0;

	e->line = 0;
	while (at < n) {
		const char *nl = memchr(text + at, '\n', n - at);
		size_t end = nl ? (size_t)(nl - text) : n, from = at;
		const char *hash = memchr(text + at, '#', end - at);
		size_t stop = hash ? (size_t)(hash - text) : end;

		at = end + 1;
		e->line++;
		while (from < stop && is_blank(text[from]))
			from++;
		if (from < stop && egress_policy_add(p, text + from, stop - from, e))
			return -1;
	}
	return 0;
}
