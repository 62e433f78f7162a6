/* SPDX-License-Identifier: Apache-2.0 */
/* Ids, groups and capabilities. Most of it needs root, in the sandbox or outside. */
#include <grp.h>
#include <linux/capability.h>
#include <stdint.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/guest.h"

/* Runs fn in a child, so that no change of ids outlives it. */
static int in_child(int (*fn)(void))
{
	int st;
	pid_t p = fork();

	if (!p)
		_exit(fn());
	waitpid(p, &st, 0);
	return WIFEXITED(st) ? WEXITSTATUS(st) : 1000 + WTERMSIG(st);
}

struct caps {
	uint32_t e[2], p[2], i[2];
};

static int get_caps(struct caps *c)
{
	struct __user_cap_header_struct h = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct d[2];

	if (syscall(SYS_capget, &h, d))
		return -1;
	for (int i = 0; i < 2; i++) {
		c->e[i] = d[i].effective;
		c->p[i] = d[i].permitted;
		c->i[i] = d[i].inheritable;
	}
	return 0;
}

static long set_caps(const struct caps *c)
{
	struct __user_cap_header_struct h = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct d[2];

	for (int i = 0; i < 2; i++)
		d[i] = (struct __user_cap_data_struct){ c->e[i], c->p[i], c->i[i] };
	return syscall(SYS_capset, &h, d);
}

static int resuid_is(uid_t r, uid_t e, uid_t s)
{
	uid_t a, b, c;

	return getresuid(&a, &b, &c) == 0 && a == r && b == e && c == s;
}

#define TRY(n, cond)          \
	do {                  \
		if (!(cond))  \
			return n; \
	} while (0)

static int setuid_root(void)
{
	struct caps c;

	TRY(1, setuid(1000) == 0 && resuid_is(1000, 1000, 1000));
	TRY(2, get_caps(&c) == 0 && !c.p[0] && !c.e[0]);
	TRY(3, setuid(0) == -1 && errno == EPERM);
	TRY(4, setuid(1000) == 0);
	TRY(5, setuid((uid_t)-1) == -1 && errno == EINVAL);
	return 0;
}

static int seteuid_and_back(void)
{
	struct caps c;

	TRY(1, seteuid(1000) == 0 && resuid_is(0, 1000, 0));
	TRY(2, get_caps(&c) == 0 && c.p[0] && !c.e[0]);
	TRY(3, seteuid(0) == 0 && get_caps(&c) == 0 && c.e[0]);
	return 0;
}

static int setreuid_rules(void)
{
	TRY(1, setreuid(1000, 2000) == 0 && resuid_is(1000, 2000, 2000));
	TRY(2, setreuid(2000, 1000) == 0 && resuid_is(2000, 1000, 1000));
	TRY(3, setreuid(3000, (uid_t)-1) == -1 && errno == EPERM);
	TRY(4, setreuid((uid_t)-1, (uid_t)-1) == 0);
	return 0;
}

static int setresuid_rules(void)
{
	TRY(1, setresuid(1, 2, 3) == 0 && resuid_is(1, 2, 3));
	TRY(2, setresuid(3, 1, 2) == 0 && resuid_is(3, 1, 2));
	TRY(3, setresuid(4, (uid_t)-1, (uid_t)-1) == -1 && errno == EPERM);
	TRY(4, setresuid((uid_t)-1, (uid_t)-1, 1) == 0 && resuid_is(3, 1, 1));
	return 0;
}

static int gid_rules(void)
{
	gid_t r, e, s;

	TRY(1, setresgid(10, 20, 30) == 0 && getresgid(&r, &e, &s) == 0 && r == 10 && e == 20 && s == 30);
	TRY(2, setresuid(1000, 1000, 1000) == 0);
	TRY(3, setgid(30) == 0 && getresgid(&r, &e, &s) == 0 && r == 10 && e == 30 && s == 30);
	TRY(4, setgid(40) == -1 && errno == EPERM);
	TRY(5, setregid(30, 10) == 0);
	return 0;
}

static int fsuid_rules(void)
{
	TRY(1, setfsuid(1000) == 0 && setfsuid((uid_t)-1) == 1000);
	TRY(2, setfsgid(1000) == 0 && setfsgid((gid_t)-1) == 1000);
	TRY(3, setfsuid(0) == 1000);
	return 0;
}

