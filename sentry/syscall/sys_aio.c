/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Native AIO (io_setup and kin), and io_uring's ENOSYS.
 *
 * Theory of operation. Requests other than POLL are carried out inside io_submit, in order, as
 * Linux itself does for files without asynchronous support; their events wait in the context until
 * io_getevents takes them. POLL requests stay pending with their file; whoever waits in
 * io_getevents polls them, with waiters on their queues. A context belongs to an address space:
 * mm->aio lists them. Its id is the address of a page in the guest that is all zero: libaio looks
 * there for a ring to read without a call, finds no magic number, and calls.
 *
 * Locks: aio_table.lock (RANK_IPC) guards the list of contexts and all that is in them. No file
 * operation runs under it.
 */
#include <errno.h>
#include <linux/aio_abi.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "platform/base/ktimer.h"
#include "sentry/fd/fdtable.h"
#include "sentry/mm/mm.h"
#include "sentry/signal/signal.h"
#include "sentry/syscall/fs_util.h"
#include "vfs/anon/anon.h"

#define AIO_MAX_NR 65536u
#define SUBMIT_MAX 65536

/* One request: pending (a POLL), or done and waiting to be taken. */
struct aio_req {
	struct list_head node;
	struct io_event ev;
	struct file *file;   /* POLL: a reference while pending */
	struct file *notify; /* eventfd of IOCB_FLAG_RESFD: a reference */
	uint32_t events;
};

struct aio_ctx {
	struct list_head node;
	uint64_t id;
	uint32_t max, used; /* used: pending and untaken requests */
	struct list_head pending, done;
	struct waitq wq; /* woken when done grows or the context goes */
	struct ref ref;
	int dead;
};

struct aio_table {
	struct lock lock;
	struct list_head contexts;
	uint32_t total;
};

static struct aio_table *table_get(struct mm *mm)
{
	struct aio_table *tab = __atomic_load_n(&mm->aio, __ATOMIC_ACQUIRE), *old = NULL;

	if (tab)
		return tab;
	tab = calloc(1, sizeof(*tab));
	if (!tab)
		return NULL;
	lock_init(&tab->lock, RANK_IPC);
	list_init(&tab->contexts);
	if (!__atomic_compare_exchange_n(&mm->aio, &old, tab, 0, __ATOMIC_ACQ_REL,
					 __ATOMIC_ACQUIRE)) {
		free(tab);
		return old;
	}
	return tab;
}

static void req_free(struct aio_req *rq)
{
	if (rq->file)
		file_put(rq->file);
	if (rq->notify)
		file_put(rq->notify);
	free(rq);
}

static void ctx_put(struct aio_ctx *c)
{
	struct aio_req *rq, *tmp;

	if (!ref_put(&c->ref))
		return;
	list_for_each_safe (rq, tmp, &c->pending, node)
		req_free(rq);
	list_for_each_safe (rq, tmp, &c->done, node)
		req_free(rq);
	waitq_destroy(&c->wq);
	free(c);
}

/* mm_put calls it when the address space goes. */
void aio_table_free(struct aio_table *tab)
{
	struct aio_ctx *c, *tmp;

	list_for_each_safe (c, tmp, &tab->contexts, node)
		ctx_put(c);
	lock_destroy(&tab->lock);
	free(tab);
}

/* A reference on the context of that id, or NULL. */
static struct aio_ctx *ctx_find(struct task *t, uint64_t id)
{
	struct aio_table *tab = __atomic_load_n(&t->mm->aio, __ATOMIC_ACQUIRE);
	struct aio_ctx *c, *found = NULL;

	if (!tab)
		return NULL;
	lock_acquire(&tab->lock);
	list_for_each (c, &tab->contexts, node) {
		if (c->id == id) {
			ref_get(&c->ref);
			found = c;
			break;
		}
	}
	lock_release(&tab->lock);
	return found;
}

