/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to the gofer and their replies, whatever carries them. Private to goferfs.
 * Threads may call at once; each waits for its own reply.
 */
#ifndef CAISSON_GOFERFS_CLIENT_H
#define CAISSON_GOFERFS_CLIENT_H

#include <stdint.h>

#include "gofer/proto/wire.h"
#include "vfs/goferfs/goferfs.h"

/* One request under construction and its reply. Small requests need no allocation. */
struct gcall {
	struct wire_out req;
	struct wire_in rep; /* body of the reply; the bytes live until gcall_end */
	int fd; /* that came with the reply, -1 for none; the caller takes it by gcall_fd */
	void *rep_buf;
	uint32_t type;
	uint8_t small[1024];
	uint8_t *big;
};

/* Starts a request whose body has at most `size` bytes. -ENOMEM. */
int gcall_begin(struct gcall *c, enum gofer_msg type, size_t size);
/*
 * Sends it and waits. 0: c->rep holds the reply; negative errno from the gofer; -EIO when the
 * connection is dead. gcall_end() is due in every case, and once gcall_begin succeeded.
 */
int gcall_do(struct goferfs_conn *conn, struct gcall *c);
/* The fd of the reply, now the caller's; -1 when none came. */
int gcall_fd(struct gcall *c);
void gcall_end(struct gcall *c);
/* The reply was nonsense: ends the connection, returns -EIO. `why` must be static. */
int gcall_bad_reply(struct goferfs_conn *conn, const struct gcall *c, const char *why);

/* Gives back references to a node, some time. */
void conn_forget(struct goferfs_conn *conn, uint32_t nid, uint32_t refs);

#endif
