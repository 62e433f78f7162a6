/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the scripts of tests/packet: what one TCP endpoint says, packet by packet, in simulated time. The
 * language is in tests/packet/README.md. Our sequence numbers count from our SYN's, as 0.
 */
#include <check.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/netstack/sim.h"

#define PEER_PORT 4000
#define OUR_PORT 80
#define SLACK_NS 2000000u

struct out {
	struct list_head node;
	uint64_t at;
	struct pkt *p;
};

struct run {
	struct sim *m;
	struct list_head out;
	struct endpoint *listener, *ep;
	uint32_t iss;
	int have_iss;
	uint16_t peer_port;
	uint32_t last_ts; /* of ours, for ecr */
	const char *file;
	int line;
};

static struct run *g_run;

#define FAIL(...)                                                                       \
	do {                                                                            \
		char why_[400];                                                         \
		snprintf(why_, sizeof(why_), __VA_ARGS__);                              \
		ck_abort_msg("%s:%d: %s", g_run->file, g_run->line, why_);              \
	} while (0)

static void capture(struct nic *n, struct pkt *p)
{
	struct out *o = malloc(sizeof(*o));

	(void)n;
	p->csum_ok = 0;
	ck_assert_int_eq(pkt_linearise(p), 0);
	o->at = g_sim->now;
	o->p = p;
	list_add_tail(&o->node, &g_run->out);
}

/* "S", "S.", ".", "P.", "F.", "R", "R.", "U." */
static uint8_t flags_from(const char *s)
{
	uint8_t f = 0;

	for (; *s; s++)
		f |= *s == 'S' ? TCP_SYN : *s == '.' ? TCP_ACK : *s == 'P' ? TCP_PSH : *s == 'F' ? TCP_FIN :
		     *s == 'R' ? TCP_RST : *s == 'U' ? TCP_URG : 0;
	return f;
}

static void flags_text(uint8_t f, char *to)
{
	static const struct {
		uint8_t bit;
		char c;
	} names[] = { { TCP_FIN, 'F' }, { TCP_SYN, 'S' }, { TCP_RST, 'R' }, { TCP_PSH, 'P' }, { TCP_URG, 'U' }, { TCP_ACK, '.' } };

	for (size_t i = 0; i < 6; i++)
		if (f & names[i].bit)
			*to++ = names[i].c;
	*to = 0;
}

static uint8_t *put32(uint8_t *p, uint32_t v)
{
	v = htonl(v);
	memcpy(p, &v, 4);
	return p + 4;
}

