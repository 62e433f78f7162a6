/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Intrusive doubly linked lists. A list owns nothing; the object that embeds a
 * node decides which lock protects it.
 */
#ifndef CAISSON_LIST_H
#define CAISSON_LIST_H

#include <stddef.h>

#define container_of(ptr, type, member) \
	((type *)((char *)(ptr) - offsetof(type, member)))

struct list_head {
	struct list_head *next, *prev;
};

#define LIST_HEAD_INIT(name) { &(name), &(name) }

static inline void list_init(struct list_head *h)
{
	h->next = h->prev = h;
}

static inline int list_empty(const struct list_head *h)
{
	return h->next == h;
}

static inline void list_insert_between(struct list_head *n, struct list_head *prev,
				       struct list_head *next)
{
	n->prev = prev;
	n->next = next;
	prev->next = n;
	next->prev = n;
}

/* Adds n just after h (the head of the list if h is the list). */
static inline void list_add(struct list_head *n, struct list_head *h)
{
	list_insert_between(n, h, h->next);
}

/* Adds n just before h (the tail of the list if h is the list). */
static inline void list_add_tail(struct list_head *n, struct list_head *h)
{
	list_insert_between(n, h->prev, h);
}

/* Removes n and leaves it initialised, so that a second list_del is harmless. */
static inline void list_del(struct list_head *n)
{
	n->prev->next = n->next;
	n->next->prev = n->prev;
	list_init(n);
}

/* Moves all of src to the tail of dst; src is empty afterwards. */
static inline void list_splice_tail(struct list_head *src, struct list_head *dst)
{
	if (list_empty(src))
		return;
	src->next->prev = dst->prev;
	dst->prev->next = src->next;
	src->prev->next = dst;
	dst->prev = src->prev;
	list_init(src);
}

#define list_entry(ptr, type, member) container_of(ptr, type, member)
#define list_first(h, type, member) list_entry((h)->next, type, member)
#define list_last(h, type, member) list_entry((h)->prev, type, member)

#define list_for_each(pos, h, member)                                            \
	for (pos = list_entry((h)->next, __typeof__(*pos), member); &pos->member != (h); \
	     pos = list_entry(pos->member.next, __typeof__(*pos), member))

/* Safe against removal of pos inside the body. */
#define list_for_each_safe(pos, tmp, h, member)                                  \
	for (pos = list_entry((h)->next, __typeof__(*pos), member),                \
	    tmp = list_entry(pos->member.next, __typeof__(*pos), member);          \
	     &pos->member != (h);                                                \
	     pos = tmp, tmp = list_entry(tmp->member.next, __typeof__(*tmp), member))

#endif
