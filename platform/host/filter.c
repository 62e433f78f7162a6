/* SPDX-License-Identifier: Apache-2.0 */
/* Rule tables to seccomp filters, by libseccomp. */
#include "platform/host/filter.h"

#include <errno.h>
#include <seccomp.h>

#include "platform/base/log.h"

static int add_rule(scmp_filter_ctx ctx, const struct host_filter_rule *r)
{
	struct scmp_arg_cmp cmp[HOST_FILTER_MAX_ARGS];
	int nr = r->name ? seccomp_syscall_resolve_name(r->name) : r->nr;

	if (nr == __NR_SCMP_ERROR) {
		log_error("host filter: libseccomp does not know \"%s\"", r->name);
		return -ENOSYS;
	}
	if (r->arg_count > HOST_FILTER_MAX_ARGS)
		return -EINVAL;
	for (unsigned int i = 0; i < r->arg_count; i++) {
		const struct host_filter_arg *a = &r->arg[i];

		if (a->index > 5)
			return -EINVAL;
		cmp[i].arg = a->index;
		cmp[i].datum_a = a->value;
		cmp[i].datum_b = 0;
		switch (a->op) {
		case HOST_ARG_EQ:
			cmp[i].op = SCMP_CMP_EQ;
			break;
		case HOST_ARG_LE:
			cmp[i].op = SCMP_CMP_LE;
			break;
		case HOST_ARG_NE:
			cmp[i].op = SCMP_CMP_NE;
			break;
		case HOST_ARG_MASKED:
			cmp[i].op = SCMP_CMP_MASKED_EQ;
			cmp[i].datum_a = a->mask;
			cmp[i].datum_b = a->value;
			break;
		default:
			return -EINVAL;
		}
	}
	return seccomp_rule_add_array(ctx, SCMP_ACT_ALLOW, nr, r->arg_count, cmp);
}

/* Before lockdown. */
int host_filter_install(const struct host_filter_rule *rules, size_t count, int otherwise)
{
	uint32_t action = otherwise > 0 ? SCMP_ACT_ERRNO((uint32_t)otherwise)
					: SCMP_ACT_KILL_PROCESS;
	scmp_filter_ctx ctx = seccomp_init(action);
	int ret = ctx ? 0 : -ENOMEM;

	if (!ret)
		ret = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_NNP, 1);
	if (!ret)
		ret = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_TSYNC, 1);
	if (!ret)
		ret = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
	/* A balanced tree: the sentry's hot calls do not depend on their place in the table. */
	if (!ret)
		ret = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	for (size_t i = 0; i < count && !ret; i++)
		ret = add_rule(ctx, &rules[i]);
	if (!ret)
		ret = seccomp_load(ctx);
	if (ctx)
		seccomp_release(ctx);
	return ret;
}
