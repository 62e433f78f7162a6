/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ancillary data (cmsg(3)): files and credentials, in and out of guest memory. The guest's buffer
 * is copied once and then parsed; lengths inside it are hostile.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "sentry/fd/fdtable.h"
#include "sentry/mm/mm.h"
#include "sentry/socket/socket.h"

#define CONTROL_MAX 20480 /* net.core.optmem_max */

/*
 * Files in flight may be sockets whose queues hold further files. Dropping them recursively would
 * let the guest choose our stack depth, so the outermost scm_free of a thread drains a list.
 */
static __thread struct list_head g_pending; /* valid while g_draining */
static __thread int g_draining;

void scm_free(struct scm *scm)
{
	if (!scm)
		return;
	if (g_draining) {
		list_add_tail(&scm->node, &g_pending);
		return;
	}
	g_draining = 1;
	list_init(&g_pending);
	list_add_tail(&scm->node, &g_pending);
	while (!list_empty(&g_pending)) {
		scm = list_first(&g_pending, struct scm, node);
		list_del(&scm->node);
		for (int i = 0; i < scm->fd_count; i++)
			file_put(scm->files[i]);
		free(scm);
	}
	g_draining = 0;
}

void sock_cred_of(struct task *t, struct sock_cred *c)
{
	c->pid = pid_get(t->tg->pid);
	c->uid = task_cred(t)->uid;
	c->gid = task_cred(t)->gid;
}

void sock_cred_put(struct sock_cred *c)
{
	if (c->pid)
		pid_put(c->pid);
	c->pid = NULL;
}

void sock_cred_copy(struct sock_cred *to, const struct sock_cred *from)
{
	*to = *from;
	if (to->pid)
		pid_get(to->pid);
}

/* SCM_CREDENTIALS: a sender may only claim to be itself unless it has the capabilities. */
static int import_cred(struct task *t, struct sock_msg *m, const void *data, size_t len)
{
	const struct cred *c = task_cred(t);
	struct ucred u;

	if (len != sizeof(u))
		return -EINVAL;
	memcpy(&u, data, sizeof(u));
	if (u.pid != task_tgid(t) && !cred_has_cap(c, CAP_SYS_ADMIN))
		return -EPERM;
	if (u.uid != c->uid && u.uid != c->euid && u.uid != c->suid && !cred_has_cap(c, CAP_SETUID))
		return -EPERM;
	if (u.gid != c->gid && u.gid != c->egid && u.gid != c->sgid && !cred_has_cap(c, CAP_SETGID))
		return -EPERM;
	if (u.pid != task_tgid(t)) {
		struct thread_group *tg = tg_find(t, u.pid);

		if (!tg)
			return -ESRCH;
		pid_get(tg->pid);
		sock_cred_put(&m->cred);
		m->cred.pid = tg->pid;
		tg_put(tg);
	}
	m->cred.uid = u.uid;
	m->cred.gid = u.gid;
	m->has_cred = 1;
	return 0;
}

static int import_fds(struct task *t, struct sock_msg *m, const void *data, size_t len)
{
	size_t count = len / sizeof(int);

	if (!m->scm) {
		m->scm = calloc(1, sizeof(*m->scm));
		if (!m->scm)
			return -ENOMEM;
	}
	if (count > SCM_MAX_FDS || (size_t)m->scm->fd_count + count > SCM_MAX_FDS)
		return -EINVAL;
	for (size_t i = 0; i < count; i++) {
		int fd;

		memcpy(&fd, (const char *)data + i * sizeof(int), sizeof(int));
		struct file *f = fd_get_path(t, fd);

		if (!f)
			return -EBADF;
		m->scm->files[m->scm->fd_count++] = f;
	}
	return 0;
}

