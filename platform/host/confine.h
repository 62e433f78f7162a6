/* SPDX-License-Identifier: Apache-2.0 */
/*
 * First steps of a process that gives up its rights, in namespaces the runtime made for it. 0 or a
 * negative errno.
 */
#ifndef CAISSON_HOST_CONFINE_H
#define CAISSON_HOST_CONFINE_H

/* An empty, read-only root directory. */
int confine_root(void);
/* No capability, now or after any exec. */
int confine_caps(void);

#endif
