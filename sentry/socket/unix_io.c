/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AF_UNIX data transfer. Guest memory is copied into an skb before the layer lock is taken, and out
 * of an skb under the receiver's io_lock only, so no lock that another socket needs is held over a
 * copy.
 */
#include <stdlib.h>
#include <string.h>

#include "sentry/socket/unix_priv.h"

void unix_skb_free(struct unix_skb *skb)
{
	sock_cred_put(&skb->cred);
	scm_free(skb->scm);
	free(skb);
}

void unix_queue_take(struct unix_sock *u, struct list_head *list)
{
	struct unix_layer *l = unix_layer_of(u);
	struct unix_skb *skb;

	lock_assert_held(&l->lock);
	list_for_each(skb, &u->rq, node)
		if (skb->scm)
			unix_inflight(l, skb->scm, -1);
	list_splice_tail(&u->rq, list);
	u->rq_bytes = 0;
	u->rq_count = 0;
}

/*
 * What the queue of u costs: a message has a price of its own, or empty ones, or one byte with a
 * few hundred files, would fill memory without ever filling the buffer. The price is Linux's.
 */
static size_t queue_charge(const struct unix_sock *u)
{
	return u->rq_bytes + (size_t)u->rq_count * UNIX_SKB_PRICE;
}

/* Room in `to` for a write of u; datagrams count by number and by bytes. */
static int has_room(const struct unix_sock *u, const struct unix_sock *to)
{
	if (unix_is_stream(u))
		return queue_charge(to) < (size_t)u->s.sndbuf;
	return to->rq_count < UNIX_DGRAM_QLEN + 1 || to->peer == u;
}

static int dgram_full(const struct unix_sock *u, const struct unix_sock *to)
{
	return !has_room(u, to) || queue_charge(to) > (size_t)u->s.sndbuf;
}

uint32_t unix_poll(struct socket *s)
{
	struct unix_sock *u = unix_of(s);
	struct unix_layer *l = unix_layer_of(u);
	uint32_t mask = 0;

	lock_acquire(&l->lock);
	if (s->error)
		mask |= POLLERR;
	if (u->shut == 3)
		mask |= POLLHUP;
	if (u->shut & 1)
		mask |= POLLRDHUP | POLLIN | POLLRDNORM;
	if (s->listening) {
		if (!list_empty(&u->backlog))
			mask |= POLLIN | POLLRDNORM;
	} else {
		if (!list_empty(&u->rq))
			mask |= POLLIN | POLLRDNORM;
		if (unix_is_stream(u)) {
			if (!u->connected)
				mask |= POLLOUT | POLLHUP | POLLWRNORM;
			else if (!u->peer || queue_charge(u->peer) <= (size_t)s->sndbuf / 2)
				mask |= POLLOUT | POLLWRNORM | POLLWRBAND;
		} else if (!u->peer || !dgram_full(u, u->peer)) {
			mask |= POLLOUT | POLLWRNORM | POLLWRBAND;
		}
	}
	lock_release(&l->lock);
	return mask;
}

/* ---- sending ---- */

/* Copies up to n guest bytes into a fresh skb that belongs to m's sender. */
static struct unix_skb *skb_from(struct sock_msg *m, size_t n)
{
	struct unix_skb *skb = malloc(sizeof(*skb) + n);

	if (!skb)
		return ERR_PTR(-ENOBUFS);
	memset(skb, 0, sizeof(*skb));
	ssize_t got = uio_copy_in(m->u, skb->data, n);

	if (got < 0 || (size_t)got < n) {
		/* A message goes whole or not at all; a stream gives the part before the bad page. */
		if (got <= 0) {
			free(skb);
			return ERR_PTR(got < 0 ? got : -EFAULT);
		}
	}
	skb->len = (size_t)got;
	sock_cred_copy(&skb->cred, &m->cred);
	return skb;
}

static void enqueue(struct unix_sock *to, struct unix_skb *skb)
{
	struct unix_layer *l = unix_layer_of(to);

	lock_assert_held(&l->lock);
	if (skb->scm)
		unix_inflight(l, skb->scm, 1);
	list_add_tail(&skb->node, &to->rq);
	to->rq_bytes += skb->len;
	to->rq_count++;
}

