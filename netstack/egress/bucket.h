/* SPDX-License-Identifier: Apache-2.0 */
/* A token bucket: so much a second, and a burst of so much at once. No lock of its own. */
#ifndef CAISSON_EGRESS_BUCKET_H
#define CAISSON_EGRESS_BUCKET_H

#include <stdint.h>

struct egress_bucket {
	uint64_t rate, burst; /* a second; rate 0: no limit */
	uint64_t tokens, last_ns;
};

static inline void egress_bucket_init(struct egress_bucket *b, uint64_t rate, uint64_t burst, uint64_t now_ns)
{
	*b = (struct egress_bucket){ rate, burst, burst, now_ns };
}

/* Takes n tokens and says 1, or takes none and says 0. More than a burst waits for a full bucket. */
static inline int egress_bucket_take(struct egress_bucket *b, uint64_t n, uint64_t now_ns)
{
	uint64_t more;

	if (!b->rate)
		return 1;
	if (now_ns > b->last_ns) {
		uint64_t passed = now_ns - b->last_ns;

		/* A second fills any bucket whose burst is no more than its rate. */
		if (passed > 10000000000ull)
			passed = 10000000000ull;
		more = (uint64_t)((unsigned __int128)passed * b->rate / 1000000000u);
		if (more) { /* what is left of a token stays in the clock */
			b->last_ns += (uint64_t)((unsigned __int128)more * 1000000000u / b->rate);
			if (now_ns - b->last_ns > 10000000000ull)
				b->last_ns = now_ns;
			b->tokens = more > b->burst - b->tokens ? b->burst : b->tokens + more;
		}
	}
	if (n > b->burst)
		n = b->burst;
	if (b->tokens < n)
		return 0;
	b->tokens -= n;
	return 1;
}

#endif
