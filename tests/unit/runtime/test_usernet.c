/* SPDX-License-Identifier: Apache-2.0 */
/* What --publish accepts, and how it is read. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>

#include "runtime/usernet.h"

static const struct {
	const char *text, *host; /* host NULL: refused */
	unsigned host_port, guest_port, udp;
} g_rows[] = {
	{ "80:80", "", 80, 80, 0 },
	{ "0:80", "", 0, 80, 0 },
	{ "8080:80/udp", "", 8080, 80, 1 },
	{ "8080:80/tcp", "", 8080, 80, 0 },
	{ "127.0.0.1:65535:1", "127.0.0.1", 65535, 1, 0 },
	{ "[::1]:53:53/udp", "::1", 53, 53, 1 },
	{ "", NULL, 0, 0, 0 },
	{ "80", NULL, 0, 0, 0 },
	{ ":", NULL, 0, 0, 0 },
	{ ":80", NULL, 0, 0, 0 },
	{ "80:", NULL, 0, 0, 0 },
	{ "80:0", NULL, 0, 0, 0 },
	{ "65536:80", NULL, 0, 0, 0 },
	{ "80:65536", NULL, 0, 0, 0 },
	{ "80:80:80", NULL, 0, 0, 0 },
	{ "::1:80:80", NULL, 0, 0, 0 },
	{ ":80:80", NULL, 0, 0, 0 },
	{ "[::1]80:80", NULL, 0, 0, 0 },
	{ "[::1:80:80", NULL, 0, 0, 0 },
	{ "[127.0.0.1]:80:80", NULL, 0, 0, 0 },
	{ "256.0.0.1:80:80", NULL, 0, 0, 0 },
	{ "localhost:80:80", NULL, 0, 0, 0 },
	{ "80:80/sctp", NULL, 0, 0, 0 },
	{ "80:80/", NULL, 0, 0, 0 },
	{ "80/udp:80", NULL, 0, 0, 0 },
	{ "+80:80", NULL, 0, 0, 0 },
	{ " 80:80", NULL, 0, 0, 0 },
	{ "0x50:80", NULL, 0, 0, 0 },
	{ "80:80 ", NULL, 0, 0, 0 },
	{ "[1111111111111111111111111111111111111111111111111111]:1:1", NULL, 0, 0, 0 },
};

START_TEST(test_publish_rows)
{
	for (size_t i = 0; i < sizeof(g_rows) / sizeof(*g_rows); i++) {
		struct publish p;
		int err = publish_parse(g_rows[i].text, &p);

		ck_assert_msg(err == (g_rows[i].host ? 0 : -EINVAL), "%s: %d", g_rows[i].text, err);
		if (err)
			continue;
		ck_assert_str_eq(p.host, g_rows[i].host);
		ck_assert_uint_eq(p.host_port, g_rows[i].host_port);
		ck_assert_uint_eq(p.guest_port, g_rows[i].guest_port);
		ck_assert_uint_eq((unsigned)p.udp, g_rows[i].udp);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("usernet");
	TCase *t = tcase_create("all");

	tcase_add_test(t, test_publish_rows);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);

	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);

	srunner_free(r);
	return failed != 0;
}
