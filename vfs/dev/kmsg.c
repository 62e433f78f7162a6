/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sandbox's kernel log: a ring of records behind /dev/kmsg and syslog(2). It holds what guests
 * wrote and what the sentry told with kmsg_printf; the sentry's own log is another thing.
 *
 * A reader's place is a record number in file->priv; records overwritten since give -EPIPE once.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "platform/base/ktimer.h"
#include "platform/base/log.h"
#include "vfs/dev/dev.h"

#define KMSG_LINE_MAX 1000u
#define KMSG_RECORDS 256u
#define KMSG_USER_FACILITY 1u

struct record {
	uint64_t usec;
	uint32_t prio;
	uint16_t len;
	char *text; /* owned */
};

struct kmsg_reader {
	struct lock lock; /* RANK_TIMER_OBJ */
	uint64_t next;	  /* [lock] */
};

/* The log of the one kernel in this process. */
static struct {
	pthread_once_t once;
	struct lock lock; /* RANK_LEAF */
	struct record ring[KMSG_RECORDS];
	uint64_t first, end; /* [lock] sequence numbers: records first .. end - 1 exist */
	uint64_t cleared;    /* [lock] syslog(2) shows from here on */
	uint64_t start_ns;
	struct waitq wq;
} g_kmsg = { .once = PTHREAD_ONCE_INIT };

static void kmsg_init(void)
{
	lock_init(&g_kmsg.lock, RANK_LEAF);
	waitq_init(&g_kmsg.wq);
	g_kmsg.start_ns = mono_now_ns();
}

static void kmsg_append(uint32_t prio, const char *text, size_t len)
{
	struct record *r;
	char *copy;

	pthread_once(&g_kmsg.once, kmsg_init);
	if (len > KMSG_LINE_MAX)
		len = KMSG_LINE_MAX;
	while (len && text[len - 1] == '\n')
		len--;
	copy = malloc(len + 1);
	if (!copy)
		return;
	memcpy(copy, text, len);
	copy[len] = 0;
	lock_acquire(&g_kmsg.lock);
	r = &g_kmsg.ring[g_kmsg.end % KMSG_RECORDS];
	if (g_kmsg.end - g_kmsg.first == KMSG_RECORDS) {
		free(r->text);
		g_kmsg.first++;
	}
	r->usec = (mono_now_ns() - g_kmsg.start_ns) / 1000;
	r->prio = prio;
	r->len = (uint16_t)len;
	r->text = copy;
	g_kmsg.end++;
	lock_release(&g_kmsg.lock);
	waitq_wake(&g_kmsg.wq, POLLIN | POLLRDNORM);
}

void kmsg_printf(uint32_t prio, const char *fmt, ...)
{
	char buf[KMSG_LINE_MAX + 1];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(buf, sizeof(buf), fmt, ap);
	va_end(ap);
	if (n > 0)
		kmsg_append(prio, buf, strlen(buf));
}

/* "<prio>text": an absent prefix means user.notice; the kernel's facility can not be claimed. */
static ssize_t kmsg_write(struct file *f, struct uio *u, int64_t *pos)
{
	uint32_t prio = KMSG_USER_FACILITY << 3 | 4;
	char buf[KMSG_LINE_MAX + 1], *text = buf;
	ssize_t n;

	(void)f;
	(void)pos;
	if (u->left > KMSG_LINE_MAX)
		return -EINVAL;
	n = uio_copy_in(u, buf, KMSG_LINE_MAX);
	if (n < 0)
		return n;
	buf[n] = 0;
	if (buf[0] == '<') {
		char *end;
		unsigned long v = strtoul(buf + 1, &end, 10);

		if (end != buf + 1 && *end == '>') {
			prio = (uint32_t)(v & 0x3ff);
			if (!(prio >> 3))
				prio |= KMSG_USER_FACILITY << 3;
			text = end + 1;
		}
	}
	kmsg_append(prio, text, strlen(text));
	log_debug("kmsg: %s", text);
	return n;
}

static size_t format_escaped(char *out, size_t size, const struct record *r, uint64_t seq)
{
	size_t n = (size_t)snprintf(out, size, "%u,%llu,%llu,-;", r->prio, (unsigned long long)seq,
				    (unsigned long long)r->usec);

	for (size_t i = 0; i < r->len && n + 5 < size; i++) {
		unsigned char c = (unsigned char)r->text[i];

		if (c < 32 || c >= 127 || c == '\\')
			n += (size_t)snprintf(out + n, size - n, "\\x%02x", c);
		else
			out[n++] = (char)c;
	}
	out[n++] = '\n';
	return n;
}

/* One record a read. */
static ssize_t kmsg_read(struct file *f, struct uio *u, int64_t *pos)
{
	char line[KMSG_LINE_MAX * 4 + 80];
	struct kmsg_reader *rd = f->priv;
	ssize_t r = 0;
	size_t n = 0;

	(void)pos;
	lock_acquire(&rd->lock);
	lock_acquire(&g_kmsg.lock);
	if (rd->next < g_kmsg.first) {
		rd->next = g_kmsg.first;
		r = -EPIPE;
	} else if (rd->next == g_kmsg.end) {
		r = -EAGAIN;
	} else {
		n = format_escaped(line, sizeof(line), &g_kmsg.ring[rd->next % KMSG_RECORDS], rd->next);
		if (n > u->left)
			r = -EINVAL;
		else
			rd->next++;
	}
	lock_release(&g_kmsg.lock);
	lock_release(&rd->lock);
	if (r)
		return r;
	r = uio_copy_out(u, line, n);
	return r == (ssize_t)n ? r : -EFAULT;
}

