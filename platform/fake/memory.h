/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated guest memory of the fake platform. The caller locks. */
#ifndef CAISSON_FAKE_MEMORY_H
#define CAISSON_FAKE_MEMORY_H

#include "platform/platform.h"

struct fake_page {
	uint64_t addr;
	uint8_t *data; /* one mapped host page */
	int prot, shared, dont_fork;
};

struct fake_memory {
	struct fake_page *pages; /* sorted by address */
	size_t count, size;
};

void fake_memory_free(struct fake_memory *m);
/* Carries out one checked operation. 0 or a negative errno. */
int fake_memory_op(struct fake_memory *m, const struct mem_op *op);
int fake_memory_copy(struct fake_memory *to, const struct fake_memory *from);
/* Bytes moved, short at the first bad page; -EFAULT when none. */
ssize_t fake_memory_access(struct fake_memory *m, uint64_t at, void *buf, size_t len, int write);

#endif
