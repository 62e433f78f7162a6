/* SPDX-License-Identifier: Apache-2.0 */
/* Packet buffers: see pkt.h. */
#include "netstack/pkt.h"

#include <stdlib.h>
#include <string.h>

#include "platform/base/errptr.h"

/*
 * Buffers of full pieces and super-segments, kept for the next one: one thread fills them and another
 * frees them, which makes malloc return their pages to the host and fault them in again. At most
 * SPARES of them; each slot is taken and filled by an atomic exchange, from any thread.
 */
#define SPARES 64
static struct nbuf *g_spare[SPARES]; /* [a] */
static uint32_t g_spare_top;	     /* [a] a hint: where the last one was put */

static struct nbuf *spare_take(void)
{
	uint32_t at = __atomic_load_n(&g_spare_top, __ATOMIC_RELAXED);

	for (uint32_t i = 0; i < SPARES; i++, at = (at + SPARES - 1) % SPARES) {
		struct nbuf *b;

		if (!__atomic_load_n(&g_spare[at], __ATOMIC_RELAXED))
			continue;
		b = __atomic_exchange_n(&g_spare[at], NULL, __ATOMIC_ACQUIRE);
		if (b) {
			__atomic_store_n(&g_spare_top, (at + SPARES - 1) % SPARES, __ATOMIC_RELAXED);
			return b;
		}
	}
	return NULL;
}

/* 1 when kept. */
static int spare_put(struct nbuf *b)
{
	uint32_t at = __atomic_load_n(&g_spare_top, __ATOMIC_RELAXED);

	for (uint32_t i = 0; i < SPARES; i++) {
		struct nbuf *none = NULL;

		at = (at + 1) % SPARES;
		if (__atomic_load_n(&g_spare[at], __ATOMIC_RELAXED))
			continue;
		if (__atomic_compare_exchange_n(&g_spare[at], &none, b, 0, __ATOMIC_RELEASE,
						__ATOMIC_RELAXED)) {
			__atomic_store_n(&g_spare_top, at, __ATOMIC_RELAXED);
			return 1;
		}
	}
	return 0;
}

static uint64_t g_live; /* [a] bytes of all packets and their buffers */

uint64_t pkt_memory(void)
{
	return __atomic_load_n(&g_live, __ATOMIC_RELAXED);
}

static void live_add(size_t n)
{
	__atomic_add_fetch(&g_live, n, __ATOMIC_RELAXED);
}

static void live_sub(size_t n)
{
	__atomic_sub_fetch(&g_live, n, __ATOMIC_RELAXED);
}

struct nbuf *nbuf_new(uint32_t cap)
{
	int big = cap > NBUF_BIG / 2 && cap <= NBUF_BIG;
	struct nbuf *b = big ? spare_take() : NULL;

	if (big)
		cap = NBUF_BIG;
	if (!b)
		b = malloc(sizeof(*b) + cap);
	if (!b)
		return NULL;
	live_add(sizeof(*b) + cap);
	ref_init(&b->ref);
	list_init(&b->node);
	b->cap = cap;
	b->used = b->start = 0;
	return b;
}

void nbuf_put(struct nbuf *b)
{
	if (!ref_put(&b->ref))
		return;
	live_sub(sizeof(*b) + b->cap);
	if (b->cap != NBUF_BIG || !spare_put(b))
		free(b);
}

struct pkt *pkt_new(void)
{
	struct pkt *p = malloc(sizeof(*p));

	if (!p)
		return NULL;
	live_add(sizeof(*p));
	memset(p, 0, offsetof(struct pkt, frag));
	list_init(&p->node);
	p->head = PKT_HEADROOM;
	return p;
}

static void drop_frags(struct pkt *p)
{
	for (uint32_t i = 0; i < p->frag_count; i++)
		nbuf_put(p->frag[i].b);
	p->frag_count = 0;
}

void pkt_free(struct pkt *p)
{
	if (!p)
		return;
	drop_frags(p);
	live_sub(sizeof(*p));
	free(p);
}

void pkt_list_free(struct list_head *l)
{
	while (!list_empty(l)) {
		struct pkt *p = list_first(l, struct pkt, node);

		list_del(&p->node);
		pkt_free(p);
	}
}

struct pkt *pkt_clone(const struct pkt *p)
{
	struct pkt *c = malloc(sizeof(*c));

	if (!c)
		return NULL;
	live_add(sizeof(*c));
	memcpy(c, p, sizeof(*c));
	list_init(&c->node);
	for (uint32_t i = 0; i < c->frag_count; i++)
		nbuf_get(c->frag[i].b);
	return c;
}

int pkt_add(struct pkt *p, struct nbuf *b, uint32_t off, uint32_t len)
{
	if (p->frag_count == PKT_FRAGS)
		return -ENOBUFS;
	p->frag[p->frag_count++] = (struct pkt_frag){ nbuf_get(b), off, len };
	p->len += len;
	return 0;
}

void *pkt_push(struct pkt *p, uint32_t n)
{
	ASSERT(n <= p->head);
	p->head = (uint16_t)(p->head - n);
	p->hlen = (uint16_t)(p->hlen + n);
	p->len += n;
	return p->hdr + p->head;
}

