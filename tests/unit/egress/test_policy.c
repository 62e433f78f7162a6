/* SPDX-License-Identifier: Apache-2.0 */
/* Rules, names, addresses and what follows from them. Tables: a policy, a question, the answer. */
#include <arpa/inet.h>
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "netstack/egress/address.h"
#include "netstack/egress/bindings.h"
#include "netstack/egress/bucket.h"
#include "netstack/egress/flows.h"
#include "netstack/egress/name.h"
#include "netstack/egress/policy.h"

#define SECOND 1000000000ull

static struct ip_addr ip(const char *s)
{
	struct ip_addr a;
	uint32_t v4;

	if (inet_pton(AF_INET, s, &v4) == 1)
		return ip_from_v4(v4);
	ck_assert_msg(inet_pton(AF_INET6, s, &a) == 1, "%s", s);
	return a;
}

static struct egress_policy *policy(const char *text)
{
	struct egress_policy *p = egress_policy_new();
	struct egress_error e;

	ck_assert_msg(!egress_policy_text(p, text, strlen(text), &e), "%s: %s", text, e.text);
	return p;
}

static const struct {
	const char *rules, *to;
	int proto, port; /* port 0: not known */
	int allowed;
	const char *rule;
} g_decisions[] = {
	{ "", "192.0.2.1", 6, 443, 0, "default" },
	{ "192.0.2.0/24", "192.0.2.1", 6, 443, 1, "192.0.2.0/24" },
	{ "192.0.2.0/24", "192.0.3.1", 6, 443, 0, "default" },
	{ "192.0.2.0/24:443", "192.0.2.1", 6, 80, 0, "default" },
	{ "192.0.2.0/24:443", "192.0.2.1", 17, 443, 1, NULL },
	{ "192.0.2.0/24:443/tcp", "192.0.2.1", 17, 443, 0, NULL },
	{ "192.0.2.0/24:80-90/tcp", "192.0.2.1", 6, 90, 1, NULL },
	{ "192.0.2.0/24:80-90/tcp", "192.0.2.1", 6, 91, 0, NULL },
	{ "192.0.2.0/24:80-90/tcp", "192.0.2.1", 6, 0, 0, NULL }, /* a later fragment */
	{ "192.0.2.0/24", "192.0.2.1", 6, 0, 1, NULL },
	{ "192.0.2.1/icmp", "192.0.2.1", 1, 0, 1, NULL },
	{ "192.0.2.1/icmp", "192.0.2.1", 6, 80, 0, NULL },
	{ "192.0.2.1:80", "192.0.2.1", 1, 0, 0, NULL },
	{ "192.0.2.1/tcp", "192.0.2.1", 47, 0, 0, NULL },
	{ "192.0.2.1", "192.0.2.1", 47, 0, 1, NULL },
	/* The families do not stand for each other, but IPv4 inside IPv6 is IPv4. */
	{ "::/0", "192.0.2.1", 6, 80, 0, "default" },
	{ "::/0", "2001:db8::1", 6, 80, 1, NULL },
	{ "0.0.0.0/0", "2001:db8::1", 6, 80, 0, NULL },
	{ "::/0", "64:ff9b::192.0.2.1", 6, 80, 0, NULL },
	{ "::/0", "2002:c000:201::1", 6, 80, 0, NULL },
	{ "::/0", "::192.0.2.1", 6, 80, 0, NULL },
	{ "::/0", "::ffff:0:192.0.2.1", 6, 80, 0, NULL },
	{ "::/0", "2001:0:c000:201::3fff:fdfd", 6, 80, 0, NULL },
	{ "192.0.2.1", "64:ff9b::192.0.2.1", 6, 80, 1, "192.0.2.1" },
	{ "192.0.2.1", "2002:c000:201::1", 6, 80, 1, NULL },
	/* Teredo: server 192.0.2.1, client 192.0.2.2 (inverted): both must be allowed. */
	{ "192.0.2.1", "2001:0:c000:201:0:0:3fff:fdfd", 6, 80, 0, NULL },
	{ "192.0.2.1\n192.0.2.2", "2001:0:c000:201:0:0:3fff:fdfd", 6, 80, 1, NULL },
	{ "::ffff:192.0.2.0/120", "192.0.2.7", 6, 80, 1, NULL },
	{ "0.0.0.0/0", "64:ff9b::10.0.0.1", 6, 80, 0, "private" },
	{ "0.0.0.0/0", "64:ff9b::169.254.169.254", 6, 80, 0, "metadata" },
	{ "0.0.0.0/0", "2002:a9fe:a9fe::1", 6, 80, 0, "metadata" },
	/* Special ranges: only when listed. */
	{ "0.0.0.0/0", "192.0.2.1", 6, 80, 1, NULL },
	{ "0.0.0.0/0", "10.1.2.3", 6, 80, 0, "private" },
	{ "0.0.0.0/0", "172.31.255.255", 6, 80, 0, "private" },
	{ "0.0.0.0/0", "172.32.0.1", 6, 80, 1, NULL },
	{ "0.0.0.0/0", "192.168.0.1", 6, 80, 0, "private" },
	{ "0.0.0.0/0", "100.64.0.1", 6, 80, 0, "private" },
	{ "0.0.0.0/0", "127.0.0.1", 6, 80, 0, "loopback" },
	{ "0.0.0.0/0", "169.254.169.254", 6, 80, 0, "metadata" },
	{ "0.0.0.0/0", "168.63.129.16", 6, 80, 0, "metadata" },
	{ "0.0.0.0/0", "224.0.0.251", 17, 5353, 0, "multicast" },
	{ "0.0.0.0/0", "255.255.255.255", 17, 67, 0, "broadcast" },
	{ "0.0.0.0/0", "0.0.0.0", 6, 80, 0, "this network" },
	{ "::/0", "::1", 6, 80, 0, "loopback" },
	{ "::/0", "fd00:ec2::254", 6, 80, 0, "metadata" },
	{ "::/0", "fd12::1", 6, 80, 0, "private" },
	{ "::/0", "fe80::1", 6, 80, 0, "link-local" },
	{ "::/0", "ff02::1", 17, 5353, 0, "multicast" },
	{ "fc00::/7", "fd12::1", 6, 80, 1, NULL },
	{ "fc00::/7", "fd00:ec2::254", 6, 80, 0, "metadata" },
	{ "fd00:ec2::254", "fd00:ec2::254", 6, 80, 1, NULL },
	{ "10.0.0.0/8", "10.1.2.3", 6, 80, 1, NULL },
	{ "8.0.0.0/6", "10.1.2.3", 6, 80, 0, "private" }, /* holds it, but does not name it */
	{ "169.254.169.254:80", "169.254.169.254", 6, 80, 1, NULL },
	{ "100.64.0.0/10", "100.100.100.200", 6, 80, 0, "metadata" },
	/* deny wins, in any order */
	{ "192.0.2.0/24\ndeny 192.0.2.9", "192.0.2.9", 6, 80, 0, "deny 192.0.2.9" },
	{ "deny 192.0.2.9:25\nallow 192.0.2.0/24", "192.0.2.9", 6, 80, 1, NULL },
	{ "deny 192.0.2.9:25\nallow 192.0.2.0/24", "192.0.2.9", 6, 25, 0, NULL },
	{ "deny 192.0.2.9:25\nallow 192.0.2.0/24", "::ffff:192.0.2.9", 6, 25, 0, NULL },
	{ "[2001:db8::]/32:443", "2001:db8::5", 6, 443, 1, NULL },
	{ "[2001:db8::]/32:443", "2001:db8::5", 6, 80, 0, NULL },
	{ "[2001:db8::/32]:443/tcp", "2001:db8::5", 17, 443, 0, NULL },
};

