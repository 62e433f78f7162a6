/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file tree of a waiter: the container's root with its binds, for engines that look into
 * /proc/PID/root or enter the mount namespace (podman cp). The sandbox itself never sees it. What
 * can not be shown is left out.
 */
#ifndef CAISSON_RUNTIME_VIEW_H
#define CAISSON_RUNTIME_VIEW_H

#include "runtime/spec.h"

struct view;

/* Clones the trees by the names that the configuration gave. NULL: there will be no view. */
struct view *view_prepare(const struct spec *s);
/* Makes it the root of the calling process and frees it; an empty root when that fails. */
void view_enter(struct view *v);

#endif
