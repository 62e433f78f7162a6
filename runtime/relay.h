/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between a person's terminal and a pty of our own whose slave the sandbox gets: the sandbox never
 * holds the person's terminal, and what it holds hangs up when we end.
 */
#ifndef CAISSON_RUNTIME_RELAY_H
#define CAISSON_RUNTIME_RELAY_H

#include <poll.h>

struct relay {
	int master; /* -1: nothing to relay */
	int in_done;
};

/* Fills two entries of a poll set, unused ones with fd -1. */
void relay_poll(const struct relay *r, struct pollfd *p);
/* Moves what the two entries say is there. */
void relay_move(struct relay *r, const struct pollfd *p);
/* At the end: everything the sandbox has written. */
void relay_drain(struct relay *r);
/* The person's window size, given to the pty. */
void relay_resize(const struct relay *r);

#endif