static uint32_t kmsg_poll(struct file *f, struct poll_table *pt)
{
	struct kmsg_reader *rd = f->priv;
	uint32_t mask = 0;

	poll_wait(pt, &g_kmsg.wq);
	lock_acquire(&rd->lock);
	lock_acquire(&g_kmsg.lock);
	if (rd->next < g_kmsg.first)
		mask = POLLIN | POLLRDNORM | POLLERR | POLLPRI;
	else if (rd->next != g_kmsg.end)
		mask = POLLIN | POLLRDNORM;
	lock_release(&g_kmsg.lock);
	lock_release(&rd->lock);
	return mask;
}

static int64_t kmsg_llseek(struct file *f, int64_t off, int whence)
{
	struct kmsg_reader *rd = f->priv;
	int64_t r = 0;

	if (off)
		return -ESPIPE;
	lock_acquire(&rd->lock);
	lock_acquire(&g_kmsg.lock);
	switch (whence) {
	case 0: /* SEEK_SET: the first record */
		rd->next = g_kmsg.first;
		break;
	case 3: /* SEEK_DATA: what came after the last clear */
		rd->next = g_kmsg.cleared > g_kmsg.first ? g_kmsg.cleared : g_kmsg.first;
		break;
	case 2: /* SEEK_END: only what is yet to come */
		rd->next = g_kmsg.end;
		break;
	default:
		r = -EINVAL;
	}
	lock_release(&g_kmsg.lock);
	lock_release(&rd->lock);
	return r;
}

static void kmsg_release(struct file *f)
{
	struct kmsg_reader *rd = f->priv;

	lock_destroy(&rd->lock);
	free(rd);
}

int kmsg_open(struct inode *ino, struct file *f)
{
	struct kmsg_reader *rd;

	(void)ino;
	pthread_once(&g_kmsg.once, kmsg_init);
	if ((f->mode & FMODE_READ) && !cred_has_cap(f->cred, CAP_SYSLOG) &&
	    !cred_has_cap(f->cred, CAP_SYS_ADMIN))
		return -EPERM; /* dmesg_restrict=1 */
	rd = calloc(1, sizeof(*rd));
	if (!rd)
		return -ENOMEM;
	lock_init(&rd->lock, RANK_TIMER_OBJ);
	lock_acquire(&g_kmsg.lock);
	rd->next = g_kmsg.first;
	lock_release(&g_kmsg.lock);
	f->priv = rd;
	return 0;
}

const struct file_ops g_kmsg_ops = {
	.read = kmsg_read,
	.write = kmsg_write,
	.llseek = kmsg_llseek,
	.poll = kmsg_poll,
	.release = kmsg_release,
};

/* ---- syslog(2) ---- */

static size_t format_plain(char *out, size_t size, const struct record *r)
{
	int n = snprintf(out, size, "<%u>[%5llu.%06llu] %.*s\n", r->prio,
			 (unsigned long long)(r->usec / 1000000),
			 (unsigned long long)(r->usec % 1000000), (int)r->len, r->text);

	return n < 0 ? 0 : (size_t)n < size ? (size_t)n : size - 1;
}

ssize_t kmsg_read_all(struct uio *u, int clear)
{
	char line[KMSG_LINE_MAX + 80];
	uint64_t from, i;
	size_t total = 0;
	struct strbuf sb;
	ssize_t r;

	pthread_once(&g_kmsg.once, kmsg_init);
	strbuf_init(&sb);
	lock_acquire(&g_kmsg.lock);
	from = g_kmsg.cleared > g_kmsg.first ? g_kmsg.cleared : g_kmsg.first;
	for (i = g_kmsg.end; i > from; i--) {
		total += format_plain(line, sizeof(line), &g_kmsg.ring[(i - 1) % KMSG_RECORDS]);
		if (total > u->left)
			break;
	}
	for (; i < g_kmsg.end; i++)
		strbuf_add(&sb, line, format_plain(line, sizeof(line), &g_kmsg.ring[i % KMSG_RECORDS]));
	if (clear)
		g_kmsg.cleared = g_kmsg.end;
	lock_release(&g_kmsg.lock);
	r = sb.err ? sb.err : uio_copy_out(u, sb.data, sb.len);
	strbuf_free(&sb);
	return r;
}

void kmsg_clear(void)
{
	pthread_once(&g_kmsg.once, kmsg_init);
	lock_acquire(&g_kmsg.lock);
	g_kmsg.cleared = g_kmsg.end;
	lock_release(&g_kmsg.lock);
}

size_t kmsg_size_unread(void)
{
	char line[KMSG_LINE_MAX + 80];
	size_t total = 0;

	pthread_once(&g_kmsg.once, kmsg_init);
	lock_acquire(&g_kmsg.lock);
	for (uint64_t i = g_kmsg.cleared > g_kmsg.first ? g_kmsg.cleared : g_kmsg.first;
	     i < g_kmsg.end; i++)
		total += format_plain(line, sizeof(line), &g_kmsg.ring[i % KMSG_RECORDS]);
	lock_release(&g_kmsg.lock);
	return total;
}
