/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scripted platform for unit tests of what lies above. Guest memory is simulated page by page
 * with protections; no guest code runs: each context_switch() asks the test what happens next.
 */
#ifndef CAISSON_FAKE_H
#define CAISSON_FAKE_H

#include "platform/platform.h"

/*
 * What the guest "does" in this switch: fills *ev and changes *regs. An event of EVENT_SYSCALL
 * should set regs->rax and orig_rax. Runs in the context's owner thread. Without a script every
 * switch gives EVENT_EXITED.
 */
typedef void (*fake_script)(struct context *c, struct user_regs_struct *regs,
			    struct platform_event *ev, void *priv);

void fake_set_script(struct platform *p, fake_script script, void *priv);
/* Objects alive: for the check at the end of a test that nothing has leaked. */
unsigned int fake_addrspaces(const struct platform *p);
unsigned int fake_contexts(const struct platform *p);

#endif
