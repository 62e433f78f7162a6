/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between a person's terminal and a pty of our own whose slave the sandbox gets: the sandbox never
 * holds the person's terminal, and what it holds hangs up when we end, or when the person's terminal
 * does. Neither side is ever waited for: the caller polls and has other things to do.
 */
#ifndef CAISSON_RUNTIME_RELAY_H
#define CAISSON_RUNTIME_RELAY_H

#include <poll.h>
#include <stddef.h>

#define RELAY_POLLS 3

struct relay {
	int master; /* -1: nothing to relay */
	size_t chunk; /* what a ready stdout takes for sure; 0: not looked yet */
	struct relay_bytes {
		char buf[4096];
		size_t len, off;
	} in, out; /* from the person, to the person; refilled when empty */
};

/* A pty in raw mode (the guest's own line discipline is the only one): the master, or -1. Zero rows
 * or columns leave the size alone. */
int relay_pty(int *slave, unsigned rows, unsigned cols);
/* Fills RELAY_POLLS entries of a poll set, unused ones with fd -1. */
void relay_poll(const struct relay *r, struct pollfd *p);
/* Moves what the entries say is there. */
void relay_move(struct relay *r, const struct pollfd *p);
/* At the end: everything the sandbox has written, as long as the person's terminal takes it. */
void relay_drain(struct relay *r);
/* The person's window size, given to the pty. */
void relay_resize(const struct relay *r);

#endif