static void inject(struct run *r, const char *args)
{
	char flags[16], rest[256] = "";
	uint32_t seq, end, len, ack = 0, win = 0, urg = 0, a, b;
	int n = 0;

	if (sscanf(args, "%15s %u:%u(%u)%n", flags, &seq, &end, &len, &n) < 4)
		FAIL("cannot read '%s'", args);
	strncpy(rest, args + n, sizeof(rest) - 1);
	uint8_t opts[40], *o = opts;
	char *p;

	if ((p = strstr(rest, "ack ")))
		ack = (uint32_t)strtoul(p + 4, NULL, 10) + r->iss;
	if ((p = strstr(rest, "win ")))
		win = (uint32_t)strtoul(p + 4, NULL, 10);
	if ((p = strstr(rest, "urg ")))
		urg = (uint32_t)strtoul(p + 4, NULL, 10);
	if ((p = strstr(rest, "mss "))) {
		uint32_t v = (uint32_t)strtoul(p + 4, NULL, 10);

		*o++ = 2;
		*o++ = 4;
		*o++ = (uint8_t)(v >> 8);
		*o++ = (uint8_t)v;
	}
	if (strstr(rest, "sackOK")) {
		*o++ = 4;
		*o++ = 2;
		*o++ = 1;
		*o++ = 1;
	}
	if ((p = strstr(rest, "ts "))) {
		*o++ = 1;
		*o++ = 1;
		*o++ = 8;
		*o++ = 10;
		o = put32(o, (uint32_t)strtoul(p + 3, NULL, 10));
		o = put32(o, r->last_ts);
	}
	if ((p = strstr(rest, "wscale "))) {
		*o++ = 1;
		*o++ = 3;
		*o++ = 3;
		*o++ = (uint8_t)strtoul(p + 7, NULL, 10);
	}
	if ((p = strstr(rest, "sack ")) && sscanf(p, "sack %u:%u", &a, &b) == 2) {
		*o++ = 1;
		*o++ = 1;
		*o++ = 5;
		*o++ = 10;
		o = put32(o, a + r->iss);
		o = put32(o, b + r->iss);
	}
	uint32_t on = (uint32_t)(o - opts);
	uint8_t body[70000];

	for (uint32_t i = 0; i < len; i++)
		body[i] = (uint8_t)(seq + i);
	struct pkt *k = pkt_from_mem(body, len);
	struct tcp_hdr *h = pkt_push(k, (uint32_t)sizeof(*h) + on);

	memcpy(h + 1, opts, on);
	h->sport = htons(r->peer_port);
	h->dport = htons(OUR_PORT);
	h->seq = htonl(seq);
	h->ack = htonl(ack);
	h->off = (uint8_t)((20 + on) / 4 << 4);
	h->flags = flags_from(flags);
	h->window = htons((uint16_t)win);
	h->csum = 0;
	h->urgent = htons((uint16_t)urg);
	struct ip_addr src = sim_addr(1, 0), dst = sim_addr(0, 0);

	h->csum = csum_transport(k, &src, &dst, IPPROTO_TCP);
	struct ip_out io = { .src = src, .dst = dst, .proto = IPPROTO_TCP, .ttl = 64 };

	ip_push_v4(r->m->s[0], k, &io, 1, 0);
	struct eth_hdr *e = pkt_push(k, sizeof(*e));

	memcpy(e->dst, r->m->n[0]->mac, 6);
	memcpy(e->src, r->m->n[1]->mac, 6);
	e->type = htons(ETH_IPV4);
	ck_assert_int_eq(pkt_linearise(k), 0);
	stack_lock(r->m->s[0]);
	nic_input(r->m->n[0], k);
	stack_unlock(r->m->s[0]);
}

static void expect(struct run *r, const char *args)
{
	char flags[16], got_flags[16];
	uint32_t seq, end, len, a, b;
	int n = 0;
	const char *p;

	if (sscanf(args, "%15s %u:%u(%u)%n", flags, &seq, &end, &len, &n) < 4)
		FAIL("cannot read '%s'", args);
	if (list_empty(&r->out))
		FAIL("expected '%s', nothing was sent", args);
	struct out *o = list_first(&r->out, struct out, node);
	uint64_t at = o->at;
	struct pkt *k = o->p;

	list_del(&o->node);
	free(o);
	ck_assert(pkt_pull(k, sizeof(struct eth_hdr)) != NULL);
	struct ipv4_hdr *ih = pkt_pull(k, sizeof(*ih));

	ck_assert(ih != NULL);
	struct ip_addr src = ip_from_v4(ih->src), dst = ip_from_v4(ih->dst);

	if (csum_transport(k, &src, &dst, IPPROTO_TCP))
		FAIL("bad checksum");
	struct tcp_hdr h;
	struct tcp_opts opt;
	uint8_t ob[40];

	memcpy(&h, pkt_pull(k, sizeof(h)), sizeof(h));
	uint32_t on = (uint32_t)(h.off >> 4) * 4 - 20;

	pkt_copy(k, 0, ob, on);
	pkt_trim_front(k, on);
	ck_assert_int_eq(tcp_parse_options(ob, on, &opt), 0);
	if ((h.flags & TCP_SYN) || !r->have_iss) {
		r->iss = ntohl(h.seq);
		r->have_iss = (h.flags & TCP_SYN) != 0;
	}
	if (opt.has_ts)
		r->last_ts = opt.ts_val;
	uint32_t gseq = r->have_iss ? ntohl(h.seq) - r->iss : ntohl(h.seq);

	flags_text(h.flags, got_flags);
	if (h.flags != flags_from(flags) || gseq != seq || k->len != len)
		FAIL("expected '%s', sent '%s %u:%u(%u) ack %u win %u'", args, got_flags, gseq, gseq + k->len, k->len,
		     ntohl(h.ack), ntohs(h.window));
	if ((p = strstr(args + n, "ack ")) && ntohl(h.ack) != (uint32_t)strtoul(p + 4, NULL, 10))
		FAIL("expected '%s', acknowledged %u", args, ntohl(h.ack));
	if ((p = strstr(args + n, "win ")) && ntohs(h.window) != strtoul(p + 4, NULL, 10))
		FAIL("expected '%s', window %u", args, ntohs(h.window));
	if ((p = strstr(args + n, "mss ")) && opt.mss != strtoul(p + 4, NULL, 10))
		FAIL("expected '%s', mss %u", args, opt.mss);
	if (strstr(args + n, "sackOK") && !opt.sack_perm)
		FAIL("expected '%s', SACK not offered", args);
	if (strstr(args + n, "nosackOK") && opt.sack_perm)
		FAIL("expected '%s', SACK offered", args);
	if ((p = strstr(args + n, "sack ")) && sscanf(p, "sack %u:%u", &a, &b) == 2 &&
	    (!opt.sack_count || opt.sack[0].start != a || opt.sack[0].end != b))
		FAIL("expected '%s', SACK %u of %u:%u", args, opt.sack_count, opt.sack[0].start, opt.sack[0].end);
	if (at + SLACK_NS < r->m->now)
		FAIL("expected '%s' now, it was sent %.3f s ago", args, (double)(r->m->now - at) / 1e9);
	pkt_free(k);
}

