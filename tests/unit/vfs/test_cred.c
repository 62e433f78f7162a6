/* SPDX-License-Identifier: Apache-2.0 */
/* Credentials and the permission table they meet. */
#include <linux/capability.h>

#include "tests/unit/vfs/fixture.h"

START_TEST(groups_are_found)
{
	uint32_t groups[] = {50, 7, 4000000000u, 7};
	struct cred *c = cred_new(1, 2, 0), *d;

	ck_assert_int_eq(cred_set_groups(c, groups, 4), 0);
	ck_assert(cred_in_group(c, 7) && cred_in_group(c, 50) && cred_in_group(c, 4000000000u));
	ck_assert(cred_in_group(c, 2) && !cred_in_group(c, 8) && !cred_in_group(c, 0));
	ck_assert_int_eq(cred_set_groups(c, groups, NGROUPS_LIMIT + 1), -EINVAL);
	d = cred_dup(c);
	ck_assert_int_eq(cred_set_groups(c, NULL, 0), 0);
	ck_assert(!cred_in_group(c, 7) && cred_in_group(d, 7));
	cred_put(c);
	cred_put(d);
}
END_TEST

static const struct {
	uint32_t mode, uid, gid; /* of the file; the caller is 1000:1000 */
	uint64_t caps;
	uint32_t mask;
	int result;
} g_checks[] = {
	{S_IFREG | 0600, 1000, 0, 0, MAY_READ | MAY_WRITE, 0},
	{S_IFREG | 0077, 1000, 1000, 0, MAY_READ, -EACCES}, /* the owner's bits are what counts */
	{S_IFREG | 0407, 0, 1000, 0, MAY_READ, -EACCES},    /* and then the group's */
	{S_IFREG | 0040, 0, 1000, 0, MAY_READ, 0},
	{S_IFREG | 0004, 0, 0, 0, MAY_READ, 0},
	{S_IFREG | 0004, 0, 0, 0, MAY_READ | MAY_WRITE, -EACCES},
	{S_IFREG | 0000, 0, 0, CAP_BIT(CAP_DAC_OVERRIDE), MAY_READ | MAY_WRITE, 0},
	{S_IFREG | 0000, 0, 0, CAP_BIT(CAP_DAC_OVERRIDE), MAY_EXEC, -EACCES},
	{S_IFREG | 0100, 0, 0, CAP_BIT(CAP_DAC_OVERRIDE), MAY_EXEC, 0},
	{S_IFREG | 0000, 0, 0, CAP_BIT(CAP_DAC_READ_SEARCH), MAY_READ, 0},
	{S_IFREG | 0000, 0, 0, CAP_BIT(CAP_DAC_READ_SEARCH), MAY_WRITE, -EACCES},
	{S_IFDIR | 0000, 0, 0, CAP_BIT(CAP_DAC_READ_SEARCH), MAY_READ | MAY_EXEC, 0},
	{S_IFDIR | 0000, 0, 0, CAP_BIT(CAP_DAC_READ_SEARCH), MAY_WRITE, -EACCES},
	{S_IFDIR | 0000, 0, 0, CAP_BIT(CAP_DAC_OVERRIDE), MAY_WRITE | MAY_EXEC, 0},
};

START_TEST(permission_table)
{
	struct path p;

	fix_create("/x");
	ck_assert_int_eq(vfs_lookup(&g_ctx, NULL, "/x", 0, &p), 0);
	for (size_t i = 0; i < sizeof(g_checks) / sizeof(g_checks[0]); i++) {
		struct inode fake = *p.dentry->inode;
		struct cred *c = cred_new(1000, 1000, g_checks[i].caps);
		int r;

		fake.mode = g_checks[i].mode;
		fake.uid = g_checks[i].uid;
		fake.gid = g_checks[i].gid;
		r = vfs_generic_permission(&fake, g_checks[i].mask, c);
		ck_assert_msg(r == g_checks[i].result, "row %zu: %d", i, r);
		cred_put(c);
	}
	path_put(p);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("cred");
	TCase *tc = tcase_create("all");

	tcase_add_checked_fixture(tc, fix_setup, fix_teardown);
	tcase_add_test(tc, groups_are_found);
	tcase_add_test(tc, permission_table);
	suite_add_tcase(s, tc);
	return fix_run(s);
}
