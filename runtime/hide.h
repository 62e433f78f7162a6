/* SPDX-License-Identifier: Apache-2.0 */
/* What of the host's own root no sandbox sees unless it is bound in by name. */
#ifndef CAISSON_RUNTIME_HIDE_H
#define CAISSON_RUNTIME_HIDE_H

#include <stdint.h>

#include "platform/base/bootconf.h"

/* Adds "hide" entries for attach `id`, which is the host's /: -ENOMEM or 0. */
int hide_host_secrets(struct bootconf *gofer, uint32_t id);

#endif
