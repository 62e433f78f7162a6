/* SPDX-License-Identifier: Apache-2.0 */
/* AF_PACKET links: see packet.h. */
#include "netstack/link/packet.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "netstack/link/vnet.h"
#include "netstack/stack_priv.h"
#include "platform/base/log.h"
#include "platform/base/thread.h"

#define RX_BATCH 32
#define TX_BATCH 64

struct packet_link {
	int fd;
	struct nic *nic;
	struct list_head tx; /* pkts, under the stack lock */
	uint32_t tx_count;
	struct nbuf *rx[RX_BATCH]; /* the receiving thread's */
};

/* ---- sending ---- */

/* #hostcalls: sendmmsg */
static void tx_flush(struct nic *n)
{
	struct packet_link *l = n->priv;

	while (!list_empty(&l->tx)) {
		struct virtio_net_hdr v[TX_BATCH];
		struct iovec iov[TX_BATCH][2 + PKT_FRAGS];
		struct mmsghdr m[TX_BATCH];
		struct pkt *p;
		uint32_t count = 0, sent = 0;

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
			if (++count == TX_BATCH)
				break;
		}
		int r = sendmmsg(l->fd, m, count, MSG_DONTWAIT);

		if (r < 0 && errno == EINTR)
			continue;
		/* A full queue or a refused frame: dropped, as a wire would. */
		sent = r > 0 ? (uint32_t)r : 1;
		if (r <= 0)
			n->stats.tx_dropped++;
		while (sent--) {
			p = list_first(&l->tx, struct pkt, node);
			list_del(&p->node);
			pkt_free(p);
			l->tx_count--;
		}
	}
}

static void tx(struct nic *n, struct pkt *p)
{
	struct packet_link *l = n->priv;

	list_add_tail(&p->node, &l->tx);
	if (++l->tx_count >= TX_BATCH)
		tx_flush(n);
}

/* ---- receiving ---- */

/* #hostcalls: recvmmsg */
static void *rx_main(void *arg)
{
	struct packet_link *l = arg;
	struct stack *s = l->nic->stack;

	for (;;) {
		struct iovec iov[RX_BATCH];
		struct mmsghdr m[RX_BATCH];
		uint32_t ready = 0;

		memset(m, 0, sizeof(m));
		for (; ready < RX_BATCH; ready++) {
			if (!l->rx[ready])
				l->rx[ready] = nbuf_new(VNET_RX_SIZE);
			if (!l->rx[ready])
				break;
			iov[ready] = (struct iovec){ l->rx[ready]->data, VNET_RX_SIZE };
			m[ready].msg_hdr.msg_iov = &iov[ready];
			m[ready].msg_hdr.msg_iovlen = 1;
		}
		if (!ready) {
			thread_nap(1000000);
			continue;
		}
		int r = recvmmsg(l->fd, m, ready, MSG_WAITFORONE, NULL);

		if (r < 0) {
			if (errno == EINTR || errno == ENETDOWN || errno == ENOBUFS)
				continue;
			log_error("link %s: %s", l->nic->name, strerror(errno));
			return NULL;
		}
		struct pkt *p[RX_BATCH];

		for (int i = 0; i < r; i++)
			p[i] = vnet_frame(&l->rx[i], m[i].msg_len);
		stack_lock(s);
		for (int i = 0; i < r; i++) {
			s->burst = (uint32_t)(r - i - 1);
			if (p[i])
				nic_input(l->nic, p[i]);
		}
		stack_unlock(s);
	}
}

struct nic *packet_new(struct stack *s, const char *name, int fd, const uint8_t mac[6], uint32_t mtu)
{
	struct packet_link *l = calloc(1, sizeof(*l));
	struct nic *n = l ? nic_new(s, name, mtu, NIC_UP | NIC_ARP | NIC_CSUM_TX | NIC_GSO) : NULL;

	if (!n) {
		free(l);
		return NULL;
	}
	l->fd = fd;
	l->nic = n;
	list_init(&l->tx);
	memcpy(n->mac, mac, 6);
	n->xmit = tx;
	n->flush = tx_flush;
	n->start = packet_start;
	n->priv = l;
	return n;
}

int packet_start(struct nic *n)
{
	return thread_start("net-rx", rx_main, n->priv);
}