SYSCALL_HANDLER(io_setup)
{
	uint32_t nr = (uint32_t)a->a[0];
	struct aio_table *tab;
	struct aio_ctx *c;
	uint64_t old;
	int64_t page;
	int err = 0;

	if (get_user_u64(t, a->a[1], &old))
		return -EFAULT;
	if (old || !nr)
		return -EINVAL;
	if (nr > AIO_MAX_NR)
		return -EAGAIN;
	tab = table_get(t->mm);
	c = tab ? calloc(1, sizeof(*c)) : NULL;
	if (!c)
		return -ENOMEM;
	page = mm_map(t, 0, GUEST_PAGE_SIZE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, NULL, 0);
	if (page < 0) {
		free(c);
		return page;
	}
	ref_init(&c->ref);
	list_init(&c->pending);
	list_init(&c->done);
	waitq_init(&c->wq);
	c->id = (uint64_t)page;
	c->max = nr;
	lock_acquire(&tab->lock);
	if (tab->total + nr > AIO_MAX_NR) {
		err = -EAGAIN;
	} else {
		tab->total += nr;
		list_add_tail(&c->node, &tab->contexts);
		ref_get(&c->ref);
	}
	lock_release(&tab->lock);
	if (!err && put_user_u64(t, a->a[1], c->id)) {
		lock_acquire(&tab->lock);
		tab->total -= nr;
		list_del(&c->node);
		lock_release(&tab->lock);
		ctx_put(c);
		err = -EFAULT;
	}
	if (err)
		(void)mm_unmap(t, (uint64_t)page, GUEST_PAGE_SIZE);
	ctx_put(c);
	return err;
}

SYSCALL_HANDLER(io_destroy)
{
	struct aio_table *tab = __atomic_load_n(&t->mm->aio, __ATOMIC_ACQUIRE);
	struct aio_ctx *c = ctx_find(t, a->a[0]);
	int mine;

	if (!c)
		return -EINVAL;
	lock_acquire(&tab->lock);
	mine = !c->dead;
	if (mine) {
		c->dead = 1;
		tab->total -= c->max;
		list_del(&c->node);
	}
	lock_release(&tab->lock);
	if (mine) {
		waitq_wake(&c->wq, POLLIN);
		(void)mm_unmap(t, c->id, GUEST_PAGE_SIZE);
		ctx_put(c);
	}
	ctx_put(c);
	return mine ? 0 : -EINVAL;
}

/* ---- submission ---- */

/* The transfer of one request, now: its result. */
static int64_t run_rw(struct task *t, struct file *f, const struct iocb *cb)
{
	int writing =
		cb->aio_lio_opcode == IOCB_CMD_PWRITE || cb->aio_lio_opcode == IOCB_CMD_PWRITEV;
	int vector =
		cb->aio_lio_opcode == IOCB_CMD_PREADV || cb->aio_lio_opcode == IOCB_CMD_PWRITEV;
	int rwf = (int)cb->aio_rw_flags;
	int64_t offset = cb->aio_offset;
	const int64_t *pos = f->mode & (FMODE_STREAM | FMODE_NOPREAD) ? NULL : &offset;
	struct uio_user uu;
	int64_t r;

	if (!(f->mode & (writing ? FMODE_WRITE : FMODE_READ)))
		return -EBADF;
	if (pos && *pos < 0)
		return -EINVAL;
	memset(&uu, 0, sizeof(uu));
	uu.segs = uu.fast;
	r = vector ? uio_import_iovec(t, &uu, cb->aio_buf, cb->aio_nbytes)
		   : uio_init_user(t, &uu.u, cb->aio_buf, cb->aio_nbytes);
	if (r)
		return r;
	r = writing ? file_write_blocking(t, f, &uu.u, pos, rwf)
		    : file_read_blocking(t, f, &uu.u, pos, rwf & RWF_NOWAIT);
	uio_user_free(&uu);
	/* A request can not be restarted: the signal made it end early. */
	return r == -ERESTARTSYS ? -EINTR : r;
}

/* lock held. Moves a finished request where it is taken from. */
static void complete_locked(struct aio_ctx *c, struct aio_req *rq, int64_t res)
{
	rq->ev.res = res;
	list_del(&rq->node);
	list_add_tail(&rq->node, &c->done);
}

/* Everything after completion that takes other locks. */
static void announce(struct aio_ctx *c, struct file *notify)
{
	if (notify)
		eventfd_signal(notify, 1);
	waitq_wake(&c->wq, POLLIN);
}

