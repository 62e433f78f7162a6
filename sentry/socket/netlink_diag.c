/* SPDX-License-Identifier: Apache-2.0 */
/* NETLINK_SOCK_DIAG (sock_diag(7)): TCP and UDP sockets, as ss(8) lists them. */
#include <linux/inet_diag.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <string.h>

#include "sentry/socket/inet_priv.h"
#include "sentry/socket/netlink_priv.h"

struct walk {
	struct nl_req *q;
	struct inet_diag_req_v2 rq;
};

static void put(struct endpoint *ep, void *priv)
{
	struct walk *w = priv;
	struct nl_reply *r = w->q->r;
	int state = endpoint_tcp_state(ep);
	struct tcp_table_row row;

	memset(&row, 0, sizeof(row));
	if ((w->rq.sdiag_family == AF_INET6) != ep->v6 || !(w->rq.idiag_states >> state & 1))
		return;
	if (state == 7 && (ep->kind == EP_TCP || !ep->lport))
		return; /* never bound nor connected */
	if (w->rq.id.idiag_sport && ntohs(w->rq.id.idiag_sport) != ep->lport)
		return;
	if (w->rq.id.idiag_dport && ntohs(w->rq.id.idiag_dport) != ep->rport)
		return;
	if (ep->kind == EP_TCP)
		tcp_table_row(ep, &row);
	else
		row.rxq = ep->rq_bytes;
	struct inet_diag_msg *m = nl_begin(r, SOCK_DIAG_BY_FAMILY, 0, sizeof(*m));

	m->idiag_family = ep->v6 ? AF_INET6 : AF_INET;
	m->idiag_state = (uint8_t)state;
	m->idiag_timer = (uint8_t)row.timer;
	m->idiag_retrans = (uint8_t)row.retransmits;
	m->idiag_expires = (uint32_t)(row.timer_left_ns / 1000000u);
	m->id.idiag_sport = htons(ep->lport);
	m->id.idiag_dport = htons(ep->rport);
	if (ep->v6) {
		memcpy(m->id.idiag_src, ep->laddr.b, 16);
		memcpy(m->id.idiag_dst, ep->raddr.b, 16);
	} else {
		m->id.idiag_src[0] = ep->laddr.w[3];
		m->id.idiag_dst[0] = ep->raddr.w[3];
	}
	m->id.idiag_if = ep->o.nic;
	m->id.idiag_cookie[0] = (uint32_t)ep->sockfs_ino;
	m->id.idiag_cookie[1] = 0;
	m->idiag_rqueue = row.rxq;
	m->idiag_wqueue = state == 10 ? row.backlog_max : row.txq;
	m->idiag_uid = ep->o.uid;
	m->idiag_inode = (uint32_t)(ep->owned ? ep->sockfs_ino : 0);
	nl_attr_u8(r, INET_DIAG_SHUTDOWN, ep->shut);
	if (ep->v6)
		nl_attr_u8(r, INET_DIAG_SKV6ONLY, ep->o.v6only);
	if (w->rq.idiag_ext & 1u << (INET_DIAG_MEMINFO - 1)) {
		struct inet_diag_meminfo mi = { .idiag_rmem = row.rxq, .idiag_wmem = row.txq };

		nl_attr(r, INET_DIAG_MEMINFO, &mi, sizeof(mi));
	}
	if (w->rq.idiag_ext & 1u << (INET_DIAG_SKMEMINFO - 1)) {
		uint32_t mi[9] = { row.rxq, (uint32_t)ep->o.rcvbuf, row.txq, (uint32_t)ep->o.sndbuf, 0, 0, 0, 0,
				   (uint32_t)ep->drops };

		nl_attr(r, INET_DIAG_SKMEMINFO, mi, sizeof(mi));
	}
	if (ep->kind == EP_TCP && (w->rq.idiag_ext & 1u << (INET_DIAG_CONG - 1)))
		nl_attr_str(r, INET_DIAG_CONG, "cubic");
	nl_end(r);
}

int diag_request(struct nl_req *q)
{
	struct walk w = { .q = q };
	struct stack *s = inet_stack(q->s);

	if (q->h->nlmsg_type != SOCK_DIAG_BY_FAMILY)
		return -EINVAL;
	if (q->h->nlmsg_len < NLMSG_LENGTH(sizeof(struct sock_diag_req)))
		return -EINVAL;
	const struct sock_diag_req *base = (const void *)(q->h + 1);

	if (base->sdiag_family != AF_INET && base->sdiag_family != AF_INET6)
		return -ENOENT; /* ss(8) then reads /proc/net */
	if (q->h->nlmsg_len < NLMSG_LENGTH(sizeof(w.rq)))
		return -EINVAL;
	memcpy(&w.rq, q->h + 1, sizeof(w.rq));
	if (!q->r->dump)
		return -EOPNOTSUPP;
	/* Protocols over 255 (MPTCP) come in an attribute. */
	if (nl_find(q->h, sizeof(w.rq), 3 /* INET_DIAG_REQ_PROTOCOL */, 4, NULL))
		return -ENOENT;
	if (w.rq.sdiag_protocol != IPPROTO_TCP && w.rq.sdiag_protocol != IPPROTO_UDP &&
	    w.rq.sdiag_protocol != IPPROTO_RAW)
		return -ENOENT;
	stack_lock(s);
	stack_each(s, w.rq.sdiag_protocol == IPPROTO_TCP ? EP_TCP : w.rq.sdiag_protocol == IPPROTO_UDP ? EP_UDP : EP_RAW,
		   put, &w);
	stack_unlock(s);
	return 0;
}
