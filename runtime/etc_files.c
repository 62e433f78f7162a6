/* SPDX-License-Identifier: Apache-2.0 */
/* Files about names: see etc_files.h. */
#include "runtime/etc_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "platform/base/bootconf.h"
#include "runtime/error.h"
#include "runtime/usernet.h"

#define RESOLV_MAX 65536

static void add(struct bootconf *c, const char *path, const char *text)
{
	int err = bootconf_addf(c, "file", "%s\t%s", path, text);

	if (err)
		die(EXIT_SETUP, "%s: %s", path, strerror(-err));
}

/* The text of a file of the host, or NULL. Owned by the caller. */
static char *read_text(const char *path)
{
	FILE *f = fopen(path, "re");
	char *buf = f ? malloc(RESOLV_MAX + 1) : NULL;
	size_t n = 0;

	if (buf) {
		n = fread(buf, 1, RESOLV_MAX, f);
		buf[n] = '\0';
	}
	if (f)
		fclose(f);
	if (buf && memchr(buf, '\0', n)) { /* not text */
		free(buf);
		return NULL;
	}
	return buf;
}

/* What ip-netns(8) would show inside: /etc/netns/NAME/resolv.conf, else the host's. */
static char *netns_resolv(const char *netns)
{
	char path[4096];
	const char *name = strrchr(netns, '/');
	char *text = NULL;

	if (name && (!strncmp(netns, "/run/netns/", 11) || !strncmp(netns, "/var/run/netns/", 15))) {
		snprintf(path, sizeof(path), "/etc/netns/%s/resolv.conf", name + 1);
		text = read_text(path);
	}
	return text ? text : read_text("/etc/resolv.conf");
}

/* The lines of the host's resolv.conf that say how names are completed, and our server. */
static void user_resolv(char *out, size_t size)
{
	char *host = read_text("/etc/resolv.conf"), *save = NULL;
	size_t len = 0;

	for (char *line = host ? strtok_r(host, "\n", &save) : NULL; line; line = strtok_r(NULL, "\n", &save))
		if ((!strncmp(line, "search", 6) || !strncmp(line, "domain", 6) || !strncmp(line, "options", 7)) &&
		    len + strlen(line) + 64 < size)
			len += (size_t)snprintf(out + len, size - len, "%s\n", line);
	snprintf(out + len, size - len, "nameserver " USERNET_DNS "\n");
	free(host);
}

static void hosts(struct bootconf *c, const char *hostname)
{
	char text[4096];
	size_t pos = 0, len;
	const char *v;

	len = (size_t)snprintf(text, sizeof(text), "127.0.0.1\tlocalhost\n"
			       "::1\tlocalhost ip6-localhost ip6-loopback\n"
			       "ff02::1\tip6-allnodes\nff02::2\tip6-allrouters\n");
	/* The host's own name: each interface's addresses, or loopback where there are none. */
	while ((v = bootconf_next(c, "nic_addr", &pos)) && len < sizeof(text) - 256) {
		const char *tab = strchr(v, '\t');

		if (tab && strncmp(tab + 1, "fe80", 4) != 0)
			len += (size_t)snprintf(text + len, sizeof(text) - len, "%.*s\t%s\n",
						(int)strcspn(tab + 1, "/"), tab + 1, hostname);
	}
	if (!bootconf_get(c, "nic_addr"))
		snprintf(text + len, sizeof(text) - len, "127.0.1.1\t%s\n", hostname);
	add(c, "/etc/hosts", text);
}

void etc_files_add(struct bootconf *c, const struct run_options *o)
{
	char text[4096];

	snprintf(text, sizeof(text), "%s\n", o->hostname);
	add(c, "/etc/hostname", text);
	hosts(c, o->hostname);
	if (o->user_network) {
		user_resolv(text, sizeof(text));
		add(c, "/etc/resolv.conf", text);
	} else if (o->netns) {
		char *resolv = netns_resolv(o->netns);

		if (resolv)
			add(c, "/etc/resolv.conf", resolv);
		free(resolv);
	}
}
