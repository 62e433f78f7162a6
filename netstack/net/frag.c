/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fragments. Making them: slices of the packet. Putting them together (RFC 791, 8200, 5722): sorted
 * pieces per (source, destination, protocol, id); overlap kills the whole packet; memory, number and
 * age are bounded, and one timer runs while anything waits.
 */
#include <errno.h>
#include <stdlib.h>

#include "netstack/hdr/wire.h"
#include "netstack/net/net_priv.h"

#define FRAG_MEM_MAX (4u << 20)
#define FRAG_PIECES_MAX 128
#define FRAG_LIFE_NS 30000000000ull

struct fragq {
	struct list_head node;
	struct ip_addr src, dst;
	uint32_t id;
	uint8_t proto;
	struct list_head pieces; /* pkts by tcp.seq, their offset */
	uint32_t have, total, mem, count;
	uint64_t expires;
};

static void drop(struct stack *s, struct fragq *q)
{
	s->frag_mem -= q->mem;
	pkt_list_free(&q->pieces);
	list_del(&q->node);
	free(q);
}

static void expire(struct stimer *t)
{
	struct stack *s = container_of(t, struct stack, frag_timer);
	uint64_t now = stack_now(s);

	while (!list_empty(&s->frags)) {
		struct fragq *q = list_first(&s->frags, struct fragq, node);

		if (q->expires > now) {
			stimer_arm(s, &s->frag_timer, q->expires);
			return;
		}
		s->c.ip_reasm_fails++;
		drop(s, q);
	}
}

static struct fragq *find(struct stack *s, const struct pkt *p, uint32_t id)
{
	struct fragq *q;

	list_for_each(q, &s->frags, node)
		if (q->id == id && q->proto == p->proto && ip_eq(&q->src, &p->src) && ip_eq(&q->dst, &p->dst))
			return q;
	q = calloc(1, sizeof(*q));
	if (!q)
		return NULL;
	q->src = p->src;
	q->dst = p->dst;
	q->id = id;
	q->proto = p->proto;
	q->expires = stack_now(s) + FRAG_LIFE_NS;
	list_init(&q->pieces);
	list_add_tail(&q->node, &s->frags);
	if (!s->frag_timer.fn)
		stimer_init(&s->frag_timer, expire);
	if (!stimer_armed(&s->frag_timer))
		stimer_arm(s, &s->frag_timer, q->expires);
	return q;
}

/* All pieces are here: one buffer, with the first piece's metadata. */
static struct pkt *join(struct stack *s, struct fragq *q)
{
	struct pkt *first = list_first(&q->pieces, struct pkt, node), *o;
	struct nbuf *b = nbuf_new(q->total);

	if (!b) {
		drop(s, q);
		return NULL;
	}
	uint32_t max = 0;

	list_for_each(o, &q->pieces, node) {
		pkt_copy(o, 0, b->data + o->tcp.seq, o->len);
		if (o->len > max)
			max = o->len;
	}
	b->used = q->total;
	list_del(&first->node);
	pkt_trim_front(first, first->len);
	first->frag_max = max;
	pkt_add(first, b, 0, q->total);
	nbuf_put(b);
	s->c.ip_reasm_oks++;
	drop(s, q);
	return first;
}

struct pkt *ip_reassemble(struct nic *n, struct pkt *p, uint32_t id, uint32_t off, int more)
{
	struct stack *s = n->stack;
	struct pkt *o, *before = NULL;
	uint32_t end = off + p->len;
	struct fragq *q;

	if (!off && !more) /* an atomic fragment (RFC 6946) */
		return p;
	s->c.ip_reasm_reqds++;
	if ((more && p->len % 8) || !p->len || end > 65535) {
		s->c.ip_reasm_fails++;
		pkt_free(p);
		return NULL;
	}
	while (s->frag_mem + pkt_truesize(p) > FRAG_MEM_MAX && !list_empty(&s->frags)) {
		s->c.ip_reasm_fails++;
		drop(s, list_first(&s->frags, struct fragq, node)); /* the oldest makes room */
	}
	q = find(s, p, id);
	if (!q) {
		pkt_free(p);
		return NULL;
	}
	if (!more) {
		if (q->total && q->total != end)
			goto attack;
		q->total = end;
	}
	if (q->total && end > q->total)
		goto attack;
	list_for_each(o, &q->pieces, node) {
		uint32_t o_end = o->tcp.seq + o->len;

		if (o->tcp.seq == off && o_end == end) { /* a plain duplicate */
			pkt_free(p);
			return NULL;
		}
		if (off < o_end && o->tcp.seq < end)
			goto attack;
		if (!more && o_end > end)
			goto attack;
		if (o->tcp.seq >= end && !before)
			before = o;
	}
	if (q->count == FRAG_PIECES_MAX)
		goto attack;
	p->tcp.seq = off;
	list_add_tail(&p->node, before ? &before->node : &q->pieces);
	q->count++;
	q->have += p->len;
	q->mem += pkt_truesize(p);
	s->frag_mem += pkt_truesize(p);
	return q->total && q->have == q->total ? join(s, q) : NULL;
attack:
	s->c.ip_reasm_fails++;
	pkt_free(p);
	drop(s, q);
	return NULL;
}

int ip_fragment(struct stack *s, struct pkt *p, const struct ip_out *o, struct route_result *r)
{
	int v4 = ip_is_v4(&o->dst);
	uint32_t mtu = r->nic->mtu > 65535 && v4 ? 65535 : r->nic->mtu;
	uint32_t head = v4 ? 20 : 48, piece = (mtu - head) & ~7u;
	uint32_t id = v4 ? s->ip_id++ : stack_random(s);

	if (p->len > 65535 || mtu <= head + 8 || pkt_linearise(p)) {
		s->c.ip_frag_fails++;
		pkt_free(p);
		return -EMSGSIZE;
	}
	for (uint32_t off = 0; off < p->len; off += piece) {
		uint32_t n = p->len - off < piece ? p->len - off : piece;
		int more = off + n < p->len;
		struct pkt *f = pkt_new();

		if (!f)
			break;
		pkt_add(f, p->frag[0].b, p->frag[0].off + off, n);
		f->proto = o->proto;
		f->cleared = p->cleared;
		f->stamp_ns = p->stamp_ns;
		if (v4) {
			ip_push_v4(s, f, o, (uint16_t)id, (uint16_t)(off / 8 | (more ? IPV4_MF : 0)));
		} else {
			struct ipv6_frag_hdr *h = pkt_push(f, sizeof(*h));

			h->next = o->proto;
			h->reserved = 0;
			h->offset = htons((uint16_t)(off | (more ? 1 : 0)));
			h->id = id;
			ip_push_v6(s, f, o, 44);
		}
		s->c.ip_frag_creates++;
		ip_link_output(r, f, o);
	}
	s->c.ip_frag_oks++;
	pkt_free(p);
	return 0;
}
