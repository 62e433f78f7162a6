/* SPDX-License-Identifier: Apache-2.0 */
/* The loop: one message in, one out, until the sentry hangs up or misbehaves. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "gofer/gofer.h"
#include "gofer/proto/fdpass.h"
#include "platform/base/log.h"

/* #hostcalls: recvmsg sendmsg close */
int gofer_serve(struct gofer *g, int sock)
{
	for (;;) {
		struct gofer_hdr hdr = { 0 };
		struct reply r;
		ssize_t n = fdpass_recv(sock, g->in, sizeof(g->in), NULL);

		if (n == 0 || n == -ECONNRESET)
			return 0;
		if (n < 0) {
			log_error("connection ended: receiving failed (error %d)", (int)-n);
			return (int)n;
		}
		int send = gofer_dispatch(g, g->in, (size_t)n, &hdr, &r);

		if (send < 0) {
			log_error("connection ended: %s (message %s, %zd bytes)", g->violation,
				  (size_t)n >= sizeof(hdr) ? gofer_msg_name(hdr.type) : "?", n);
			return send;
		}
		if (!send)
			continue;
		struct iovec iov[2] = { { &hdr, sizeof(hdr) }, { r.out.buf, r.out.len } };
		int err = fdpass_send(sock, iov, 2, r.fd);

		if (r.fd >= 0 && !r.fd_borrowed)
			close(r.fd);
		if (err == -EPIPE || err == -ECONNRESET)
			return 0;
		if (err) {
			log_error("connection ended: sending failed (error %d)", -err);
			return err;
		}
	}
}
