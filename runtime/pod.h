/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Containers that share a sandbox: those of one pod, by the annotations of a CRI, and those whose
 * configuration names namespaces of another container by path (/proc/PID/ns/..., as podman does).
 * The first of them has the sandbox; the others join it.
 */
#ifndef CAISSON_RUNTIME_POD_H
#define CAISSON_RUNTIME_POD_H

#include "runtime/spec.h"
#include "runtime/state.h"

struct pod {
	struct state sandbox;	     /* the container that has the sandbox */
	char *join[SPEC_NS_COUNT];   /* whose namespace each is, by id; NULL: one of its own */
	int ns[SPEC_NS_COUNT];	     /* the host's namespaces that stand for them, open, or -1 */
	int conn;		     /* to that sandbox; becomes the container's channel */
	int gofer;		     /* the sentry's end of the new file server's socket */
};

/* 1 when the container belongs into a running sandbox: *p is filled. 0: it gets one of its own.
 * Dies where the configuration asks for what can not be. */
int pod_find(struct spec *s, struct pod *p);
/* Starts the container's file server beside those of the sandbox, and connects. log: an fd. */
void pod_enter(struct pod *p, const struct spec *s, int log);
/* For the container's own process: in which pid namespace it is to be made (setns done), or not. */
int pod_pid_begin(const struct pod *p);
void pod_pid_end(int own);

#endif