/* The peer of a connected socket with a reference, or an errno. want_room: -EAGAIN when full. */
static struct unix_sock *stream_peer(struct unix_sock *u)
{
	struct unix_layer *l = unix_layer_of(u);
	struct unix_sock *peer;

	lock_acquire(&l->lock);
	if (u->shut & 2)
		peer = ERR_PTR(-EPIPE);
	else if (!u->connected)
		peer = ERR_PTR(-ENOTCONN);
	else if (!u->peer)
		peer = ERR_PTR(-EPIPE);
	else if (!has_room(u, u->peer))
		peer = ERR_PTR(-EAGAIN);
	else
		peer = unix_get(u->peer);
	lock_release(&l->lock);
	return peer;
}

static ssize_t send_stream(struct unix_sock *u, struct sock_msg *m)
{
	struct unix_layer *l = unix_layer_of(u);
	int packet = u->s.type == SOCK_SEQPACKET;
	size_t done = 0, total = m->u->left;

	if (m->flags & MSG_OOB)
		return -EOPNOTSUPP;
	if (packet && total > (size_t)u->s.sndbuf - 32)
		return -EMSGSIZE;
	/* A stream write of nothing sends nothing; an empty packet is a packet. */
	if (!total && !packet)
		return 0;
	do {
		struct unix_sock *peer = stream_peer(u);

		if (IS_ERR(peer))
			return done ? (ssize_t)done : PTR_ERR(peer);
		size_t n = total - done;

		if (!packet && n > UNIX_SKB_MAX)
			n = UNIX_SKB_MAX;
		struct unix_skb *skb = skb_from(m, n);

		if (IS_ERR(skb) || (packet && skb->len < n)) {
			long err = IS_ERR(skb) ? PTR_ERR(skb) : -EFAULT;

			if (!IS_ERR(skb))
				unix_skb_free(skb);
			unix_put(peer);
			return done ? (ssize_t)done : err;
		}
		lock_acquire(&l->lock);
		int gone = u->peer != peer || (u->shut & 2);

		if (!gone) {
			skb->scm = m->scm; /* files travel with the first bytes */
			m->scm = NULL;
			done += skb->len;
			n -= skb->len;
			enqueue(peer, skb);
		}
		lock_release(&l->lock);
		if (gone)
			unix_skb_free(skb);
		else
			waitq_wake(&peer->s.wq, POLLIN | POLLRDNORM | POLLRDBAND);
		unix_put(peer);
		if (gone)
			return done ? (ssize_t)done : -EPIPE;
		if (n) /* a bad page after some good ones */
			break;
	} while (done < total);
	return (ssize_t)done;
}

static ssize_t send_dgram(struct unix_sock *u, struct task *t, struct sock_msg *m, struct socket **wait_on)
{
	struct unix_layer *l = unix_layer_of(u);
	struct unix_sock *to;
	size_t n = m->u->left;
	ssize_t ret;

	if (m->flags & MSG_OOB)
		return -EOPNOTSUPP;
	if (n > (size_t)u->s.sndbuf - 32)
		return -EMSGSIZE;
	if (u->s.passcred && !u->addr_len) {
		int err = unix_autobind(u);

		if (err)
			return err;
	}
	if (m->addrlen) {
		to = unix_find(u, t, &m->addr, m->addrlen, SOCK_DGRAM);
		if (IS_ERR(to))
			return PTR_ERR(to);
	} else {
		lock_acquire(&l->lock);
		to = u->peer ? unix_get(u->peer) : NULL;
		lock_release(&l->lock);
		if (!to)
			return -ENOTCONN;
	}
	struct unix_skb *skb = NULL;

	lock_acquire(&l->lock);
	if (list_empty(&to->all_node)) { /* it was closed */
		ret = -ECONNREFUSED;
		if (u->peer == to) {
			u->peer = NULL;
			u->connected = 0;
			unix_put(to); /* never the last: this call holds one */
		}
	} else if (to->peer && to->peer != u) {
		ret = -EPERM;
	} else if ((u->shut & 2) || (to->shut & 1)) {
		ret = -EPIPE;
	} else {
		ret = dgram_full(u, to) ? -EAGAIN : 0;
	}
	lock_release(&l->lock);
	if (!ret) {
		skb = skb_from(m, n);
		if (IS_ERR(skb))
			ret = PTR_ERR(skb);
		else if (skb->len < n) {
			unix_skb_free(skb);
			ret = -EFAULT;
		}
	}
	if (!ret) {
		lock_acquire(&l->lock);
		if (list_empty(&to->all_node)) {
			ret = -ECONNREFUSED;
		} else {
			skb->from_len = u->addr_len;
			skb->from = u->addr;
			skb->scm = m->scm;
			m->scm = NULL;
			enqueue(to, skb);
			ret = (ssize_t)n;
		}
		lock_release(&l->lock);
		if (ret >= 0)
			waitq_wake(&to->s.wq, POLLIN | POLLRDNORM);
		else
			unix_skb_free(skb);
	}
	if (ret == -EAGAIN)
		*wait_on = &to->s;
	else
		unix_put(to);
	return ret;
}

