/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the runtime tells the sentry (and the gofer) at start: a list of key=value strings, each
 * ended by a NUL, in a sealed memfd or pipe. Keys may repeat; order is kept. The runtime has
 * parsed and checked what people wrote; the readers check again what they rely on.
 *
 * Keys of the sentry (the table is in docs/bootconf.md):
 *   arg=…(repeated) env=…(repeated) exe=… cwd=… uid= gid= groups=1,2 umask= hostname= domainname=
 *   caps=hex no_new_privs=0|1 rlimit=NAME:soft:hard release=6.12.0 cpus=N memory=bytes pids=N
 *   timeout_ms= tty=0|1 tty_rows= tty_cols= strace=0|1 log_level= platform= readonly_root=0|1
 *   stdin_fd= stdout_fd= stderr_fd= log_fd= control_fd= gofer_fd=  (fds the sentry inherits)
 *   nicN_fd= (packet sockets, N 0 to 5) nic=NAME<TAB>FD<TAB>MAC<TAB>MTU[<TAB>pair]
 *   nic_addr=NAME<TAB>ADDR/LEN<TAB>BROADCAST or -<TAB>SCOPE neigh=NAME<TAB>ADDR<TAB>MAC
 *   route=DST/LEN<TAB>NAME<TAB>GATEWAY or -<TAB>SOURCE or -<TAB>METRIC<TAB>PROTOCOL<TAB>SCOPE
 *   file=PATH<TAB>TEXT (repeated)
 *   net_policy=1 net_rule=RULE net_dns=ADDR net_rate= net_connects= audit_fd= audit_connections= sandbox=
 *   mount=TYPE<TAB>SOURCE<TAB>TARGET<TAB>OPTIONS (repeated, in order; SOURCE of type "gofer" is
 *   the attach id in decimal; options are comma separated as in mount(8))
 */
#ifndef CAISSON_BOOTCONF_H
#define CAISSON_BOOTCONF_H

#include <stddef.h>
#include <stdint.h>

struct bootconf {
	char *data;  /* NUL-separated "key=value" strings */
	size_t size; /* bytes, the last NUL included */
	size_t cap;
};

#define BOOTCONF_MAX_SIZE (32u << 20)

void bootconf_init(struct bootconf *bc);
void bootconf_free(struct bootconf *bc);
/* Appends; -ENOMEM, -E2BIG over BOOTCONF_MAX_SIZE, -EINVAL for an embedded NUL or bad key. */
int bootconf_add(struct bootconf *bc, const char *key, const char *value);
int bootconf_add_u64(struct bootconf *bc, const char *key, uint64_t value);
__attribute__((format(printf, 3, 4))) int bootconf_addf(struct bootconf *bc, const char *key,
							const char *fmt, ...);

/* Reads all of fd (a memfd or pipe) and checks its form; -EINVAL, -E2BIG, -ENOMEM. */
int bootconf_read(struct bootconf *bc, int fd);
/* Writes all to fd. */
int bootconf_write(const struct bootconf *bc, int fd);

/* The first value of key, or NULL. Borrowed from bc. */
const char *bootconf_get(const struct bootconf *bc, const char *key);
/* The first value as a number in base 10 (or 16 with 0x), or dflt when absent; -EINVAL if bad. */
int bootconf_get_u64(const struct bootconf *bc, const char *key, uint64_t dflt, uint64_t *out);
/*
 * Iterates over the values of key in order: *pos starts at 0. NULL at the end.
 */
const char *bootconf_next(const struct bootconf *bc, const char *key, size_t *pos);

#endif
