/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The default-deny list for sandboxes whose root is the host's: other users' homes, root's home,
 * password hashes, ssh and cloud credentials. Patterns are expanded when the sandbox starts; the
 * gofer then treats each path as absent.
 */
#include "runtime/hide.h"

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const g_paths[] = {
	"/root",
	"/etc/shadow*",
	"/etc/gshadow*",
	"/etc/sudoers",
	"/etc/sudoers.d",
	"/etc/ssh/ssh_host_*_key",
	"/etc/ssl/private",
	"/etc/krb5.keytab",
	"/etc/kubernetes",
	"/etc/rancher",
	"/etc/cloud",
	"/etc/machine-id",
	"/etc/wireguard",
	"/etc/NetworkManager/system-connections",
	"/var/lib/cloud",
	"/var/lib/dbus/machine-id",
	"/var/lib/docker",
	"/var/lib/containers",
	"/var/lib/containerd",
	"/var/lib/kubelet",
	"/var/lib/rancher",
	"/var/log",
	"/var/spool",
	"/var/backups",
	"/var/mail",
	"/boot",
	"/proc",
	"/sys",
	"/dev",
	"/run",
	"/tmp",
	"/var/run",
	"/var/tmp",
	"/mnt",
	"/media",
	"/lost+found",
	"/swapfile",
};

/* Below the caller's own home. */
static const char *const g_home[] = {
	".ssh", ".gnupg", ".aws", ".azure", ".config/gcloud", ".kube", ".docker", ".netrc", ".npmrc",
	".pypirc", ".git-credentials", ".config/gh", ".config/hub", ".cargo/credentials*", ".vault-token",
	".password-store", ".mozilla", ".config/google-chrome", ".local/share/keyrings", ".bash_history",
	".python_history", ".zsh_history", ".config/rclone", ".boto", ".s3cfg", ".terraform.d",
	".oci", ".minikube", ".helm",
};

static int add_matches(struct bootconf *bc, uint32_t id, const char *pattern, const char *except)
{
	glob_t g;
	int err = 0;

	if (glob(pattern, GLOB_NOSORT, NULL, &g) != 0)
		return 0;
	for (size_t i = 0; i < g.gl_pathc && !err; i++) {
		const char *p = g.gl_pathv[i];

		if (except && !strcmp(p, except))
			continue;
		err = bootconf_addf(bc, "hide", "%u\t%s", (unsigned)id, p + 1);
	}
	globfree(&g);
	return err;
}

int hide_host_secrets(struct bootconf *gofer, uint32_t id)
{
	const char *home = getenv("HOME");
	struct stat st;
	int err = 0;

	/* Only a home that is really the caller's stays visible. */
	if (!home || strncmp(home, "/home/", 6) || stat(home, &st) != 0 || !getuid() || st.st_uid != getuid())
		home = NULL;

	for (size_t i = 0; i < sizeof(g_paths) / sizeof(*g_paths) && !err; i++)
		err = add_matches(gofer, id, g_paths[i], NULL);
	if (!err)
		err = add_matches(gofer, id, "/home/*", home);
	for (size_t i = 0; home && i < sizeof(g_home) / sizeof(*g_home) && !err; i++) {
		char pattern[512];

		if ((size_t)snprintf(pattern, sizeof(pattern), "%s/%s", home, g_home[i]) < sizeof(pattern))
			err = add_matches(gofer, id, pattern, NULL);
	}
	return err;
}