/* Checks and starts one iocb: 0, or the errno io_submit gives for it. */
static int submit_one(struct task *t, struct aio_table *tab, struct aio_ctx *c, uint64_t uiocb)
{
	struct iocb cb;
	struct aio_req *rq;
	struct file *f;
	int64_t res = 0;
	int err = 0, full;

	if (copy_from_user(t, &cb, uiocb, sizeof(cb)))
		return -EFAULT;
	if (cb.aio_reserved2 || (int64_t)cb.aio_nbytes < 0 ||
	    (cb.aio_flags & ~(uint32_t)(IOCB_FLAG_RESFD | IOCB_FLAG_IOPRIO)))
		return -EINVAL;
	f = fd_get(t, (int)cb.aio_fildes);
	if (!f)
		return -EBADF;
	rq = calloc(1, sizeof(*rq));
	if (!rq) {
		file_put(f);
		return -EAGAIN;
	}
	list_init(&rq->node);
	rq->ev.data = cb.aio_data;
	rq->ev.obj = uiocb;
	rq->file = f;
	if (cb.aio_flags & IOCB_FLAG_RESFD) {
		rq->notify = fd_get(t, (int)cb.aio_resfd);
		if (!rq->notify || !file_is_eventfd(rq->notify))
			err = rq->notify ? -EINVAL : -EBADF;
	}
	lock_acquire(&tab->lock);
	full = c->used >= c->max || c->dead;
	if (!full && !err)
		c->used++;
	lock_release(&tab->lock);
	if (full && !err)
		err = c->dead ? -EINVAL : -EAGAIN;
	if (err) {
		req_free(rq);
		return err;
	}
	if (put_user_u32(t, uiocb + offsetof(struct iocb, aio_key), 0))
		err = -EFAULT;
	switch (cb.aio_lio_opcode) {
	case IOCB_CMD_PREAD:
	case IOCB_CMD_PWRITE:
	case IOCB_CMD_PREADV:
	case IOCB_CMD_PWRITEV:
		if (!err)
			res = run_rw(t, f, &cb);
		break;
	case IOCB_CMD_FSYNC:
	case IOCB_CMD_FDSYNC:
		if (cb.aio_buf || cb.aio_offset || cb.aio_nbytes || cb.aio_rw_flags)
			err = -EINVAL;
		else if (!err)
			res = file_fsync(f, 0, INT64_MAX, cb.aio_lio_opcode == IOCB_CMD_FDSYNC);
		break;
	case IOCB_CMD_POLL:
		if ((cb.aio_buf & ~0xffffull) || cb.aio_offset || cb.aio_nbytes || cb.aio_rw_flags)
			err = -EINVAL;
		rq->events = (uint32_t)cb.aio_buf | POLLERR | POLLHUP;
		if (!err)
			res = file_poll(f, NULL) & rq->events;
		break;
	default:
		err = -EINVAL;
		break;
	}
	/* EBADF and EINVAL of the setup are io_submit's own errors; the rest is in the event. */
	if (!err && res == -EBADF)
		err = -EBADF;
	lock_acquire(&tab->lock);
	if (err) {
		c->used--;
	} else if (cb.aio_lio_opcode == IOCB_CMD_POLL && !res) {
		list_add_tail(&rq->node, &c->pending);
	} else {
		complete_locked(c, rq, res);
		rq->file = NULL;
	}
	lock_release(&tab->lock);
	if (err) {
		req_free(rq);
		return err;
	}
	if (cb.aio_lio_opcode != IOCB_CMD_POLL || res) {
		struct file *notify = rq->notify;

		/* rq may be taken and freed by another thread from here on: notify is its own. */
		if (cb.aio_flags & IOCB_FLAG_RESFD) {
			notify = fd_get(t, (int)cb.aio_resfd);
			if (notify && !file_is_eventfd(notify)) {
				file_put(notify);
				notify = NULL;
			}
		}
		announce(c, notify);
		if (notify)
			file_put(notify);
		file_put(f);
	} else {
		/* A waiter must include the new request in what it polls. */
		waitq_wake(&c->wq, POLLIN);
	}
	return 0;
}

SYSCALL_HANDLER(io_submit)
{
	int64_t nr = (int64_t)a->a[1], done = 0;
	struct aio_ctx *c;
	long err = 0;

	if (nr < 0)
		return -EINVAL;
	c = ctx_find(t, a->a[0]);
	if (!c)
		return -EINVAL;
	if (nr > SUBMIT_MAX)
		nr = SUBMIT_MAX;
	for (; done < nr; done++) {
		uint64_t uiocb;

		if (get_user_u64(t, a->a[2] + (uint64_t)done * 8, &uiocb))
			err = -EFAULT;
		else
			err = submit_one(t, t->mm->aio, c, uiocb);
		if (err)
			break;
		if (done % 64 == 63 && task_has_work(t)) {
			done++;
			break;
		}
	}
	ctx_put(c);
	return done ? done : err;
}

