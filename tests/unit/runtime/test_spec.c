/* SPDX-License-Identifier: Apache-2.0 */
/* config.json: what it becomes, and that every mistake names its place. */
#include "runtime/spec.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROCESS "\"args\":[\"sh\"],\"cwd\":\"/\""

/* A configuration with a root that exists; `process` and `rest` are pasted in. */
static int parse(struct spec *s, const char *process, const char *rest, struct spec_error *e)
{
	char text[8192];

	snprintf(text, sizeof(text), "{\"ociVersion\":\"1.0.2\",\"root\":{\"path\":\"/tmp\"},\"process\":{%s}%s%s}", process,
		 *rest ? "," : "", rest);
	memset(s, 0, sizeof(*s));
	return spec_parse(s, text, strlen(text), "/", e);
}

static void refused(const char *process, const char *rest, const char *path)
{
	struct spec_error e;
	struct spec s;

	ck_assert_msg(parse(&s, process, rest, &e) != 0, "taken: %s %s", process, rest);
	ck_assert_msg(strstr(e.text, path) != NULL, "'%s' does not name %s", e.text, path);
	spec_free(&s);
}

static void has(const struct spec *s, const char *key, const char *value)
{
	const char *got = bootconf_get(&s->sentry, key);

	ck_assert_msg(got && !strcmp(got, value), "%s is '%s', not '%s'", key, got ? got : "(absent)", value);
}

START_TEST(a_process_becomes_keys)
{
	struct spec_error e;
	struct spec s;

	ck_assert_msg(parse(&s,
			    PROCESS ",\"env\":[\"A=b\"],\"noNewPrivileges\":true,"
				    "\"user\":{\"uid\":4294967294,\"gid\":5,\"umask\":63,\"additionalGids\":[1,2]},"
				    "\"capabilities\":{\"bounding\":[\"CAP_CHOWN\",\"CAP_KILL\",\"CAP_NEVER\"]},"
				    "\"rlimits\":[{\"type\":\"RLIMIT_CORE\",\"soft\":0,\"hard\":18446744073709551615}]",
			    "\"hostname\":\"h\"", &e) == 0,
		      "%s", e.text);
	has(&s, "arg", "sh");
	has(&s, "env", "A=b");
	has(&s, "cwd", "/");
	has(&s, "uid", "4294967294");
	has(&s, "gid", "5");
	has(&s, "umask", "63");
	has(&s, "groups", "1,2");
	has(&s, "no_new_privs", "1");
	has(&s, "caps_bounding", "0x21");
	has(&s, "caps_inheritable", "0x0");
	has(&s, "rlimit", "RLIMIT_CORE:0:18446744073709551615");
	has(&s, "hostname", "h");
	has(&s, "mount", "gofer\t0\t/\trw");
	spec_free(&s);
}
END_TEST

START_TEST(mistakes_in_the_process_name_their_place)
{
	refused("\"cwd\":\"/\"", "", "process");
	refused("\"args\":[],\"cwd\":\"/\"", "", "process");
	refused("\"args\":[1],\"cwd\":\"/\"", "", "process.args");
	refused("\"args\":\"sh\",\"cwd\":\"/\"", "", "process.args");
	refused("\"args\":[\"a\\u0000b\"],\"cwd\":\"/\"", "", "process.args");
	refused("\"args\":[\"sh\"],\"cwd\":\"tmp\"", "", "process");
	refused("\"args\":[\"sh\"]", "", "process");
	refused(PROCESS ",\"user\":{\"uid\":-1}", "", "process.user.uid");
	refused(PROCESS ",\"user\":{\"uid\":4294967295}", "", "process.user.uid");
	refused(PROCESS ",\"user\":{\"uid\":18446744073709551616}", "", "process.user.uid");
	refused(PROCESS ",\"user\":{\"uid\":\"0\"}", "", "process.user.uid");
	refused(PROCESS ",\"user\":{\"uid\":1.5}", "", "process.user.uid");
	refused(PROCESS ",\"user\":{\"umask\":512}", "", "process.user.umask");
	refused(PROCESS ",\"user\":{\"additionalGids\":[-1]}", "", "additionalGids[0]");
	refused(PROCESS ",\"user\":{\"username\":\"root\"}", "", "process.user");
	refused(PROCESS ",\"rlimits\":[{\"type\":\"RLIMIT_FOO\",\"soft\":1,\"hard\":1}]", "", "process.rlimits[0]");
	refused(PROCESS ",\"rlimits\":[{\"type\":\"RLIMIT_CPU\",\"soft\":2,\"hard\":1}]", "", "process.rlimits[0]");
	refused(PROCESS ",\"rlimits\":[7]", "", "process.rlimits[0]");
	refused(PROCESS ",\"capabilities\":[]", "", "process.capabilities");
	refused(PROCESS ",\"terminal\":\"yes\"", "", "process.terminal");
	refused(PROCESS ",\"consoleSize\":{\"height\":70000}", "", "process.consoleSize.height");
	refused(PROCESS ",\"oomScoreAdj\":1001", "", "process.oomScoreAdj");
}
END_TEST