static void frag_shift(struct pkt *p)
{
	nbuf_put(p->frag[0].b);
	memmove(p->frag, p->frag + 1, (size_t)(--p->frag_count) * sizeof(*p->frag));
}

int pkt_copy(const struct pkt *p, uint32_t off, void *to, uint32_t n)
{
	uint8_t *d = to;

	if (off > p->len || n > p->len - off)
		return -EINVAL;
	if (off < p->hlen) {
		uint32_t take = p->hlen - off < n ? p->hlen - off : n;

		memcpy(d, p->hdr + p->head + off, take);
		d += take;
		n -= take;
		off = 0;
	} else {
		off -= p->hlen;
	}
	for (uint32_t i = 0; n && i < p->frag_count; i++) {
		const struct pkt_frag *f = &p->frag[i];

		if (off >= f->len) {
			off -= f->len;
			continue;
		}
		uint32_t take = f->len - off < n ? f->len - off : n;

		memcpy(d, f->b->data + f->off + off, take);
		d += take;
		n -= take;
		off = 0;
	}
	return 0;
}

void pkt_trim_front(struct pkt *p, uint32_t n)
{
	ASSERT(n <= p->len);
	p->len -= n;
	uint32_t take = n < p->hlen ? n : p->hlen;

	p->head = (uint16_t)(p->head + take);
	p->hlen = (uint16_t)(p->hlen - take);
	n -= take;
	while (n) {
		struct pkt_frag *f = &p->frag[0];

		if (n < f->len) {
			f->off += n;
			f->len -= n;
			return;
		}
		n -= f->len;
		frag_shift(p);
	}
}

void pkt_trim_end(struct pkt *p, uint32_t n)
{
	ASSERT(n <= p->len);
	p->len -= n;
	while (n && p->frag_count) {
		struct pkt_frag *f = &p->frag[p->frag_count - 1];

		if (n < f->len) {
			f->len -= n;
			return;
		}
		n -= f->len;
		nbuf_put(f->b);
		p->frag_count--;
	}
	p->hlen = (uint16_t)(p->hlen - n);
}

void *pkt_pull(struct pkt *p, uint32_t n)
{
	void *at;

	if (n > p->len)
		return NULL;
	if (n <= p->hlen) {
		at = p->hdr + p->head;
		p->head = (uint16_t)(p->head + n);
		p->hlen = (uint16_t)(p->hlen - n);
		p->len -= n;
		return at;
	}
	if (!p->hlen && p->frag[0].len > n) {
		at = p->frag[0].b->data + p->frag[0].off;
		p->frag[0].off += n;
		p->frag[0].len -= n;
		p->len -= n;
		return at;
	}
	/* Straddles pieces, or would free the last one: gather in the header area. */
	ASSERT(n <= PKT_HEADROOM);
	uint8_t tmp[PKT_HEADROOM];

	pkt_copy(p, 0, tmp, n);
	pkt_trim_front(p, n);
	ASSERT(!p->hlen);
	memcpy(p->hdr, tmp, n);
	p->head = PKT_HEADROOM;
	return p->hdr;
}

ssize_t pkt_to_uio(const struct pkt *p, uint32_t off, uint32_t n, struct uio *u)
{
	size_t done = 0;

	if (off > p->len)
		return 0;
	if (n > p->len - off)
		n = p->len - off;
	for (int i = -1; n && i < (int)p->frag_count; i++) {
		const uint8_t *data = i < 0 ? p->hdr + p->head : p->frag[i].b->data + p->frag[i].off;
		uint32_t len = i < 0 ? p->hlen : p->frag[i].len;

		if (off >= len) {
			off -= len;
			continue;
		}
		uint32_t take = len - off < n ? len - off : n;
		ssize_t got = uio_copy_out(u, data + off, take);

		if (got < 0)
			return done ? (ssize_t)done : got;
		done += (size_t)got;
		if ((size_t)got < take)
			break;
		n -= take;
		off = 0;
	}
	return (ssize_t)done;
}

struct pkt *pkt_from_uio(struct uio *u, uint32_t n)
{
	struct pkt *p = pkt_new();
	struct nbuf *b = nbuf_new(n);
	ssize_t got;

	if (!p || !b)
		got = -ENOBUFS;
	else
		got = uio_copy_in(u, b->data, n);
	if (got >= 0 && (size_t)got < n)
		got = -EFAULT;
	if (got < 0) {
		pkt_free(p);
		if (b)
			nbuf_put(b);
		return ERR_PTR(got);
	}
	b->used = n;
	if (n)
		pkt_add(p, b, 0, n);
	nbuf_put(b);
	return p;
}

struct pkt *pkt_from_mem(const void *data, uint32_t n)
{
	struct uio u;

	uio_init_kernel(&u, (void *)(uintptr_t)data, n);
	struct pkt *p = pkt_from_uio(&u, n);

	return IS_ERR(p) ? NULL : p;
}

int pkt_linearise(struct pkt *p)
{
	struct nbuf *b = nbuf_new(p->len);

	if (!b)
		return -ENOBUFS;
	pkt_copy(p, 0, b->data, p->len);
	b->used = p->len;
	drop_frags(p);
	p->hlen = 0;
	p->head = PKT_HEADROOM;
	uint32_t len = p->len;

	p->len = 0;
	if (len)
		pkt_add(p, b, 0, len);
	nbuf_put(b);
	return 0;
}