START_TEST(test_addresses_are_judged)
{
	for (size_t i = 0; i < sizeof(g_decisions) / sizeof(*g_decisions); i++) {
		struct egress_policy *p = policy(g_decisions[i].rules);
		struct egress_target t = { ip(g_decisions[i].to), (uint8_t)g_decisions[i].proto,
					   g_decisions[i].port != 0, (uint16_t)g_decisions[i].port };
		struct egress_verdict v;
		int r = egress_decide(p, NULL, &t, 1, &v);

		ck_assert_msg(r == g_decisions[i].allowed && r == v.allowed, "row %zu: %s to %s: %s", i,
			      g_decisions[i].rules, g_decisions[i].to, v.rule);
		if (g_decisions[i].rule)
			ck_assert_str_eq(v.rule, g_decisions[i].rule);
		egress_policy_free(p);
	}
}
END_TEST

static const char *const g_bad[] = {
	"192.0.2.0/33", "192.0.2.1/24", "192.0.2.0/", "192.0.2.0/x", "192.0.2.256", "192.0.2", "1.2.3.4.5", "0x7f.1",
	"192.0.2.1:0", "192.0.2.1:65536", "192.0.2.1:80-", "192.0.2.1:90-80", "192.0.2.1:http", "192.0.2.1:80/sctp",
	"192.0.2.1:80/icmp", "[2001:db8::1", "[192.0.2.1]:80", "[2001:db8::1]x", "2001:db8::g", "::1/129", "",
	"64:ff9b::1.2.3.4", "2002::/16", "2001:0::/32", "a..b", ".a", "a b", "permit a", "allow a b", "*", "*.",
	"a*.example", "*.*.example", "ex_mple.c\xc3\xb6m", "http://example.com", "example.com/24", "user@example.com",
	"example.com:", "[2001:db8::/32]/32", "a\x01" "b", "example.com\x7f",
	"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.example",
};