/* ---- completion ---- */

#define WAIT_QUEUES 64

/* Waiters of one io_getevents: the context's queue and those of pending polls. */
struct aio_wait {
	struct poll_table pt;
	struct task *t;
	int count;
	uint32_t events;
	struct waiter w[WAIT_QUEUES];
};

static void aio_wait_add(struct poll_table *pt, struct waitq *q)
{
	struct aio_wait *aw = container_of(pt, struct aio_wait, pt);

	if (aw->count == WAIT_QUEUES)
		return; /* more polls than that are looked at again at each wake */
	waiter_init(&aw->w[aw->count], aw->events, task_waiter_wake, aw->t);
	waitq_add(q, &aw->w[aw->count++]);
}

static void aio_wait_end(struct aio_wait *aw)
{
	while (aw->count)
		waitq_del(&aw->w[--aw->count]);
}

/* The i-th pending poll's file: a reference, or NULL at the end. */
static struct file *pending_at(struct aio_table *tab, struct aio_ctx *c, int i, uint32_t *events,
			       uint64_t *obj)
{
	struct aio_req *rq;
	struct file *f = NULL;

	lock_acquire(&tab->lock);
	list_for_each (rq, &c->pending, node) {
		if (i-- == 0) {
			f = file_get(rq->file);
			*events = rq->events;
			*obj = (uint64_t)(uintptr_t)rq;
			break;
		}
	}
	lock_release(&tab->lock);
	return f;
}

/* Polls every pending request, completing those that are ready; aw: registers waiters too. */
static void poll_pending(struct aio_table *tab, struct aio_ctx *c, struct aio_wait *aw)
{
	for (int i = 0;;) {
		uint32_t events = 0, ready;
		uint64_t which = 0;
		struct file *f = pending_at(tab, c, i, &events, &which), *notify = NULL;
		struct aio_req *rq;
		int completed = 0;

		if (!f)
			return;
		if (aw)
			aw->events = events;
		ready = file_poll(f, aw ? &aw->pt : NULL) & events;
		if (ready) {
			lock_acquire(&tab->lock);
			list_for_each (rq, &c->pending, node) {
				if ((uint64_t)(uintptr_t)rq != which || rq->file != f)
					continue;
				complete_locked(c, rq, ready);
				rq->file = NULL;
				notify = rq->notify ? file_get(rq->notify) : NULL;
				completed = 1;
				break;
			}
			lock_release(&tab->lock);
		}
		if (completed) {
			announce(c, notify);
			if (notify)
				file_put(notify);
			file_put(f); /* the request's reference */
		} else {
			i++;
		}
		file_put(f);
	}
}

/* Takes up to max events out to the guest: the count, or -EFAULT when none could be written. */
static long take_events(struct task *t, struct aio_table *tab, struct aio_ctx *c, uint64_t uev,
			int64_t max)
{
	long n = 0;

	while (n < max) {
		struct aio_req *rq = NULL;

		lock_acquire(&tab->lock);
		if (!list_empty(&c->done)) {
			rq = list_first(&c->done, struct aio_req, node);
			list_del(&rq->node);
			c->used--;
		}
		lock_release(&tab->lock);
		if (!rq)
			break;
		if (copy_to_user(t, uev + (uint64_t)n * sizeof(rq->ev), &rq->ev, sizeof(rq->ev))) {
			lock_acquire(&tab->lock);
			list_add(&rq->node, &c->done);
			c->used++;
			lock_release(&tab->lock);
			return n ? n : -EFAULT;
		}
		req_free(rq);
		n++;
	}
	return n;
}

