/* SPDX-License-Identifier: Apache-2.0 */
/*
 * linux.seccomp: compiled to classic BPF here, run by the sentry's own interpreter on the guest's
 * calls. The sandbox has one architecture; rules for others have nothing to act on.
 */
#include <errno.h>
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/spec.h"

#define PROGRAM_MAX (4096u * 8u)

static int action_of(const char *name, uint32_t err, uint32_t *out)
{
	static const struct {
		const char *name;
		uint32_t action;
	} table[] = {
		{ "SCMP_ACT_KILL", SCMP_ACT_KILL },	  { "SCMP_ACT_KILL_THREAD", SCMP_ACT_KILL },
		{ "SCMP_ACT_KILL_PROCESS", SCMP_ACT_KILL_PROCESS },
		{ "SCMP_ACT_TRAP", SCMP_ACT_TRAP },	  { "SCMP_ACT_ALLOW", SCMP_ACT_ALLOW },
		{ "SCMP_ACT_LOG", SCMP_ACT_LOG },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
		if (!strcmp(name, table[i].name)) {
			*out = table[i].action;
			return 0;
		}
	if (!strcmp(name, "SCMP_ACT_ERRNO"))
		*out = SCMP_ACT_ERRNO(err);
	else if (!strcmp(name, "SCMP_ACT_TRACE"))
		*out = SCMP_ACT_TRACE(err);
	else
		return -1;
	return 0;
}

static int op_of(const char *name, enum scmp_compare *out)
{
	static const struct {
		const char *name;
		enum scmp_compare op;
	} table[] = {
		{ "SCMP_CMP_NE", SCMP_CMP_NE }, { "SCMP_CMP_LT", SCMP_CMP_LT }, { "SCMP_CMP_LE", SCMP_CMP_LE },
		{ "SCMP_CMP_EQ", SCMP_CMP_EQ }, { "SCMP_CMP_GE", SCMP_CMP_GE }, { "SCMP_CMP_GT", SCMP_CMP_GT },
		{ "SCMP_CMP_MASKED_EQ", SCMP_CMP_MASKED_EQ },
	};

	for (size_t i = 0; name && i < sizeof(table) / sizeof(*table); i++)
		if (!strcmp(name, table[i].name)) {
			*out = table[i].op;
			return 0;
		}
	return -1;
}

static int read_args(struct json_object *rule, const char *at, struct scmp_arg_cmp *args, unsigned *n,
		     struct spec_error *e)
{
	struct json_object *list;

	*n = 0;
	if (spec_want(rule, at, "args", json_type_array, &list, e))
		return -1;
	for (size_t i = 0; list && i < json_object_array_length(list); i++) {
		struct json_object *a = json_object_array_get_idx(list, i), *v, *w;
		struct scmp_arg_cmp *c = &args[*n];
		int64_t index = -1;
		const char *op;

		if (*n == 6 || !json_object_is_type(a, json_type_object))
			return spec_fail(e, at, "args[%zu]: too many, or not an object", i);
		if (spec_int(a, at, "index", 0, 5, &index, e) || spec_text(a, at, "op", &op, e) ||
		    spec_want(a, at, "value", json_type_int, &v, e) ||
		    spec_want(a, at, "valueTwo", json_type_int, &w, e))
			return -1;
		if (index < 0 || op_of(op, &c->op))
			return spec_fail(e, at, "args[%zu]: no index, or unknown op", i);
		c->arg = (unsigned)index;
		c->datum_a = v ? json_object_get_uint64(v) : 0;
		c->datum_b = w ? json_object_get_uint64(w) : 0;
		(*n)++;
	}
	return 0;
}

/* Several conditions on one argument mean "any of them": one rule each. */
static int same_argument_twice(const struct scmp_arg_cmp *args, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		for (unsigned j = i + 1; j < n; j++)
			if (args[i].arg == args[j].arg)
				return 1;
	return 0;
}

static int add_call(scmp_filter_ctx ctx, uint32_t action, const char *name, const struct scmp_arg_cmp *args,
		    unsigned n)
{
	int nr = seccomp_syscall_resolve_name(name), err = 0;

	if (nr == __NR_SCMP_ERROR || nr < 0)
		return 0; /* of another architecture, or of a kernel to come */
	if (!same_argument_twice(args, n))
		err = seccomp_rule_add_array(ctx, action, nr, n, args);
	else
		for (unsigned i = 0; i < n && !err; i++)
			err = seccomp_rule_add_array(ctx, action, nr, 1, &args[i]);
	return err == -EEXIST ? 0 : err;
}

static int add_rule(scmp_filter_ctx ctx, uint32_t dflt, struct json_object *rule, size_t i, uint32_t dflt_err,
		    struct spec_error *e)
{
	struct scmp_arg_cmp args[6];
	struct json_object *names;
	const char *action_name;
	uint32_t action;
	int64_t ret = dflt_err ? dflt_err : EPERM;
	unsigned n;
	size_t count;
	char at[64];

	snprintf(at, sizeof(at), "linux.seccomp.syscalls[%zu]", i);
	if (!json_object_is_type(rule, json_type_object))
		return spec_fail(e, at, "must be a JSON object");
	if (!spec_get(rule, "errnoRet"))
		ret = EPERM;
	if (spec_text(rule, at, "action", &action_name, e) || spec_strings(rule, at, "names", &names, &count, e) ||
	    spec_int(rule, at, "errnoRet", 0, 4095, &ret, e) || read_args(rule, at, args, &n, e))
		return -1;
	if (!action_name || action_of(action_name, (uint32_t)ret, &action))
		return spec_fail(e, at, "action: '%s' is not supported", action_name ? action_name : "");
	if (action == dflt)
		return 0;
	for (size_t j = 0; j < count; j++) {
		int err = add_call(ctx, action, spec_item(names, j), args, n);

		if (err)
			return spec_fail(e, at, "%s: %s", spec_item(names, j), strerror(-err));
	}
	return 0;
}

static int export(scmp_filter_ctx ctx, struct bootconf *out, struct spec_error *e)
{
	static const char digits[] = "0123456789abcdef";
	unsigned char *prog = malloc(PROGRAM_MAX);
	char *hex = malloc(2 * PROGRAM_MAX + 1);
	int fd = memfd_create("seccomp", MFD_CLOEXEC), err = -1;
	ssize_t n = -1;

	if (prog && hex && fd >= 0 && seccomp_export_bpf(ctx, fd) == 0 && lseek(fd, 0, SEEK_END) <= (off_t)PROGRAM_MAX)
		n = pread(fd, prog, PROGRAM_MAX, 0);
	if (n > 0) {
		for (ssize_t i = 0; i < n; i++) {
			hex[2 * i] = digits[prog[i] >> 4];
			hex[2 * i + 1] = digits[prog[i] & 15];
		}
		hex[2 * n] = '\0';
		err = spec_add(out, "linux.seccomp", "seccomp", hex, e);
	} else {
		spec_fail(e, "linux.seccomp", "can not be compiled, or is too long");
	}
	if (fd >= 0)
		close(fd);
	free(prog);
	free(hex);
	return err;
}

int spec_seccomp(struct json_object *o, struct bootconf *out, struct spec_error *e)
{
	const char *dflt_name, *listener;
	struct json_object *rules;
	int64_t dflt_err = 0;
	uint32_t dflt;
	int err = 0;

	if (spec_text(o, "linux.seccomp", "defaultAction", &dflt_name, e) ||
	    spec_text(o, "linux.seccomp", "listenerPath", &listener, e) ||
	    spec_int(o, "linux.seccomp", "defaultErrnoRet", 0, 4095, &dflt_err, e) ||
	    spec_want(o, "linux.seccomp", "syscalls", json_type_array, &rules, e))
		return -1;
	if (listener)
		return spec_fail(e, "linux.seccomp.listenerPath", "is not supported");
	if (!dflt_name || action_of(dflt_name, dflt_err ? (uint32_t)dflt_err : EPERM, &dflt))
		return spec_fail(e, "linux.seccomp.defaultAction", "'%s' is not supported",
				 dflt_name ? dflt_name : "");
	scmp_filter_ctx ctx = seccomp_init(dflt);

	if (!ctx)
		return spec_fail(e, "linux.seccomp", "out of memory");
	for (size_t i = 0; rules && !err && i < json_object_array_length(rules); i++)
		err = add_rule(ctx, dflt, json_object_array_get_idx(rules, i), i, (uint32_t)dflt_err, e);
	if (!err && seccomp_attr_set(ctx, SCMP_FLTATR_CTL_NNP, 0))
		err = spec_fail(e, "linux.seccomp", "can not be compiled");
	if (!err)
		seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	if (!err)
		err = export(ctx, out, e);
	seccomp_release(ctx);
	return err;
}
