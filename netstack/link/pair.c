/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pair link: see pair.h.
 *
 * Frames to be sent gather under the stack lock and go out in one sendmmsg when it is released. When
 * the socket is full, `blocked` is set and they stay; the sending thread sleeps in poll(2) until there
 * is room, or the loop asks for EPOLLOUT. TCP's frames are slices of send queues, which are bounded by
 * their windows; everything else is bounded by LOOSE_MAX, and dropped beyond, as a full interface
 * queue drops.
 */
#include "netstack/link/pair.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "netstack/link/vnet.h"
#include "netstack/stack_priv.h"
#include "platform/base/log.h"
#include "platform/base/thread.h"

#define BATCH 16
#define QUEUE_MAX (16u << 20)
#define LOOSE_MAX (1u << 20)
#define QUEUE_FRAMES 8192u

struct pair_link {
	int fd;
	struct nic *nic;
	/* Under the stack lock: */
	struct list_head tx; /* pkts */
	uint32_t tx_count, tx_bytes, loose_bytes;
	int blocked, gone;
	/* The sending thread's alarm; taken inside the stack lock. */
	pthread_mutex_t m;
	pthread_cond_t full;
	int wanted; /* [m] */
	struct nbuf *rx[BATCH]; /* the receiver's */
};

/* ---- sending ---- */

static void drop_first(struct pair_link *l)
{
	struct pkt *p = list_first(&l->tx, struct pkt, node);

	list_del(&p->node);
	l->tx_count--;
	l->tx_bytes -= p->len;
	if (p->proto != IPPROTO_TCP)
		l->loose_bytes -= p->len;
	pkt_free(p);
}

static void block(struct pair_link *l)
{
	l->blocked = 1;
	pthread_mutex_lock(&l->m);
	l->wanted = 1;
	pthread_cond_signal(&l->full);
	pthread_mutex_unlock(&l->m);
}