ssize_t unix_sendmsg(struct socket *s, struct task *t, struct sock_msg *m, struct socket **wait_on)
{
	struct unix_sock *u = unix_of(s);

	if (!unix_is_stream(u))
		return send_dgram(u, t, m, wait_on);
	if (m->addrlen && s->type == SOCK_STREAM)
		return u->connected ? -EISCONN : -EOPNOTSUPP;
	return send_stream(u, m);
}

/* ---- receiving ---- */

/* What a reader gets when nothing is queued. [l] */
static ssize_t empty_result(struct unix_sock *u)
{
	if (u->reset) {
		u->reset = 0;
		u->s.error = 0;
		return -ECONNRESET;
	}
	if (u->shut & 1)
		return 0;
	if (unix_is_stream(u) && !u->connected)
		return u->s.type == SOCK_STREAM ? -EINVAL : -ENOTCONN;
	return -EAGAIN;
}

/* Room has come: tell whoever may wait to write to u. [no lock] */
static void wake_writers(struct unix_sock *u)
{
	struct unix_layer *l = unix_layer_of(u);
	struct unix_sock *peer, *o;

	waitq_wake(&u->s.wq, POLLOUT | POLLWRNORM); /* senders wait here through wait_on */
	lock_acquire(&l->lock);
	if (unix_is_stream(u)) {
		peer = u->peer ? unix_get(u->peer) : NULL;
		lock_release(&l->lock);
		if (peer) {
			waitq_wake(&peer->s.wq, POLLOUT | POLLWRNORM | POLLWRBAND);
			unix_put(peer);
		}
		return;
	}
	/* Datagram senders poll their own queue. */
	list_for_each(o, &l->all, all_node)
		if (o->peer == u)
			waitq_wake(&o->s.wq, POLLOUT | POLLWRNORM | POLLWRBAND);
	lock_release(&l->lock);
}

/* Copies of the files for a reader that only peeks. */
static struct scm *scm_dup(const struct scm *from)
{
	struct scm *to = malloc(sizeof(*to));

	if (!to)
		return NULL;
	to->fd_count = from->fd_count;
	for (int i = 0; i < from->fd_count; i++)
		to->files[i] = file_get(from->files[i]);
	return to;
}

/* Unlinks the first skb of u. [l] */
static void dequeue(struct unix_sock *u, struct unix_skb *skb)
{
	struct unix_layer *l = unix_layer_of(u);

	list_del(&skb->node);
	u->rq_bytes -= skb->len - skb->off;
	u->rq_count--;
	if (skb->scm)
		unix_inflight(l, skb->scm, -1);
}

static int same_cred(const struct sock_cred *a, const struct sock_cred *b)
{
	return a->pid == b->pid && a->uid == b->uid && a->gid == b->gid;
}

static void take_cred(struct sock_msg *m, const struct unix_skb *skb)
{
	sock_cred_put(&m->cred);
	sock_cred_copy(&m->cred, &skb->cred);
	m->has_cred = 1;
}

