/* SPDX-License-Identifier: Apache-2.0 */
/* Inside AF_NETLINK: the message builder, and the protocols that answer requests. */
#ifndef CAISSON_NETLINK_PRIV_H
#define CAISSON_NETLINK_PRIV_H

#include <linux/netlink.h>

#include "netstack/netstack.h"
#include "sentry/socket/socket.h"

/* Answers in the making; one datagram is cut wherever a message would go over the mark. */
struct nl_reply {
	char *data;
	uint32_t len, cap;
	uint32_t msg;	  /* start of the message being built */
	uint32_t piece;	  /* start of the current datagram */
	uint32_t cuts[256], cut_count;
	uint32_t seq, portid;
	int dump, err;	  /* err: out of memory */
};

struct nl_req {
	struct socket *s;
	struct task *t;
	const struct nlmsghdr *h; /* a checked copy: payload of nlmsg_len bytes */
	struct nl_reply *r;
};

/* Starts a message with a zeroed family header of size n; pointer valid until the next call. */
void *nl_begin(struct nl_reply *r, uint16_t type, uint16_t flags, uint32_t n);
void nl_end(struct nl_reply *r);
void nl_attr(struct nl_reply *r, uint16_t type, const void *data, uint32_t n);
void nl_attr_u32(struct nl_reply *r, uint16_t type, uint32_t v);
void nl_attr_u8(struct nl_reply *r, uint16_t type, uint8_t v);
void nl_attr_str(struct nl_reply *r, uint16_t type, const char *s);
/* The attribute of a request behind a family header of size hdr, with at least min bytes; NULL. */
const void *nl_find(const struct nlmsghdr *h, uint32_t hdr, uint16_t type, uint32_t min, uint32_t *len);

/* Each: 0 when answered, else a negative errno that becomes NLMSG_ERROR. */
int rtnl_request(struct nl_req *q);
int diag_request(struct nl_req *q);

#endif