/* #hostcalls: sendmmsg */
static void tx_flush(struct nic *n)
{
	struct pair_link *l = n->priv;

	while (!list_empty(&l->tx) && !l->blocked) {
		struct virtio_net_hdr v[BATCH];
		struct iovec iov[BATCH][2 + PKT_FRAGS];
		struct mmsghdr m[BATCH];
		struct pkt *p;
		uint32_t count = 0;

		memset(m, 0, sizeof(m));
		list_for_each(p, &l->tx, node) {
			struct iovec *io = iov[count];
			uint32_t k = 0;

			vnet_fill(p, &v[count]);
			io[k++] = (struct iovec){ &v[count], sizeof(v[0]) };
			io[k++] = (struct iovec){ p->hdr + p->head, p->hlen };
			for (uint32_t i = 0; i < p->frag_count; i++)
				io[k++] = (struct iovec){ p->frag[i].b->data + p->frag[i].off, p->frag[i].len };
			m[count].msg_hdr.msg_iov = io;
			m[count].msg_hdr.msg_iovlen = k;
			if (++count == BATCH)
				break;
		}
		int r = l->gone ? -1 : sendmmsg(l->fd, m, count, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (r < 0 && !l->gone && errno == EINTR)
			continue;
		if (r < 0 && !l->gone && errno == EAGAIN) {
			block(l);
			return;
		}
		if (r <= 0) { /* the other side is gone, or no memory for this one */
			n->stats.tx_dropped++;
			r = 1;
		}
		while (r--)
			drop_first(l);
	}
}

static void tx(struct nic *n, struct pkt *p)
{
	struct pair_link *l = n->priv;
	int loose = p->proto != IPPROTO_TCP;

	if (l->gone || l->tx_count >= QUEUE_FRAMES || l->tx_bytes + p->len > QUEUE_MAX ||
	    (loose && l->loose_bytes + p->len > LOOSE_MAX)) {
		n->stats.tx_dropped++;
		pkt_free(p);
		return;
	}
	list_add_tail(&p->node, &l->tx);
	l->tx_bytes += p->len;
	if (loose)
		l->loose_bytes += p->len;
	if (++l->tx_count % BATCH == 0)
		tx_flush(n);
}

/* #hostcalls: poll */
static void *tx_main(void *arg)
{
	struct pair_link *l = arg;
	struct stack *s = l->nic->stack;

	for (;;) {
		struct pollfd pfd = { .fd = l->fd, .events = POLLOUT };

		pthread_mutex_lock(&l->m);
		while (!l->wanted)
			pthread_cond_wait(&l->full, &l->m);
		l->wanted = 0;
		pthread_mutex_unlock(&l->m);
		while (poll(&pfd, 1, -1) < 0 && errno == EINTR)
			;
		stack_lock(s);
		l->blocked = 0;
		stack_unlock(s);
	}
	return NULL;
}

int pair_blocked(const struct nic *n)
{
	return ((const struct pair_link *)n->priv)->blocked;
}

void pair_writable(struct nic *n)
{
	lock_assert_held(&n->stack->lock);
	((struct pair_link *)n->priv)->blocked = 0;
}

/* ---- receiving ---- */

/* One recvmmsg; see pair_receive(). #hostcalls: recvmmsg */
static int receive(struct pair_link *l, int flags)
{
	struct stack *s = l->nic->stack;
	struct iovec iov[BATCH];
	struct mmsghdr m[BATCH];
	struct pkt *p[BATCH];
	uint32_t ready = 0;
	int r, end = 0;

	memset(m, 0, sizeof(m));
	for (; ready < BATCH; ready++) {
		if (!l->rx[ready])
			l->rx[ready] = nbuf_new(VNET_RX_SIZE);
		if (!l->rx[ready])
			break;
		iov[ready] = (struct iovec){ l->rx[ready]->data, VNET_RX_SIZE };
		m[ready].msg_hdr.msg_iov = &iov[ready];
		m[ready].msg_hdr.msg_iovlen = 1;
	}
	if (!ready)
		return -ENOMEM;
	r = recvmmsg(l->fd, m, ready, flags, NULL);
	if (r < 0)
		return -errno;
	for (int i = 0; i < r; i++) {
		/* What does not fit is no frame of ours. */
		p[i] = m[i].msg_hdr.msg_flags & MSG_TRUNC ? NULL : vnet_frame(&l->rx[i], m[i].msg_len);
		end |= !m[i].msg_len;
	}
	stack_lock(s);
	for (int i = 0; i < r; i++)
		if (p[i])
			nic_input(l->nic, p[i]);
	stack_unlock(s);
	return end || !r ? -EPIPE : r;
}

int pair_receive(struct nic *n)
{
	return receive(n->priv, MSG_DONTWAIT);
}

/* #hostcalls: poll */
static void *rx_main(void *arg)
{
	struct pair_link *l = arg;
	struct nic *n = l->nic;

	for (;;) {
		int r = receive(l, MSG_WAITFORONE);

		if (r == -ENOMEM || r == -ENOBUFS)
			poll(NULL, 0, 1);
		else if (r < 0 && r != -EINTR && r != -EAGAIN)
			break;
	}
	log_error("link %s: the other side is gone; the network is down", n->name);
	stack_lock(n->stack);
	l->gone = 1;
	l->blocked = 0;
	nic_lost(n);
	stack_unlock(n->stack);
	return NULL;
}

struct nic *pair_new(struct stack *s, const char *name, int fd, const uint8_t mac[6], uint32_t mtu)
{
	struct pair_link *l = calloc(1, sizeof(*l));
	struct nic *n = l ? nic_new(s, name, mtu, NIC_UP | NIC_ARP | NIC_CSUM_TX | NIC_GSO) : NULL;

	if (!n) {
		free(l);
		return NULL;
	}
	l->fd = fd;
	l->nic = n;
	list_init(&l->tx);
	pthread_mutex_init(&l->m, NULL);
	pthread_cond_init(&l->full, NULL);
	memcpy(n->mac, mac, 6);
	n->xmit = tx;
	n->flush = tx_flush;
	n->start = pair_start;
	n->priv = l;
	return n;
}

int pair_start(struct nic *n)
{
	int err = thread_start("net-rx", rx_main, n->priv);

	return err ? err : thread_start("net-tx", tx_main, n->priv);
}