START_TEST(test_bad_rules_are_refused_with_their_line)
{
	for (size_t i = 0; i < sizeof(g_bad) / sizeof(*g_bad); i++) {
		struct egress_policy *p = egress_policy_new();
		struct egress_error e = { 0 };
		char text[400];

		ck_assert_msg(egress_policy_add(p, g_bad[i], strlen(g_bad[i]), &e) == -1, "'%s' was taken", g_bad[i]);
		ck_assert_msg(e.text[0], "'%s' without a reason", g_bad[i]);
		if (*g_bad[i]) {
			int n = snprintf(text, sizeof(text), "# comment\n\nallow example.com # fine\n%s\n", g_bad[i]);

			ck_assert_int_eq(egress_policy_text(p, text, (size_t)n, &e), -1);
			ck_assert_uint_eq(e.line, 4);
		}
		egress_policy_free(p);
	}
	struct egress_policy *p = egress_policy_new();
	struct egress_error e;

	ck_assert_int_eq(egress_policy_add(p, "exa\0mple.com", 12, &e), -1);
	egress_policy_free(p);
}
END_TEST

static const struct {
	const char *rules, *name;
	int allowed;
} g_names[] = {
	{ "example.com", "example.com", 1 },
	{ "example.com", "EXAMPLE.com.", 1 },
	{ "EXAMPLE.Com.", "example.com", 1 },
	{ "example.com", "www.example.com", 0 },
	{ "example.com", "badexample.com", 0 },
	{ "example.com", "example.com.evil.net", 0 },
	{ "example.com", "example.co", 0 },
	{ "example.com", "xample.com", 0 },
	{ "*.example.com", "example.com", 0 },
	{ "*.example.com", "a.example.com", 1 },
	{ "*.example.com", "a.b.example.com", 1 },
	{ "*.example.com", "badexample.com", 0 },
	{ "*.example.com", "example.com.evil.net", 0 },
	{ "*.example.com\ndeny ads.example.com", "ads.example.com", 0 },
	{ "*.example.com\ndeny *.ads.example.com", "x.ads.example.com", 0 },
	{ "example.com:443", "example.com", 1 },
	{ "192.0.2.0/24", "example.com", 0 },
	{ "", "example.com", 0 },
	{ "example.com", "xn--exmple-cua.com", 0 },
};

