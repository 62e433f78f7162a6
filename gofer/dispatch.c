/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From bytes to a handler: the header is checked, then the permit table made from messages.def.
 * What does not fit ends the connection; a request that merely fails gets its errno.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "gofer/gofer.h"
#include "platform/base/log.h"

static const struct {
	op_fn fn;
	uint8_t phases, flags;
} g_ops[GOFER_MSG_COUNT] = {
#define MSG(num, name, phases, flags) [num] = { op_##name, (phases), (flags) },
#include "gofer/proto/messages.def"
#undef MSG
};

int gofer_violation(struct gofer *g, const char *why)
{
	if (!g->violation)
		g->violation = why;
	return -EPROTO;
}

int node_writable(const struct gofer *g, const struct node *n)
{
	return g->attach[n->attach].flags & ATTACH_RDONLY ? -EROFS : 0;
}

/* #hostcalls: close */
int gofer_dispatch(struct gofer *g, const void *msg, size_t n, struct gofer_hdr *hdr,
		   struct reply *r)
{
	struct wire_in in;

	r->fd = -1;
	r->fd_borrowed = 0;
	wire_out_init(&r->out, g->out, sizeof(g->out) - sizeof(*hdr));
	if (n < sizeof(*hdr))
		return gofer_violation(g, "message shorter than its header");
	memcpy(hdr, msg, sizeof(*hdr));
	if (hdr->size != n || n > GOFER_MSG_MAX)
		return gofer_violation(g, "message size does not match its header");
	if (hdr->flags || hdr->error)
		return gofer_violation(g, "request with reply fields set");
	if (hdr->type >= GOFER_MSG_COUNT || !g_ops[hdr->type].fn)
		return gofer_violation(g, "unknown message");
	if (!(g_ops[hdr->type].phases & g->phase))
		return gofer_violation(g, "message not permitted in this phase");

	wire_in_init(&in, (const uint8_t *)msg + sizeof(*hdr), n - sizeof(*hdr));
	int err = g_ops[hdr->type].fn(g, &in, r);

	if (!g->violation && r->out.bad && !err)
		err = -EMSGSIZE;
	if ((g->violation || err) && r->fd >= 0) {
		if (!r->fd_borrowed)
			close(r->fd);
		r->fd = -1;
	}
	if (g->violation)
		return -EPROTO;
	if (g_ops[hdr->type].flags & MSG_NOREPLY)
		return 0;
	/* Errors must be ones the client can hand on. */
	hdr->error = err < -4095 || err > 0 ? -EIO : err;
	if (err)
		r->out.len = 0;
	hdr->flags = (uint16_t)(GOFER_F_REPLY | (r->fd >= 0 ? GOFER_F_FD : 0));
	hdr->size = (uint32_t)(sizeof(*hdr) + r->out.len);
	return 1;
}
