/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One message over the SEQPACKET socket, with at most one fd. Any thread; messages are whole.
 */
#ifndef CAISSON_GOFER_FDPASS_H
#define CAISSON_GOFER_FDPASS_H

#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

/* Sends the pieces as one message, with fd when it is >= 0. 0 or negative errno. */
int fdpass_send(int sock, const struct iovec *iov, size_t iov_count, int fd);
/*
 * Receives one message into buf. Its size, 0 at end of file, or negative errno; -EMSGSIZE when
 * it did not fit, -EPROTO when it brought more than one fd or other control data (all are closed).
 * An fd goes to *fd (else -1), close-on-exec; fd NULL: any fd is -EPROTO.
 */
ssize_t fdpass_recv(int sock, void *buf, size_t size, int *fd);

#endif