static void drop_output(struct run *r)
{
	while (!list_empty(&r->out)) {
		struct out *o = list_first(&r->out, struct out, node);

		list_del(&o->node);
		pkt_free(o->p);
		free(o);
	}
}

static void command(struct run *r, char *cmd)
{
	char word[32];
	long v = 0;
	static uint8_t buf[1 << 20];

	if (cmd[0] == '<') {
		inject(r, cmd + 1);
		return;
	}
	if (cmd[0] == '>') {
		expect(r, cmd + 1);
		return;
	}
	if (sscanf(cmd, "%31s %ld", word, &v) < 1)
		FAIL("empty command");
	if (!strcmp(word, "listen")) {
		struct ip_addr any = ip_from_v4(0);

		r->listener = endpoint_new(r->m->s[0], EP_TCP, 0, IPPROTO_TCP);
		ck_assert_int_eq(endpoint_bind(r->listener, &any, OUR_PORT), 0);
		ck_assert_int_eq(endpoint_listen(r->listener, 5), 0);
	} else if (!strcmp(word, "connect")) {
		struct ip_addr any = ip_from_v4(0), to = sim_addr(1, 0);

		r->ep = endpoint_new(r->m->s[0], EP_TCP, 0, IPPROTO_TCP);
		ck_assert_int_eq(endpoint_bind(r->ep, &any, OUR_PORT), 0);
		ck_assert_int_eq(endpoint_connect(r->ep, &to, PEER_PORT), -EINPROGRESS);
	} else if (!strcmp(word, "accept")) {
		r->ep = endpoint_accept(r->listener);
		if (IS_ERR(r->ep)) {
			r->ep = NULL;
			FAIL("nothing to accept");
		}
	} else if (!strcmp(word, "write")) {
		if (ep_write(r->ep, buf, (size_t)v) != v)
			FAIL("short write");
	} else if (!strcmp(word, "read")) {
		ssize_t n = ep_read(r->ep, buf, sizeof(buf));

		if (n != v)
			FAIL("read gave %zd", n);
	} else if (!strcmp(word, "close")) {
		endpoint_close(r->ep);
		r->ep = NULL;
	} else if (!strcmp(word, "shutdown")) {
		endpoint_shutdown(r->ep, 2);
	} else if (!strcmp(word, "nothing")) {
		if (!list_empty(&r->out)) {
			expect(r, "? 0:0(0)");
		}
	} else if (!strcmp(word, "sysctl")) {
		char name[32];

		if (sscanf(cmd, "sysctl %31s %ld", name, &v) != 2)
			FAIL("sysctl NAME VALUE");
		stack_lock(r->m->s[0]);
		if (!strcmp(name, "max_syn_backlog"))
			stack_sysctl(r->m->s[0])->max_syn_backlog = (uint32_t)v;
		else if (!strcmp(name, "syncookies"))
			stack_sysctl(r->m->s[0])->syncookies = (uint32_t)v;
		else
			FAIL("unknown sysctl '%s'", name);
		stack_unlock(r->m->s[0]);
	} else if (!strcmp(word, "flood")) {
		for (long i = 0; i < v; i++) {
			r->peer_port = (uint16_t)(PEER_PORT + 1 + i);
			inject(r, "S 1:1(0) win 1000 mss 1460");
		}
		r->peer_port = PEER_PORT;
		drop_output(r);
	} else if (!strcmp(word, "state")) {
		if (endpoint_tcp_state(r->ep) != v)
			FAIL("state is %d", endpoint_tcp_state(r->ep));
	} else if (!strcmp(word, "error")) {
		int e = endpoint_take_error(r->ep);

		if (e != v)
			FAIL("error is %d", e);
	} else if (!strcmp(word, "option")) {
		char name[32];

		if (sscanf(cmd, "option %31s %ld", name, &v) != 2)
			FAIL("option NAME VALUE");
		stack_lock(r->m->s[0]);
		struct ep_opts *o = &(r->ep ? r->ep : r->listener)->o;

		if (!strcmp(name, "nodelay"))
			o->nodelay = (uint8_t)v;
		else if (!strcmp(name, "cork"))
			o->cork = (uint8_t)v;
		else if (!strcmp(name, "keepalive"))
			o->keepalive = (uint8_t)v;
		else if (!strcmp(name, "keepidle"))
			o->keepidle_s = (uint32_t)v;
		else if (!strcmp(name, "keepintvl"))
			o->keepintvl_s = (uint32_t)v;
		else if (!strcmp(name, "keepcnt"))
			o->keepcnt = (uint32_t)v;
		else if (!strcmp(name, "linger")) {
			o->linger_on = 1;
			o->linger_s = (int)v;
		} else if (!strcmp(name, "rcvbuf")) {
			o->rcvbuf = (int)v;
			o->rcvbuf_locked = 1;
		}
		endpoint_options(r->ep ? r->ep : r->listener);
		stack_unlock(r->m->s[0]);
	} else {
		FAIL("unknown command '%s'", word);
	}
}