static long getevents(struct task *t, uint64_t id, int64_t min, int64_t nr, uint64_t uev,
		      uint64_t deadline)
{
	struct aio_ctx *c = ctx_find(t, id);
	struct aio_table *tab = t->mm->aio;
	struct aio_wait aw;
	long got = 0, r;

	if (!c)
		return -EINVAL;
	if (min > nr || min < 0 || nr < 0) {
		ctx_put(c);
		return -EINVAL;
	}
	for (;;) {
		int err;

		aw.pt.add = aio_wait_add;
		aw.t = t;
		aw.count = 0;
		aw.events = ~0u;
		if (deadline)
			aio_wait_add(&aw.pt, &c->wq);
		poll_pending(tab, c, deadline ? &aw : NULL);
		r = take_events(t, tab, c, uev + (uint64_t)got * sizeof(struct io_event), nr - got);
		if (r > 0)
			got += r;
		if (r < 0 || got >= min || !deadline || c->dead) {
			aio_wait_end(&aw);
			break;
		}
		err = task_sleep(t, deadline);
		aio_wait_end(&aw);
		if (err == -ETIMEDOUT) {
			deadline = 0;
		} else if (err) {
			r = -EINTR;
			break;
		}
	}
	ctx_put(c);
	return got ? got : r < 0 ? r : 0;
}

static int deadline_from(struct task *t, uint64_t uts, uint64_t *deadline)
{
	struct linux_timespec ts;

	*deadline = NO_DEADLINE;
	if (!uts)
		return 0;
	if (copy_from_user(t, &ts, uts, sizeof(ts)))
		return -EFAULT;
	if (ts.sec < 0 || ts.nsec < 0 || ts.nsec >= 1000000000)
		return -EINVAL;
	if (!ts.sec && !ts.nsec)
		*deadline = 0;
	else if (ts.sec < INT64_MAX / 2000000000)
		*deadline = mono_now_ns() + (uint64_t)ts.sec * 1000000000ull + (uint64_t)ts.nsec;
	return 0;
}

SYSCALL_HANDLER(io_getevents)
{
	uint64_t deadline;
	int err = deadline_from(t, a->a[4], &deadline);

	if (err)
		return err;
	return getevents(t, a->a[0], (int64_t)a->a[1], (int64_t)a->a[2], a->a[3], deadline);
}

SYSCALL_HANDLER(io_pgetevents)
{
	uint64_t deadline, mask[2] = { 0, 0 };
	linux_sigset_t set;
	long r = deadline_from(t, a->a[4], &deadline);

	if (!r && a->a[5] && copy_from_user(t, mask, a->a[5], sizeof(mask)))
		r = -EFAULT;
	if (!r && mask[0]) {
		r = sigset_from_user(t, mask[0], mask[1], &set);
		if (!r)
			signal_set_temporary_mask(t, set);
	}
	if (r)
		return r;
	r = getevents(t, a->a[0], (int64_t)a->a[1], (int64_t)a->a[2], a->a[3], deadline);
	if (r == -EINTR)
		r = -ERESTARTNOHAND;
	if (mask[0] && r != -ERESTARTNOHAND)
		signal_restore_saved_mask(t);
	return r;
}

/* Only a pending POLL can be cancelled; its event comes the ordinary way, with result 0. */
SYSCALL_HANDLER(io_cancel)
{
	struct aio_table *tab = __atomic_load_n(&t->mm->aio, __ATOMIC_ACQUIRE);
	struct aio_ctx *c;
	struct aio_req *rq;
	struct file *f = NULL, *notify = NULL;
	uint32_t key;

	if (get_user_u32(t, a->a[1] + offsetof(struct iocb, aio_key), &key))
		return -EFAULT;
	c = ctx_find(t, a->a[0]);
	if (!c || key) {
		if (c)
			ctx_put(c);
		return -EINVAL;
	}
	lock_acquire(&tab->lock);
	list_for_each (rq, &c->pending, node) {
		if (rq->ev.obj == a->a[1]) {
			f = rq->file;
			rq->file = NULL;
			notify = rq->notify ? file_get(rq->notify) : NULL;
			complete_locked(c, rq, 0);
			break;
		}
	}
	lock_release(&tab->lock);
	if (f) {
		announce(c, notify);
		if (notify)
			file_put(notify);
		file_put(f);
	}
	ctx_put(c);
	return f ? -EINPROGRESS : -EINVAL;
}

/* ---- io_uring: libraries fall back on this errno ---- */

SYSCALL_HANDLER(io_uring_setup)
{
	return -ENOSYS;
}

SYSCALL_HANDLER(io_uring_enter)
{
	return -ENOSYS;
}

SYSCALL_HANDLER(io_uring_register)
{
	return -ENOSYS;
}
