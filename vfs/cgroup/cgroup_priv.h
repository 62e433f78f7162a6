/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files of this folder only. */
#ifndef CAISSON_CGROUP_PRIV_H
#define CAISSON_CGROUP_PRIV_H

#include "vfs/cgroup/cgroup.h"

/* A source with proc's figures; NULL before proc has its own. Immutable, never freed. */
const struct cgroup_source *cgroup_source_of_proc(void);

#endif