START_TEST(test_names_are_compared_whole)
{
	char canon[EGRESS_NAME_SIZE];

	for (size_t i = 0; i < sizeof(g_names) / sizeof(*g_names); i++) {
		struct egress_policy *p = policy(g_names[i].rules);

		ck_assert(!egress_name_canon(g_names[i].name, strlen(g_names[i].name), canon));
		ck_assert_msg(egress_name_allowed(p, canon, NULL) == g_names[i].allowed, "row %zu: %s", i,
			      g_names[i].name);
		egress_policy_free(p);
	}
	ck_assert(egress_name_canon("example.com\0.evil", 17, canon));
	ck_assert(egress_name_canon("example.com..", 13, canon));
	ck_assert(egress_name_canon(".", 1, canon));
	ck_assert(egress_name_canon("2130706433", 10, canon));
	ck_assert(egress_name_canon("127.1", 5, canon));
	ck_assert(egress_name_canon("exam ple.com", 12, canon));
}
END_TEST

START_TEST(test_a_name_opens_its_addresses_for_a_while)
{
	struct egress_policy *p = policy("example.com:443/tcp\n*.cdn.example\n10.0.0.5:80\ndeny x.cdn.example:25");
	struct egress_bindings *b = egress_bindings_new(64);
	struct egress_target t = { ip("192.0.2.1"), IPPROTO_TCP, 1, 443 };
	struct ip_addr a = ip("192.0.2.1"), private = ip("10.0.0.5");
	struct egress_verdict v;
	const char *why;

	ck_assert(!egress_decide(p, b, &t, SECOND, &v));
	ck_assert(!egress_bindings_add(b, "example.com", &a, SECOND, 5));
	ck_assert(egress_decide(p, b, &t, SECOND, &v));
	ck_assert_str_eq(v.name, "example.com");
	ck_assert_str_eq(v.rule, "example.com:443/tcp");
	t.port = 80;
	ck_assert(!egress_decide(p, b, &t, SECOND, &v));
	ck_assert_str_eq(v.name, "example.com");
	t.port = 443;
	t.proto = IPPROTO_UDP;
	ck_assert(!egress_decide(p, b, &t, SECOND, &v));
	t.proto = IPPROTO_TCP;
	ck_assert(egress_decide(p, b, &t, (1 + EGRESS_TTL_MIN_S - 1) * SECOND, &v));
	ck_assert(!egress_decide(p, b, &t, (1 + EGRESS_TTL_MIN_S) * SECOND, &v));
	/* A second name for the same address. */
	ck_assert(!egress_bindings_add(b, "x.cdn.example", &a, SECOND, 1u << 30));
	t.port = 8080;
	ck_assert(egress_decide(p, b, &t, 100 * SECOND, &v));
	t.port = 25;
	ck_assert(!egress_decide(p, b, &t, 100 * SECOND, &v));
	t.port = 8080;
	ck_assert(!egress_decide(p, b, &t, (2 + EGRESS_TTL_MAX_S) * SECOND, &v));
	/* A name that the policy no longer has opens nothing. */
	struct egress_policy *other = policy("example.org");

	ck_assert(!egress_decide(other, b, &t, 100 * SECOND, &v));
	/* Rebinding: a listed private address may be an answer, but only its own rule opens it. */
	ck_assert(egress_answer_allowed(p, &private, &why));
	ck_assert(!egress_answer_allowed(other, &private, &why));
	ck_assert_str_eq(why, "private");
	struct ip_addr meta = ip("169.254.169.254"), nat64 = ip("64:ff9b::127.0.0.1");

	ck_assert(!egress_answer_allowed(p, &meta, &why));
	ck_assert(!egress_answer_allowed(p, &nat64, &why));
	ck_assert(!egress_bindings_add(b, "x.cdn.example", &private, SECOND, 3600));
	t = (struct egress_target){ private, IPPROTO_TCP, 1, 22 };
	ck_assert(!egress_decide(p, b, &t, 2 * SECOND, &v));
	t.port = 80;
	ck_assert(egress_decide(p, b, &t, 2 * SECOND, &v));
	egress_policy_free(p);
	egress_policy_free(other);
	egress_bindings_free(b);
}
END_TEST

