/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the process keys of a configuration: what spawn.c and spawn_conf.c share. */
#ifndef CAISSON_SPAWN_CONF_H
#define CAISSON_SPAWN_CONF_H

#include "sentry/spawn.h"
#include "sentry/task/task.h"

/* Notes why in s; always -1. */
__attribute__((format(printf, 3, 4))) int spawn_fail(struct spawn *s, int code, const char *fmt, ...);
/* A number up to max: 0, or -1 after spawn_fail. */
int spawn_u64(struct spawn *s, const char *key, uint64_t dflt, uint64_t max, uint64_t *out);
/* uid gid groups caps; NULL after spawn_fail. */
struct cred *spawn_cred(struct spawn *s);
int spawn_rlimits(struct spawn *s, struct thread_group *tg);
/* nice ignored_signals blocked_signals */
int spawn_inherited(struct spawn *s, struct task *t);
/* seccomp=HEX, a classic BPF program: the process starts under it. */
int spawn_seccomp(struct spawn *s, struct task *t);

#endif
