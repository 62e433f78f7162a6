/* SPDX-License-Identifier: Apache-2.0 */
/* Between vdso.c and vdso_clock.c. */
#ifndef CAISSON_VDSO_PRIV_H
#define CAISSON_VDSO_PRIV_H

struct kernel;

/* The time page, zeroed, which is "of no use" until the counter's rate is known. */
void vdso_clock_start(struct kernel *k, void *page);
/* Before isolation: is the host's own clock the time stamp counter? */
void vdso_clock_probe(void);

#endif