static ssize_t recv_stream(struct unix_sock *u, struct sock_msg *m)
{
	struct unix_layer *l = unix_layer_of(u);
	int peek = (m->flags & MSG_PEEK) != 0, took_room = 0;
	size_t skip = peek && u->peek_off > 0 ? (size_t)u->peek_off : 0;
	struct list_head *at = NULL; /* peeking: the last skb seen */
	struct unix_skb *skb;
	ssize_t done = 0, err = 0;

	if (m->flags & MSG_OOB)
		return -EINVAL;
	lock_acquire(&u->io_lock);
	while (m->u->left) {
		lock_acquire(&l->lock);
		struct list_head *next = at ? at->next : u->rq.next;

		skb = next == &u->rq ? NULL : list_entry(next, struct unix_skb, node);
		if (!skb)
			err = done ? 0 : empty_result(u);
		lock_release(&l->lock);
		if (!skb)
			break;
		/* Only a reader unlinks, and io_lock makes us the only one: skb stays valid. */
		if (m->has_cred && u->s.passcred && !same_cred(&m->cred, &skb->cred))
			break;
		if (m->scm && skb->scm)
			break;
		size_t from = skb->off, have = skb->len - from;

		if (skip >= have && have) {
			skip -= have;
			at = &skb->node;
			continue;
		}
		from += skip;
		have -= skip;
		skip = 0;
		ssize_t n = uio_copy_out(m->u, skb->data + from, have);

		if (n < 0) {
			err = done ? 0 : n;
			break;
		}
		done += n;
		if (!m->has_cred)
			take_cred(m, skb);
		if (peek) {
			int fds = skb->scm != NULL;

			if (fds && !m->scm)
				m->scm = scm_dup(skb->scm);
			at = &skb->node;
			if ((size_t)n < have || fds)
				break;
			continue;
		}
		lock_acquire(&l->lock);
		int fds = 0;

		if (skb->scm) { /* the files go with the first byte taken */
			unix_inflight(l, skb->scm, -1);
			m->scm = skb->scm;
			skb->scm = NULL;
			fds = 1;
		}
		skb->off += (size_t)n;
		u->rq_bytes -= (size_t)n;
		int finished = skb->off == skb->len;

		if (finished) {
			list_del(&skb->node);
			u->rq_count--;
		}
		took_room = 1;
		lock_release(&l->lock);
		if (finished)
			unix_skb_free(skb);
		if (!finished || fds)
			break;
	}
	if (peek && u->peek_off >= 0 && done > 0)
		u->peek_off += (int)done;
	else if (!peek && u->peek_off > 0 && done > 0)
		u->peek_off = u->peek_off > done ? u->peek_off - (int)done : 0;
	size_t left = queue_charge(u);

	lock_release(&u->io_lock);
	if (took_room && left <= (size_t)u->s.sndbuf / 2)
		wake_writers(u);
	return done ? done : err;
}

static ssize_t recv_packet(struct unix_sock *u, struct sock_msg *m)
{
	struct unix_layer *l = unix_layer_of(u);
	int peek = (m->flags & MSG_PEEK) != 0;
	struct unix_skb *skb = NULL;
	ssize_t ret;

	if (m->flags & MSG_OOB)
		return -EOPNOTSUPP;
	lock_acquire(&u->io_lock);
	lock_acquire(&l->lock);
	if (list_empty(&u->rq)) {
		ret = empty_result(u);
	} else {
		skb = list_first(&u->rq, struct unix_skb, node);
		if (!peek)
			dequeue(u, skb);
		ret = 0;
	}
	lock_release(&l->lock);
	if (!skb) {
		lock_release(&u->io_lock);
		return ret;
	}
	size_t n = skb->len < m->u->left ? skb->len : m->u->left;

	ret = uio_copy_out(m->u, skb->data, n);
	if (ret >= 0 && (size_t)ret < n)
		ret = -EFAULT;
	if (ret >= 0) {
		if (skb->len > n)
			m->out_flags |= MSG_TRUNC;
		m->full_len = skb->len;
		memcpy(&m->addr, &skb->from, sizeof(skb->from));
		m->addrlen = skb->from_len;
		take_cred(m, skb);
		if (skb->scm) {
			m->scm = peek ? scm_dup(skb->scm) : skb->scm;
			if (!peek)
				skb->scm = NULL;
		}
		if (m->flags & MSG_TRUNC)
			ret = (ssize_t)skb->len;
		if (u->s.type == SOCK_SEQPACKET)
			m->out_flags |= MSG_EOR;
	}
	lock_release(&u->io_lock);
	if (!peek) {
		unix_skb_free(skb);
		wake_writers(u);
	}
	return ret;
}

ssize_t unix_recvmsg(struct socket *s, struct task *t, struct sock_msg *m)
{
	struct unix_sock *u = unix_of(s);

	(void)t;
	m->addrlen = 0;
	if (s->listening)
		return -EINVAL;
	return s->type == SOCK_STREAM ? recv_stream(u, m) : recv_packet(u, m);
}