static int groups(void)
{
	gid_t in[3] = { 30, 10, 20 }, out[3];

	TRY(1, setgroups(3, in) == 0);
	TRY(2, getgroups(0, NULL) == 3);
	TRY(3, getgroups(2, out) == -1 && errno == EINVAL);
	TRY(4, getgroups(3, out) == 3 && out[0] + out[1] + out[2] == 60);
	TRY(5, setgroups(0, NULL) == 0 && getgroups(0, NULL) == 0);
	TRY(6, setgroups(65537, in) == -1 && errno == EINVAL);
	TRY(7, setuid(1000) == 0 && setgroups(0, NULL) == -1 && errno == EPERM);
	return 0;
}

static int caps_rules(void)
{
	struct caps c, d;

	TRY(1, get_caps(&c) == 0 && c.p[0]);
	d = c;
	d.e[0] &= ~(1u << CAP_SYS_ADMIN);
	TRY(2, set_caps(&d) == 0);
	d.e[0] = c.e[0];
	TRY(3, set_caps(&d) == 0); /* still permitted */
	d.p[0] &= ~(1u << CAP_SYS_ADMIN);
	d.e[0] = d.p[0];
	TRY(4, set_caps(&d) == 0);
	TRY(5, set_caps(&c) == -1 && errno == EPERM); /* what was given up is gone */
	d.e[0] |= 1u << CAP_SYS_ADMIN;
	TRY(6, set_caps(&d) == -1 && errno == EPERM);
	return 0;
}

static int keep_caps(void)
{
	struct caps c;

	TRY(1, prctl(PR_SET_KEEPCAPS, 1) == 0 && setuid(1000) == 0);
	TRY(2, get_caps(&c) == 0 && c.p[0] && !c.e[0]);
	return 0;
}

static int bounding(void)
{
	TRY(1, prctl(PR_CAPBSET_READ, CAP_KILL) == 1);
	TRY(2, prctl(PR_CAPBSET_DROP, CAP_KILL) == 0 && prctl(PR_CAPBSET_READ, CAP_KILL) == 0);
	TRY(3, prctl(PR_CAPBSET_READ, 1000) == -1 && errno == EINVAL);
	return 0;
}

static int ambient(void)
{
	struct caps c;

	TRY(1, prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_KILL, 0, 0) == -1 && errno == EPERM);
	TRY(2, get_caps(&c) == 0);
	c.i[0] |= 1u << CAP_KILL;
	TRY(3, set_caps(&c) == 0);
	TRY(4, prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_KILL, 0, 0) == 0);
	TRY(5, prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, CAP_KILL, 0, 0) == 1);
	TRY(6, prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) == 0);
	TRY(7, prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, CAP_KILL, 0, 0) == 0);
	return 0;
}

static void test_headers(void)
{
	struct __user_cap_header_struct h = { 0x12345, 0 };
	struct __user_cap_data_struct d[2];

	CHECK_ERRNO("unknown version", syscall(SYS_capget, &h, d), EINVAL);
	CHECK("the right one is told", h.version == _LINUX_CAPABILITY_VERSION_3);
	h.version = 0;
	CHECK("asking for the version", syscall(SYS_capget, &h, NULL) == 0 &&
						 h.version == _LINUX_CAPABILITY_VERSION_3);
	h.pid = 3999999;
	CHECK_ERRNO("nobody's", syscall(SYS_capget, &h, d), ESRCH);
	h.pid = -1;
	CHECK_ERRNO("negative pid", syscall(SYS_capget, &h, d), EINVAL);
	CHECK_ERRNO("bad pointer", syscall(SYS_getresuid, 8, 8, 8), EFAULT);
}

int main(void)
{
	static const struct {
		const char *name;
		int (*fn)(void);
	} tests[] = {
		{ "setuid by root", setuid_root },
		{ "seteuid and back", seteuid_and_back },
		{ "setreuid", setreuid_rules },
		{ "setresuid", setresuid_rules },
		{ "group ids", gid_rules },
		{ "setfsuid, setfsgid", fsuid_rules },
		{ "supplementary groups", groups },
		{ "capset", caps_rules },
		{ "keepcaps", keep_caps },
		{ "bounding set", bounding },
		{ "ambient set", ambient },
	};

	test_headers();
	if (getuid() != 0) {
		printf("# not root: the rest is skipped\n");
		return guest_done();
	}
	for (size_t i = 0; i < sizeof(tests) / sizeof(*tests); i++) {
		int r = in_child(tests[i].fn);

		if (r)
			printf("# %s stopped at step %d\n", tests[i].name, r);
		CHECK(tests[i].name, r == 0);
	}
	return guest_done();
}