int scm_import(struct task *t, struct socket *s, struct sock_msg *m, uint64_t control, uint64_t len)
{
	int err = 0;

	if (!len)
		return 0;
	if (len > CONTROL_MAX)
		return -ENOBUFS;
	char *buf = malloc(len);

	if (!buf)
		return -ENOMEM;
	err = copy_from_user(t, buf, control, len);
	for (size_t at = 0; !err && at + sizeof(struct cmsghdr) <= len;) {
		struct cmsghdr h;

		memcpy(&h, buf + at, sizeof(h));
		if (h.cmsg_len < sizeof(h) || h.cmsg_len > len - at) {
			err = -EINVAL;
			break;
		}
		const char *data = buf + at + sizeof(h);
		size_t dlen = h.cmsg_len - sizeof(h);

		if (h.cmsg_level == SOL_SOCKET && s->family == AF_UNIX) {
			if (h.cmsg_type == SCM_RIGHTS)
				err = import_fds(t, m, data, dlen);
			else if (h.cmsg_type == SCM_CREDENTIALS)
				err = import_cred(t, m, data, dlen);
			else
				err = -EINVAL;
		} else if (s->ops->cmsg_in) {
			err = s->ops->cmsg_in(s, t, m, h.cmsg_level, h.cmsg_type, data, dlen);
		} else if (h.cmsg_level == SOL_SOCKET) {
			err = -EINVAL;
		} /* AF_UNIX ignores other levels, as Linux does */
		if (__builtin_add_overflow(at, CMSG_ALIGN(h.cmsg_len), &at))
			break;
	}
	free(buf);
	if (err) {
		scm_free(m->scm);
		m->scm = NULL;
	}
	return err;
}

struct cmsg_out {
	struct task *t;
	struct sock_msg *m;
	uint64_t control, room, used;
	int err;
};

/* One cmsg after the others; MSG_CTRUNC when it does not fit whole. */
void cmsg_put(struct cmsg_out *o, int level, int type, const void *data, size_t len)
{
	char buf[CMSG_SPACE(128)];
	struct cmsghdr h = { .cmsg_len = CMSG_LEN(len), .cmsg_level = level, .cmsg_type = type };

	if (o->err)
		return;
	if (len > 128 || o->room - o->used < sizeof(h)) {
		o->m->out_flags |= MSG_CTRUNC;
		return;
	}
	if (o->room - o->used < h.cmsg_len) {
		o->m->out_flags |= MSG_CTRUNC;
		h.cmsg_len = o->room - o->used;
	}
	memset(buf, 0, sizeof(buf));
	memcpy(buf, &h, sizeof(h));
	memcpy(buf + sizeof(h), data, h.cmsg_len - sizeof(h));
	o->err = copy_to_user(o->t, o->control + o->used, buf, h.cmsg_len);
	if (o->err)
		return;
	uint64_t step = CMSG_SPACE(h.cmsg_len - sizeof(h));

	o->used += step < o->room - o->used ? step : o->room - o->used;
}

static int export_fds(struct task *t, struct sock_msg *m, uint64_t control, uint64_t room, uint64_t *used)
{
	struct cmsghdr h = { .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
	int count = m->scm->fd_count, done = 0;
	int fds[SCM_MAX_FDS];

	int fit = room - *used < sizeof(h) ? 0 : (int)((room - *used - sizeof(h)) / sizeof(int) < SCM_MAX_FDS ?
						      (room - *used - sizeof(h)) / sizeof(int) : SCM_MAX_FDS);
	for (; done < count && done < fit; done++) {
		struct file *f = file_get(m->scm->files[done]);
		int fd = fd_install(t, f, 0, m->flags & MSG_CMSG_CLOEXEC ? O_CLOEXEC : 0);

		if (fd < 0) {
			file_put(f);
			break;
		}
		fds[done] = fd;
	}
	if (done < count)
		m->out_flags |= MSG_CTRUNC;
	if (!done)
		return 0;
	h.cmsg_len = CMSG_LEN((size_t)done * sizeof(int));
	if (copy_to_user(t, control + *used, &h, sizeof(h)) ||
	    copy_to_user(t, control + *used + sizeof(h), fds, (size_t)done * sizeof(int))) {
		for (int i = 0; i < done; i++)
			fd_close(t, fds[i]);
		return -EFAULT;
	}
	uint64_t step = CMSG_SPACE((size_t)done * sizeof(int));

	*used += step < room - *used ? step : room - *used;
	return 0;
}

int scm_export(struct task *t, struct socket *s, struct sock_msg *m, uint64_t control, uint64_t room,
	       uint64_t *used)
{
	struct cmsg_out out = { .t = t, .m = m, .control = control, .room = room };

	if (s->ops->cmsg_out)
		s->ops->cmsg_out(s, m, &out);
	if (s->passcred && s->family == AF_UNIX) {
		struct ucred u = { .pid = m->cred.pid ? pid_nr_in(m->cred.pid, t->pid_ns) : 0,
				   .uid = m->cred.uid, .gid = m->cred.gid };

		cmsg_put(&out, SOL_SOCKET, SCM_CREDENTIALS, &u, sizeof(u));
	}
	if (!out.err && m->scm && m->scm->fd_count)
		out.err = export_fds(t, m, control, room, &out.used);
	*used = out.used;
	return out.err;
}
