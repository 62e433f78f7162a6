/* SPDX-License-Identifier: Apache-2.0 */
/* See egress.h. */
#include "runtime/egress.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "netstack/egress/policy.h"
#include "runtime/client.h"

#define FILE_MAX (1u << 20)
#define ANSWER_MS 5000

__attribute__((format(printf, 3, 4))) static int fail(char *why, size_t size, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, size, fmt, ap);
	va_end(ap);
	return -1;
}

int egress_wanted(const struct egress_options *o)
{
	return o->rule_count || o->policy_file || o->audit_file || o->rate || o->connects;
}

/* All of a file of at most FILE_MAX bytes, NUL-terminated; NULL with errno. */
static char *read_file(const char *path, size_t *len)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY), err = 0;
	char *buf = fd >= 0 ? malloc(FILE_MAX + 1) : NULL;
	ssize_t n = 1;

	*len = 0;
	while (buf && n && *len < FILE_MAX) {
		n = read(fd, buf + *len, FILE_MAX - *len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			break;
		*len += (size_t)n;
	}
	err = n < 0 || !buf ? errno : n ? EFBIG : 0;
	if (fd >= 0)
		close(fd);
	if (err) {
		free(buf);
		errno = err;
		return NULL;
	}
	buf[*len] = '\0';
	return buf;
}

/* A list in one string, as annotations have it: rules between commas or line ends. */
static int add_list(struct egress_policy *p, const char *list, char *why, size_t size)
{
	while (*list) {
		size_t n = strcspn(list, ",\n");
		struct egress_error e;

		if (strspn(list, " \t\r") < n && egress_policy_add(p, list, n, &e))
			return fail(why, size, "--allow-net '%s': %s", list, e.text);
		list += n + (list[n] != '\0');
	}
	return 0;
}

static int add_file(struct egress_policy *p, const char *path, char *why, size_t size)
{
	struct egress_error e;
	size_t len;
	char *text = read_file(path, &len);
	int err;

	if (!text)
		return fail(why, size, "--net-policy: %s: %s", path, strerror(errno));
	err = egress_policy_text(p, text, len, &e);
	free(text);
	return err ? fail(why, size, "%s:%u: %s", path, e.line, e.text) : 0;
}

int egress_rules_conf(const struct egress_options *o, struct bootconf *c, char *why, size_t size)
{
	struct egress_policy *p = egress_policy_new();
	int err = p ? 0 : fail(why, size, "out of memory");

	for (size_t i = 0; !err && i < o->rule_count; i++)
		err = add_list(p, o->rules[i], why, size);
	if (!err && o->policy_file)
		err = add_file(p, o->policy_file, why, size);
	if (!err && bootconf_add(c, "net_policy", "1"))
		err = fail(why, size, "out of memory");
	for (uint32_t i = 0; !err && i < p->count; i++)
		if (bootconf_add(c, "net_rule", egress_policy_rule(p, i)))
			err = fail(why, size, "out of memory");
	egress_policy_free(p);
	return err;
}

static int is_address(const char *s)
{
	uint8_t a[16];

	return inet_pton(AF_INET, s, a) == 1 || inet_pton(AF_INET6, s, a) == 1;
}

/* "nameserver" lines; a server on this host's loopback is nobody's there. Their number. */
static int add_servers(const char *path, struct bootconf *c)
{
	char server[64], *text, *line, *save;
	int n = 0;
	size_t len;

	text = read_file(path, &len);
	for (line = text ? strtok_r(text, "\n", &save) : NULL; line && n < EGRESS_DNS_MAX;
	     line = strtok_r(NULL, "\n", &save))
		if (sscanf(line, " nameserver %63s", server) == 1 && is_address(server) && strncmp(server, "127.", 4) &&
		    strcmp(server, "::1") && !bootconf_add(c, "net_dns", server))
			n++;
	free(text);
	return n;
}

static int open_audit(const char *path, char *why, size_t size)
{
	/* O_NONBLOCK: a pipe that nobody empties loses records, and does not stop the sandbox. */
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW | O_NONBLOCK, 0600);

	return fd < 0 ? fail(why, size, "--audit: %s: %s", path, strerror(errno)) : fd;
}

int egress_conf(const struct egress_options *o, const char *id, const char *const resolv[], int as,
		struct bootconf *c, int *audit_fd, char *why, size_t size)
{
	int err = 0, servers = 0;

	*audit_fd = -1;
	if (!egress_wanted(o))
		return 0;
	if ((o->rule_count || o->policy_file) && egress_rules_conf(o, c, why, size))
		return -1;
	for (; servers < o->dns_count; servers++) {
		if (!is_address(o->dns[servers]))
			return fail(why, size, "--dns: '%s' is no address", o->dns[servers]);
		err |= bootconf_add(c, "net_dns", o->dns[servers]);
	}
	for (; resolv && *resolv && !servers; resolv++)
		servers = add_servers(*resolv, c);
	err |= bootconf_add(c, "sandbox", id);
	if (o->rate)
		err |= bootconf_add_u64(c, "net_rate", o->rate);
	if (o->connects)
		err |= bootconf_add_u64(c, "net_connects", o->connects);
	if (err)
		return fail(why, size, "the network policy does not fit into a configuration");
	if (!o->audit_file)
		return 0;
	*audit_fd = open_audit(o->audit_file, why, size);
	if (*audit_fd < 0)
		return -1;
	err = bootconf_add_u64(c, "audit_fd", (uint64_t)as);
	if (o->audit_connections)
		err |= bootconf_add(c, "audit_connections", "1");
	return err ? fail(why, size, "out of memory") : 0;
}

static int conf_memfd(const struct bootconf *c)
{
	int fd = memfd_create("net-policy", MFD_CLOEXEC);

	if (fd >= 0 && (bootconf_write(c, fd) || lseek(fd, 0, SEEK_SET) != 0)) {
		close(fd);
		return -1;
	}
	return fd;
}

int egress_tell(const struct egress_options *o, int conn, int direct, char *why, size_t size)
{
	char buf[CLIENT_MESSAGE_MAX];
	struct bootconf rules, m, a;
	int pair[2] = { -1, conn }, fds[2], n = 0, r = -1, conf = -1;
	const char *error;

	bootconf_init(&rules);
	bootconf_init(&m);
	if (egress_rules_conf(o, &rules, why, size))
		goto out;
	fail(why, size, "the sandbox does not answer");
	conf = conf_memfd(&rules);
	/* Straight to the sentry, a connection for its answer goes along; a waiter adds its own. */
	if (conf < 0 || bootconf_add(&m, "cmd", "net_policy") ||
	    (direct && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0))
		goto out;
	if (direct)
		fds[n++] = pair[0];
	fds[n++] = conf;
	if (client_send(conn, &m, fds, n) || client_receive(pair[1], buf, &a, ANSWER_MS) <= 0)
		goto out;
	error = bootconf_get(&a, "error");
	if (error)
		fail(why, size, "%s", error);
	else
		r = bootconf_get(&a, "ok") ? 0 : -1;
out:
	if (conf >= 0)
		close(conf);
	if (direct && pair[0] >= 0) {
		close(pair[0]);
		close(pair[1]);
	}
	bootconf_free(&rules);
	bootconf_free(&m);
	return r;
}