static void run_script(const char *file)
{
	struct run r = { .file = file, .peer_port = PEER_PORT };
	FILE *f = fopen(file, "r");
	char line[512];

	ck_assert_ptr_nonnull(f);
	g_run = &r;
	list_init(&r.out);
	r.m = sim_new(77, 1500);
	r.m->n[0]->xmit = capture;
	struct ip_addr peer = sim_addr(1, 0);

	stack_lock(r.m->s[0]);
	neigh_add(r.m->n[0], &peer, r.m->n[1]->mac);
	stack_unlock(r.m->s[0]);
	while (fgets(line, sizeof(line), f)) {
		double wait = 0;
		int n = 0;

		r.line++;
		line[strcspn(line, "#\n")] = 0;
		if (sscanf(line, " +%lf %n", &wait, &n) < 1) {
			if (strspn(line, " \t") != strlen(line))
				FAIL("a line starts with +SECONDS");
			continue;
		}
		sim_run(r.m, (uint64_t)(wait * 1e9));
		command(&r, line + n);
	}
	fclose(f);
	drop_output(&r);
	if (r.ep)
		endpoint_close(r.ep);
	if (r.listener)
		endpoint_close(r.listener);
	sim_run(r.m, 2000ull * 1000000000u);
	drop_output(&r);
	sim_free(r.m);
}

START_TEST(test_scripts)
{
	const char *dir = getenv("PACKET_SCRIPTS");
	char pattern[512];
	glob_t g;

	snprintf(pattern, sizeof(pattern), "%s/*.script", dir ? dir : "tests/packet");
	ck_assert_msg(glob(pattern, 0, NULL, &g) == 0, "no scripts in %s", pattern);
	for (size_t i = 0; i < g.gl_pathc; i++)
		run_script(g.gl_pathv[i]);
	globfree(&g);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("packet");
	TCase *t = tcase_create("all");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, test_scripts);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);

	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);

	srunner_free(r);
	return failed != 0;
}
