/* SPDX-License-Identifier: Apache-2.0 */
/* Global options of oci.h. */
#include "runtime/oci.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/args.h"
#include "runtime/error.h"

struct oci_global g_oci;

static const struct arg_option g_options[] = {
	{ "root", 0, ARG_TEXT, &g_oci.root, "directory of container state" },
	{ "log", 0, ARG_TEXT, &g_oci.log, "file for log lines" },
	{ "log-format", 0, ARG_TEXT, &g_oci.log_format, "text or json" },
	{ "debug", 0, ARG_FLAG, &g_oci.debug, "log more" },
	{ "systemd-cgroup", 0, ARG_FLAG, &g_oci.systemd_cgroup, "cgroupsPath is slice:prefix:name" },
	{ "rootless", 0, ARG_TEXT, &g_oci.rootless, "accepted; decided by what works" },
	{ "overlay", 0, ARG_TEXT, &g_oci.overlay, "none, or memory: writes stay in the sandbox" },
	{ "criu", 0, ARG_IGNORE_TEXT, NULL, "accepted" },
	{ 0 },
};

void oci_global_parse(int *argc, char ***argv)
{
	/* --version and --help are main's. */
	if (*argc > 1 && (!strcmp((*argv)[1], "--version") || !strcmp((*argv)[1], "-v") ||
			  !strcmp((*argv)[1], "--help") || !strcmp((*argv)[1], "-h"))) {
		(*argv)++;
		(*argc)--;
		return;
	}
	args_parse(g_options, "[global options] COMMAND [options]", 0, argc, argv);
	if (g_oci.overlay && strcmp(g_oci.overlay, "none") && strcmp(g_oci.overlay, "memory"))
		die(1, "--overlay: '%s' is neither none nor memory", g_oci.overlay);
	if (g_oci.log_format && strcmp(g_oci.log_format, "text") && strcmp(g_oci.log_format, "json"))
		die(1, "--log-format: '%s' is neither text nor json", g_oci.log_format);
}

/* Root of the machine, not of some user namespace. */
static int is_real_root(void)
{
	unsigned long inside = 1, outside = 1, count = 0;
	FILE *f = fopen("/proc/self/uid_map", "re");

	if (geteuid() != 0)
		return 0;
	if (!f)
		return 1;
	if (fscanf(f, "%lu %lu %lu", &inside, &outside, &count) != 3)
		inside = outside = 0;
	fclose(f);
	return inside == 0 && outside == 0;
}

static const char *default_root(void)
{
	static char path[4096];
	const char *xdg = getenv("XDG_RUNTIME_DIR");

	if (is_real_root())
		return "/run/caisson";
	if (!xdg || xdg[0] != '/')
		die(1, "XDG_RUNTIME_DIR is not set; give --root");
	snprintf(path, sizeof(path), "%s/caisson", xdg);
	return path;
}

void oci_begin(int failure_status)
{
	error_status(failure_status);
	if (g_oci.log && *g_oci.log)
		error_log(g_oci.log, g_oci.log_format && !strcmp(g_oci.log_format, "json"));
	if (!g_oci.root || !*g_oci.root)
		g_oci.root = default_root();
}