START_TEST(mistakes_elsewhere_name_their_place)
{
	refused(PROCESS, "\"mounts\":{}", "mounts");
	refused(PROCESS, "\"mounts\":[null]", "mounts[0]");
	refused(PROCESS, "\"mounts\":[{\"type\":\"proc\"}]", "mounts[0]");
	refused(PROCESS, "\"mounts\":[{\"type\":\"nfs\",\"destination\":\"/x\"}]", "mounts[0]: type");
	refused(PROCESS, "\"mounts\":[{\"type\":\"tmpfs\",\"destination\":\"/x\\ty\"}]", "mounts[0]");
	refused(PROCESS, "\"mounts\":[{\"type\":\"tmpfs\",\"destination\":\"/x\",\"options\":[\"a,b\"]}]", "mounts[0]");
	refused(PROCESS, "\"mounts\":[{\"type\":\"tmpfs\",\"destination\":\"/x\",\"options\":[\"wat\"]}]", "options[0]");
	refused(PROCESS, "\"mounts\":[{\"type\":\"bind\",\"destination\":\"/x\"}]", "mounts[0]: source");
	refused(PROCESS, "\"mounts\":[{\"type\":\"bind\",\"destination\":\"/x\",\"source\":\"/no/such\"}]", "mounts[0]: source");
	refused(PROCESS, "\"linux\":[]", "linux");
	refused(PROCESS, "\"linux\":{\"intelRdt\":{}}", "linux.intelRdt");
	refused(PROCESS, "\"linux\":{\"namespaces\":[{\"type\":\"x\"}]}", "linux.namespaces[0]");
	refused(PROCESS, "\"linux\":{\"namespaces\":[{\"type\":\"mount\",\"path\":\"/proc/1/ns/mnt\"}]}", "linux.namespaces[0]");
	refused(PROCESS, "\"linux\":{\"namespaces\":[{\"type\":\"network\",\"path\":\"x\"}]}", "linux.namespaces[0]");
	refused(PROCESS, "\"linux\":{\"maskedPaths\":[\"etc\"]}", "linux.maskedPaths");
	refused(PROCESS, "\"linux\":{\"devices\":[{\"path\":\"x\",\"type\":\"c\"}]}", "linux.devices[0]");
	refused(PROCESS, "\"linux\":{\"devices\":[{\"path\":\"/x\",\"type\":\"q\"}]}", "linux.devices[0]");
	refused(PROCESS, "\"linux\":{\"sysctl\":{\"kernel.core_pattern\":\"x\"}}", "linux.sysctl[\"kernel.core_pattern\"]");
	refused(PROCESS, "\"linux\":{\"sysctl\":{\"net.x=1\\nkernel.core_pattern\":\"x\"}}", "linux.sysctl");
	refused(PROCESS, "\"linux\":{\"sysctl\":{\"net/../kernel/core_pattern\":\"x\"}}", "linux.sysctl");
	refused(PROCESS, "\"linux\":{\"sysctl\":{\"net.x\":\"1\\n2\"}}", "linux.sysctl");
	refused(PROCESS, "\"linux\":{\"sysctl\":{\"net.x\":1}}", "linux.sysctl");
	refused(PROCESS, "\"linux\":{\"seccomp\":{}}", "linux.seccomp.defaultAction");
	refused(PROCESS, "\"linux\":{\"seccomp\":{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":[{\"action\":\"X\"}]}}",
		"linux.seccomp.syscalls[0]");
	refused(PROCESS, "\"linux\":{\"uidMappings\":[{\"containerID\":0}]}", "linux.uidMappings");
	refused(PROCESS, "\"linux\":{\"resources\":{\"memory\":{\"limit\":\"1g\"}}}", "linux.resources.memory.limit");
	refused(PROCESS, "\"hooks\":{\"createContainer\":[{}]}", "hooks.createContainer");
	refused(PROCESS, "\"hostname\":7", "hostname");
}
END_TEST

START_TEST(mounts_become_lines)
{
	struct spec_error e;
	struct spec s;
	size_t pos = 0;

	ck_assert_msg(parse(&s, PROCESS,
			    "\"mounts\":[{\"destination\":\"/dev\",\"type\":\"tmpfs\",\"options\":[\"nosuid\",\"mode=755\"]},"
			    "{\"destination\":\"/v\",\"source\":\"/usr\",\"options\":[\"rbind\",\"rslave\",\"ro\"]},"
			    "{\"destination\":\"/sys/fs/cgroup\",\"type\":\"cgroup\",\"options\":[\"ro\",\"whatever\"]}]", &e) == 0,
		      "%s", e.text);
	bootconf_next(&s.sentry, "mount", &pos);
	ck_assert_str_eq(bootconf_next(&s.sentry, "mount", &pos), "devtmpfs\ttmpfs\t/dev\tnosuid,mode=755");
	ck_assert_str_eq(bootconf_next(&s.sentry, "mount", &pos), "gofer\t1\t/v\tro");
	ck_assert_str_eq(bootconf_next(&s.sentry, "mount", &pos), "cgroup2\tcgroup\t/sys/fs/cgroup\tro");
	pos = 0;
	ck_assert_str_eq(bootconf_next(&s.gofer, "attach", &pos), "0\t/tmp\trw\t");
	ck_assert_str_eq(bootconf_next(&s.gofer, "attach", &pos), "1\t/usr\tro\t");
	spec_free(&s);
}
END_TEST

START_TEST(text_that_is_no_configuration_is_an_error)
{
	static const char *const texts[] = { "", "{", "[]", "null", "\"x\"", "{\"a\":", "{}", "{\"ociVersion\":\"2.0\"}",
					     "{\"ociVersion\":\"1.0\"}", "{\"ociVersion\":\"1.0\",\"process\":[]}" };
	char deep[4096];

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		struct spec_error e;
		struct spec s = { 0 };

		ck_assert_int_ne(spec_parse(&s, texts[i], strlen(texts[i]), "/", &e), 0);
		ck_assert_int_ne(e.text[0], 0);
		spec_free(&s);
	}
	memset(deep, '[', sizeof(deep));
	struct spec_error e;
	struct spec s = { 0 };

	ck_assert_int_ne(spec_parse(&s, deep, sizeof(deep), "/", &e), 0);
	spec_free(&s);
}
END_TEST

START_TEST(seccomp_is_compiled)
{
	struct spec_error e;
	struct spec s;

	ck_assert_msg(parse(&s, PROCESS,
			    "\"linux\":{\"seccomp\":{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"defaultErrnoRet\":38,\"syscalls\":["
			    "{\"names\":[\"read\",\"write\",\"no_such_call\"],\"action\":\"SCMP_ACT_ALLOW\"},"
			    "{\"names\":[\"personality\"],\"action\":\"SCMP_ACT_ALLOW\",\"args\":["
			    "{\"index\":0,\"value\":18446744073709551615,\"op\":\"SCMP_CMP_EQ\"}]}]}}", &e) == 0,
		      "%s", e.text);
	const char *hex = bootconf_get(&s.sentry, "seccomp");

	ck_assert_ptr_nonnull(hex);
	ck_assert_uint_eq(strlen(hex) % 16, 0);
	spec_free(&s);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("spec");
	TCase *c = tcase_create("config.json");
	SRunner *r = srunner_create(s);

	tcase_add_test(c, a_process_becomes_keys);
	tcase_add_test(c, mistakes_in_the_process_name_their_place);
	tcase_add_test(c, mistakes_elsewhere_name_their_place);
	tcase_add_test(c, mounts_become_lines);
	tcase_add_test(c, text_that_is_no_configuration_is_an_error);
	tcase_add_test(c, seccomp_is_compiled);
	suite_add_tcase(s, c);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);

	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
