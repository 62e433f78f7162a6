/* SPDX-License-Identifier: Apache-2.0 */
/* Hooks of the configuration that run on the host, in the runtime's own namespaces. */
#ifndef CAISSON_RUNTIME_HOOKS_H
#define CAISSON_RUNTIME_HOOKS_H

#include <json-c/json.h>

/*
 * Runs the list `name` of hooks, each with the state on its stdin. 0, or -1 after a warning when
 * one failed (the rest is then not run).
 */
int hooks_run(struct json_object *hooks, const char *name, struct json_object *state);

#endif
