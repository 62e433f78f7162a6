/* SPDX-License-Identifier: Apache-2.0 */
/* Interfaces and their addresses. Frames of Ethernet-like links enter through link/ether.c. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "netstack/stack_priv.h"

struct nic *nic_new(struct stack *s, const char *name, uint32_t mtu, uint32_t flags)
{
	struct nic *n = calloc(1, sizeof(*n));

	if (!n)
		return NULL;
	n->stack = s;
	n->index = s->next_nic++;
	n->mtu = mtu;
	n->flags = flags;
	n->tx_queue_len = 1000;
	strncpy(n->name, name, NIC_NAME - 1);
	list_add_tail(&n->node, &s->nics);
	return n;
}

struct nic *nic_find(struct stack *s, uint32_t index)
{
	struct nic *n;

	list_for_each(n, &s->nics, node)
		if (n->index == index)
			return n;
	return NULL;
}

struct nic *nic_by_name(struct stack *s, const char *name)
{
	struct nic *n;

	list_for_each(n, &s->nics, node)
		if (!strcmp(n->name, name))
			return n;
	return NULL;
}

int nic_add_addr(struct nic *n, const struct nic_addr *a)
{
	for (uint32_t i = 0; i < n->addr_count; i++)
		if (ip_eq(&n->addr[i].addr, &a->addr) && n->addr[i].plen == a->plen)
			return -EEXIST;
	if (n->addr_count == NIC_ADDRS)
		return -ENOBUFS;
	n->addr[n->addr_count++] = *a;
	return 0;
}

int nic_del_addr(struct nic *n, const struct ip_addr *a, uint32_t plen)
{
	for (uint32_t i = 0; i < n->addr_count; i++)
		if (ip_eq(&n->addr[i].addr, a) && n->addr[i].plen == plen) {
			memmove(&n->addr[i], &n->addr[i + 1],
				(n->addr_count - i - 1) * sizeof(n->addr[0]));
			n->addr_count--;
			return 0;
		}
	return -EADDRNOTAVAIL;
}

void nic_lost(struct nic *n)
{
	struct endpoint *ep, *tmp;

	lock_assert_held(&n->stack->lock);
	n->flags &= ~NIC_UP;
	list_for_each_safe(ep, tmp, &n->stack->all[EP_TCP], all_node)
		for (uint32_t i = 0; i < n->addr_count; i++)
			if (ip_eq(&n->addr[i].addr, &ep->laddr)) {
				tcp_abort(ep, ENETDOWN);
				break;
			}
}

struct nic *stack_local(struct stack *s, const struct ip_addr *a)
{
	struct nic *n;

	list_for_each(n, &s->nics, node) {
		if (!(n->flags & NIC_UP))
			continue;
		for (uint32_t i = 0; i < n->addr_count; i++) {
			if (ip_eq(&n->addr[i].addr, a))
				return n;
			/* All of an IPv4 network on lo is local. */
			if ((n->flags & NIC_LOOPBACK) && ip_is_v4(a) && ip_is_v4(&n->addr[i].addr) &&
			    ip_match(a, &n->addr[i].addr, n->addr[i].plen))
				return n;
		}
	}
	return NULL;
}

int stack_is_broadcast(struct stack *s, const struct ip_addr *a)
{
	struct nic *n;

	if (!ip_is_v4(a))
		return 0;
	if (ip_is_broadcast(a))
		return 1;
	list_for_each(n, &s->nics, node)
		for (uint32_t i = 0; i < n->addr_count; i++) {
			const struct nic_addr *na = &n->addr[i];

			if (!ip_is_v4(&na->addr))
				continue;
			if (!ip_is_any(&na->broadcast) && ip_eq(&na->broadcast, a))
				return 1;
			if ((n->flags & NIC_LOOPBACK) && a->w[3] == htonl(0x7fffffff))
				return 1;
		}
	return 0;
}
