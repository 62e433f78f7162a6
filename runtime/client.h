/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control socket of a container: SOCK_SEQPACKET, messages in bootconf form, as in
 * sentry/control.c. The waiter listens; what is the sentry's business it passes on together with
 * the connection, so that the answer comes straight from there.
 */
#ifndef CAISSON_RUNTIME_CLIENT_H
#define CAISSON_RUNTIME_CLIENT_H

#include "platform/base/bootconf.h"
#include "runtime/state.h"

#define CONTROL_SOCKET "control.sock"
#define CLIENT_MESSAGE_MAX 8192
#define CLIENT_FDS_MAX 6

/* A listening socket in the state directory; -errno. */
int client_listen(int state_dir);
/* A connection, or -errno (-ECONNREFUSED: nobody lives there). */
int client_connect(int state_dir);
/* 0 or -errno. */
int client_send(int conn, const struct bootconf *m, const int *fds, int fd_count);
/*
 * Waits at most ms (-1: for ever) for a message, whose data goes to buf (CLIENT_MESSAGE_MAX bytes).
 * 1 a message, 0 the end, -errno (-ETIMEDOUT).
 */
int client_receive(int conn, char *buf, struct bootconf *m, int ms);
/* As client_receive without a time limit, with descriptors. */
int client_receive_fds(int conn, char *buf, struct bootconf *m, int *fds, int *fd_count);
/* Connects, sends "cmd=NAME" with one optional key, and waits for the answer. As client_receive. */
int client_ask(int state_dir, const char *cmd, const char *key, const char *value, char *buf,
	       struct bootconf *answer, int ms);

#endif
