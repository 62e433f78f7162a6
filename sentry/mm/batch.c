/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host orders held back while an image is built, to go in one handoff. Neighbouring pieces of one
 * file become one mapping whose parts are then protected: mapping a file is the dear order, since
 * the descriptor has to be lent.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sentry/mm/mm_priv.h"

#define BATCH_MAX 32

struct mm_batch {
	struct mem_op ops[BATCH_MAX];
	size_t count;
	size_t last_map; /* index of the last MEM_MAP; what follows it are its MEM_PROTECTs */
};

int mm_batch_begin(struct mm *mm)
{
	if (!mm->batch)
		mm->batch = calloc(1, sizeof(*mm->batch));
	return mm->batch ? 0 : -ENOMEM;
}

static int flush(struct mm_batch *b, struct context *ctx)
{
	int err = b->count ? context_mem(ctx, b->ops, b->count, NULL) : 0;

	b->count = 0;
	return err;
}

int mm_batch_end(struct mm *mm, struct context *ctx)
{
	int err = mm->batch ? flush(mm->batch, ctx) : 0;

	mm_batch_free(mm);
	return err;
}

void mm_batch_free(struct mm *mm)
{
	free(mm->batch);
	mm->batch = NULL;
}

/* Does op go on where the last mapping ends, in memory and in the file? */
static int goes_on(const struct mem_op *last, const struct mem_op *op)
{
	return last->kind == MEM_MAP && op->kind == MEM_MAP && last->fd >= 0 && op->fd == last->fd &&
	       op->flags == last->flags && (op->flags & MAP_PRIVATE) &&
	       op->addr == last->addr + last->len && op->off == last->off + last->len &&
	       !(op->prot & PROT_WRITE) && !(last->prot & PROT_WRITE);
}

int batch_or_order(struct mm *mm, struct context *ctx, const struct mem_op *ops, size_t count)
{
	struct mm_batch *b = mm ? mm->batch : NULL;
	int err = 0;

	if (!b)
		return context_mem(ctx, ops, count, NULL);
	for (size_t i = 0; i < count && !err; i++) {
		struct mem_op op = ops[i];

		if (b->count && goes_on(&b->ops[b->last_map], &op) && b->count < BATCH_MAX) {
			struct mem_op *last = &b->ops[b->last_map];

			last->len += op.len;
			if (op.prot == last->prot)
				continue;
			op = (struct mem_op){ .kind = MEM_PROTECT, .addr = op.addr, .len = op.len,
					      .prot = op.prot, .fd = -1 };
		} else if (b->count == BATCH_MAX) {
			err = flush(b, ctx);
		}
		if (op.kind != MEM_PROTECT) /* nothing is joined across other orders */
			b->last_map = b->count;
		b->ops[b->count++] = op;
	}
	return err;
}
