/* SPDX-License-Identifier: Apache-2.0 */
/* The sentry's own seccomp filter. */
#include "sentry/boot.h"

int sentry_lockdown(void)
{
	return 0;
}
