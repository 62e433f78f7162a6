/* SPDX-License-Identifier: Apache-2.0 */
/* The result record of result.h. */
#include "runtime/result.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "runtime/error.h"

static const char *const g_reasons[] = { "ok",	    "nonzero",	   "signaled",	    "timeout",
					 "oom",	    "setup-error", "internal-error" };

void result_from_message(struct result *r, const struct bootconf *msg)
{
	const char *reason = bootconf_get(msg, "reason");
	const char *text = bootconf_get(msg, "message");
	uint64_t code = 0, sig = 0;

	memset(r, 0, sizeof(*r));
	snprintf(r->reason, sizeof(r->reason), "internal-error");
	for (size_t i = 0; reason && i < sizeof(g_reasons) / sizeof(*g_reasons); i++)
		if (!strcmp(reason, g_reasons[i]))
			snprintf(r->reason, sizeof(r->reason), "%s", reason);
	snprintf(r->message, sizeof(r->message), "%s", text ? text : "");
	if (bootconf_get_u64(msg, "exit_code", 0, &code) || bootconf_get_u64(msg, "signal", 0, &sig) ||
	    code > 255 || sig > 64)
		snprintf(r->reason, sizeof(r->reason), "internal-error");
	r->signal = (int)sig;
	r->exit_code = sig ? -1 : (int)code;
	if (bootconf_get_u64(msg, "wall_ms", 0, &r->wall_ms) ||
	    bootconf_get_u64(msg, "cpu_ms", 0, &r->cpu_ms) ||
	    bootconf_get_u64(msg, "peak_memory_kb", 0, &r->peak_memory_kb))
		warn("the sentry's result record has a bad number");
}

int result_exit_status(const struct result *r)
{
	if (!strcmp(r->reason, "timeout"))
		return EXIT_TIMEOUT;
	if (!strcmp(r->reason, "internal-error"))
		return EXIT_SETUP;
	if (!strcmp(r->reason, "setup-error"))
		return r->exit_code >= EXIT_SETUP && r->exit_code <= EXIT_NOT_FOUND ? r->exit_code
										    : EXIT_SETUP;
	return r->signal ? 128 + r->signal : r->exit_code;
}

void result_print_json(const struct result *r, const char *file)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "reason", json_object_new_string(r->reason));
	json_object_object_add(o, "exit_code",
			       r->signal ? NULL : json_object_new_int(r->exit_code));
	json_object_object_add(o, "signal", r->signal ? json_object_new_int(r->signal) : NULL);
	if (r->message[0])
		json_object_object_add(o, "message", json_object_new_string(r->message));
	json_object_object_add(o, "wall_ms", json_object_new_int64((int64_t)r->wall_ms));
	json_object_object_add(o, "cpu_ms", json_object_new_int64((int64_t)r->cpu_ms));
	json_object_object_add(o, "peak_memory_kb", json_object_new_int64((int64_t)r->peak_memory_kb));
	const char *text = json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN);
	FILE *f = file ? fopen(file, "we") : stderr;

	if (!f)
		warn("can not write the result record to %s: %s", file, strerror(errno));
	else
		fprintf(f, "%s\n", text);
	if (f && f != stderr && fclose(f) != 0)
		warn("can not write the result record to %s: %s", file, strerror(errno));
	json_object_put(o);
}
