/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /etc/hostname, /etc/hosts and /etc/resolv.conf of a sandbox that `caisson run` starts: text the sentry
 * puts into the sandbox's own overlay (key `file` of the boot configuration), never onto the host. What
 * the user bound there stays.
 */
#ifndef CAISSON_RUNTIME_ETC_FILES_H
#define CAISSON_RUNTIME_ETC_FILES_H

#include "runtime/options.h"

/* Before the interfaces' keys or after: it reads the addresses from conf. */
void etc_files_add(struct bootconf *conf, const struct run_options *o);

#endif
