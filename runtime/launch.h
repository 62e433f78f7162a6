/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting the two long-lived processes of a sandbox, each in namespaces of its own and with
 * nothing inherited but the fds named here. They die with the caller (PDEATHSIG), but for those that outlive it.
 */
#ifndef CAISSON_RUNTIME_LAUNCH_H
#define CAISSON_RUNTIME_LAUNCH_H

#include <stddef.h>
#include <sys/types.h>

#include "platform/base/bootconf.h"
#include "runtime/cgroup.h"

/* Which ids the process has in its own user namespace. */
enum launch_ids {
	LAUNCH_IDS_NONE,  /* one id: an unprivileged host user (nobody for root, else the caller) */
	LAUNCH_IDS_ALL,	  /* every id the caller's namespace has, unchanged: file servers for root */
};

#define LAUNCH_FDS_MAX 48

struct launch {
	const char *what;	     /* "sentry" or "gofer", for messages */
	const char *binary;	     /* absolute path */
	const struct bootconf *conf; /* passed as a sealed memfd */
	int conf_fd;		     /* the number it gets there */
	enum launch_ids ids;
	const struct cgroup *cgroup; /* where it is put before it runs anything */
	const char *uid_map, *gid_map; /* maps an engine asks for, instead of those of `ids`; or NULL */
	const char *oom_score_adj;     /* lowered to this when the caller may; or NULL */
	unsigned weaker;	     /* enum weaker_layer bits the user allows to be missing */
	int host_network;	     /* it stays in the caller's network namespace */
	/* fds[i] of the caller becomes fd to[i] of the process; nothing else is open there but 0-2
	 * (given here too, or /dev/null). */
	int fds[LAUNCH_FDS_MAX], to[LAUNCH_FDS_MAX];
	size_t fd_count;
	int outlives; /* it goes on when the caller ends */
	/* Set by the launching. */
	pid_t pid;	 /* on the host */
	int report;	 /* says why its exec failed */
	int empty_netns; /* the caller stands in a network namespace for it */
};

/* Starts both, side by side. Ends the caller with a clear line when one can not be started. */
void launch_both(struct launch *a, struct launch *b);
/* Starts one of its own namespaces. Ends the caller likewise. */
void launch_one(struct launch *l);
/* The directory of the other binaries: beside this program, or ../libexec/caisson. */
void launch_find_binary(const char *name, char *path, size_t size);
/* Puts fd among those the process gets, as number `to`. */
void launch_fd(struct launch *l, int fd, int to);

/* What a file server for root-owned trees may keep; docs in ARCHITECTURE.md, "privileges". */
#define LAUNCH_CAPS_READ_ANY 0x4ull	/* DAC_READ_SEARCH */
#define LAUNCH_CAPS_FILE_SERVER 0x1full /* CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID */

/* fd numbers in the sentry and in the gofer. */
enum {
	SENTRY_FD_CONF = 3,
	SENTRY_FD_CONTROL = 4,
	SENTRY_FD_GOFER = 5,
	SENTRY_FD_LOG = 6,
	SENTRY_FD_STDIN = 7,
	SENTRY_FD_STDOUT = 8,
	SENTRY_FD_STDERR = 9,
	SENTRY_FD_AUDIT = 15, /* those of interfaces follow: netns.h */
};
enum { GOFER_FD_SOCKET = 3, GOFER_FD_CONF = 4, GOFER_FD_LOG = 5 };

/* True when the caller has ids beside its own, and may map them into a user namespace. */
int launch_is_privileged(void);

#endif