START_TEST(test_bindings_are_bounded)
{
	struct egress_bindings *b = egress_bindings_new(16);
	uint32_t cursor;

	for (uint32_t i = 0; i < 1000; i++) {
		struct ip_addr a = ip_from_v4(htonl(0xc0000200u + i));

		ck_assert(!egress_bindings_add(b, "example.com", &a, i * SECOND, 3600));
		ck_assert_uint_le(egress_bindings_count(b), 16);
		cursor = 0;
		ck_assert(egress_bindings_name(b, &a, i * SECOND, &cursor));
		ck_assert(!egress_bindings_name(b, &a, i * SECOND, &cursor));
	}
	struct ip_addr old = ip("192.0.2.1");

	cursor = 0;
	ck_assert(!egress_bindings_name(b, &old, 0, &cursor));
	egress_bindings_free(b);
}
END_TEST

START_TEST(test_answers_go_back_to_who_asked)
{
	struct egress_flows *f = egress_flows_new(7);
	struct egress_flow w = { ip("192.0.2.2"), ip("198.51.100.1"), 53, 4000, IPPROTO_UDP }, other = w;

	ck_assert(!egress_flows_open(f, &w, SECOND));
	egress_flows_seen(f, &w, SECOND);
	ck_assert(egress_flows_open(f, &w, 30 * SECOND));
	other.remote_port++;
	ck_assert(!egress_flows_open(f, &other, 30 * SECOND));
	other = w;
	other.local_port++;
	ck_assert(!egress_flows_open(f, &other, 30 * SECOND));
	ck_assert(!egress_flows_open(f, &w, SECOND + EGRESS_FLOW_LIFE_NS));
	egress_flows_seen(f, &w, 70 * SECOND);
	ck_assert(egress_flows_open(f, &w, 80 * SECOND));
	egress_flows_clear(f);
	ck_assert(!egress_flows_open(f, &w, 80 * SECOND));
	egress_flows_free(f);
}
END_TEST

START_TEST(test_buckets_keep_their_rate)
{
	struct egress_bucket b;
	uint64_t now = SECOND, got = 0;

	egress_bucket_init(&b, 1000, 100, now);
	for (int i = 0; i < 100000; i++, now += 100000) /* ten seconds in steps of 0.1 ms */
		got += (uint64_t)egress_bucket_take(&b, 1, now);
	ck_assert_uint_ge(got, 10000);
	ck_assert_uint_le(got, 10101);
	ck_assert(egress_bucket_take(&b, 1000000, now + 20 * SECOND)); /* all there is */
	ck_assert(!egress_bucket_take(&b, 1, now + 20 * SECOND));
	egress_bucket_init(&b, 0, 0, now);
	ck_assert(egress_bucket_take(&b, UINT64_MAX, now));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("policy");
	TCase *t = tcase_create("all");

	tcase_add_test(t, test_addresses_are_judged);
	tcase_add_test(t, test_bad_rules_are_refused_with_their_line);
	tcase_add_test(t, test_names_are_compared_whole);
	tcase_add_test(t, test_a_name_opens_its_addresses_for_a_while);
	tcase_add_test(t, test_bindings_are_bounded);
	tcase_add_test(t, test_answers_go_back_to_who_asked);
	tcase_add_test(t, test_buckets_keep_their_rate);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);

	srunner_set_fork_status(r, CK_NOFORK);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);

	srunner_free(r);
	return failed != 0;
}
