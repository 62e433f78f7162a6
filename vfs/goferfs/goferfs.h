/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The filesystem behind a gofer: rootfs and bind mounts. One connection per container serves
 * any number of its mounts; only the making of containers makes them. Any thread may call; calls wait for the gofer, never
 * for a guest.
 */
#ifndef CAISSON_GOFERFS_H
#define CAISSON_GOFERFS_H

#include <stdint.h>

struct fs_type;
struct goferfs_conn;

/*
 * Takes over the socket to the gofer and greets it. ERR_PTR(-EPROTO) when it does not speak our
 * protocol, or what the socket gave. One reference; each mount holds another, and the last closes the
 * socket, which ends the gofer.
 */
struct goferfs_conn *goferfs_connect(int fd);
struct goferfs_conn *goferfs_get(struct goferfs_conn *c);
void goferfs_put(struct goferfs_conn *c); /* NULL is no connection */
/*
 * fn(arg) runs once, on some thread, when the gofer is gone or broke the protocol: from then on
 * everything but cached data fails with EIO.
 */
void goferfs_on_death(struct goferfs_conn *c, void (*fn)(void *arg), void *arg);
/* Round trips made so far: for tests and statistics. */
uint64_t goferfs_messages(const struct goferfs_conn *c);

/* What boot passes to g_goferfs_type.mount. */
struct goferfs_boot {
	struct goferfs_conn *conn;
	uint32_t attach_id;
	int exclusive; /* nobody else writes the tree: cache it for ever */
	int readonly;
};

extern const struct fs_type g_goferfs_type;

#endif
