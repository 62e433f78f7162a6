/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a process that are written: numbers, comm, id maps, setgroups; and its memory. */
#include <errno.h>

#include "vfs/proc/proc_priv.h"

/* One row per enum proc_number; kinds differ in how Linux prints and bounds them. */
static const struct {
	const char *format;
	int64_t min, max;
} g_numbers[] = {
	[PROC_OOM_SCORE] = { "%lld\n", 0, 2000 },
	[PROC_OOM_SCORE_ADJ] = { "%lld\n", -1000, 1000 },
	[PROC_LOGINUID] = { "%lld", 0, UINT32_MAX },
	[PROC_SESSIONID] = { "%lld", 0, UINT32_MAX },
	[PROC_COREDUMP_FILTER] = { "%08llx\n", 0, UINT32_MAX },
	[PROC_TIMERSLACK_NS] = { "%lld\n", 0, INT64_MAX },
	[PROC_PERSONALITY] = { "%08llx\n", 0, UINT32_MAX },
	[PROC_CLEAR_REFS] = { NULL, 1, 5 },
	[PROC_SCHED_AUTOGROUP] = { "/autogroup-%lld nice 0\n", 0, INT32_MAX },
};

int proc_show_number(const struct pseudo_req *rq, struct strbuf *out)
{
	const struct proc_source *ps = proc_ps(rq);
	enum proc_number what = (enum proc_number)rq->desc->arg;
	int64_t v = 0;
	int r = 0;

	if (what == PROC_PERSONALITY || what == PROC_TIMERSLACK_NS)
		r = proc_may_access(rq, PROC_ACCESS_ATTACH);
	if (!r)
		r = ps->number_get(ps, rq->inst->obj, what, &v);
	if (r)
		return r;
	/* The format is one of the constants above. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	strbuf_printf(out, g_numbers[what].format, (long long)v);
#pragma GCC diagnostic pop
	return 0;
}

/* coredump_filter and timerslack take any base, as kstrto* with base 0 does. */
static int parse_any_base(const char *buf, size_t len, int64_t *out)
{
	char *end;

	while (*buf == ' ' || *buf == '\t')
		buf++;
	if (*buf == '0' && buf[1] != 0 && buf[1] != '\n') {
		errno = 0;
		unsigned long long v = strtoull(buf, &end, 0);

		if (errno || (*end && strcmp(end, "\n")))
			return -EINVAL;
		if (v > INT64_MAX)
			return -ERANGE;
		*out = (int64_t)v;
		return 0;
	}
	return pseudo_parse_s64(buf, strlen(buf), out);
}

ssize_t proc_write_number(const struct pseudo_req *rq, char *buf, size_t len)
{
	const struct proc_source *ps = proc_ps(rq);
	enum proc_number what = (enum proc_number)rq->desc->arg;
	int64_t v;
	int r;

	if (what == PROC_COREDUMP_FILTER || what == PROC_TIMERSLACK_NS)
		r = parse_any_base(buf, len, &v);
	else
		r = pseudo_parse_s64(buf, len, &v);
	/* -1 unsets loginuid */
	if (!r && what == PROC_LOGINUID && v == -1)
		v = UINT32_MAX;
	if (!r && (v < g_numbers[what].min || v > g_numbers[what].max))
		r = -EINVAL;
	if (!r)
		r = ps->number_set ? ps->number_set(ps, rq->inst->obj, what, v) : -EPERM;
	return r ? r : (ssize_t)len;
}

int proc_number_present(const struct pseudo_req *rq)
{
	const struct proc_source *ps = proc_ps(rq);
	int64_t v;

	if (rq->desc->arg == PROC_CLEAR_REFS)
		return ps->number_get && ps->number_set;
	return ps->number_get && ps->number_get(ps, rq->inst->obj,
						(enum proc_number)rq->desc->arg, &v) != -ENOENT;
}

ssize_t proc_write_comm(const struct pseudo_req *rq, char *buf, size_t len)
{
	const struct proc_source *ps = proc_ps(rq);
	char comm[PROC_COMM_SIZE] = { 0 };
	size_t n = len < PROC_COMM_SIZE - 1 ? len : PROC_COMM_SIZE - 1;

	memcpy(comm, buf, n);
	int r = ps->comm_set ? ps->comm_set(ps, rq->inst->obj, comm) : -EINVAL;

	return r ? r : (ssize_t)len;
}

int proc_idmap_present(const struct pseudo_req *rq)
{
	return proc_ps(rq)->idmap_get != NULL;
}

int proc_show_idmap(const struct pseudo_req *rq, struct strbuf *out)
{
	const struct proc_source *ps = proc_ps(rq);
	struct proc_idmap_extent *ext = calloc(PROC_IDMAP_MAX, sizeof(*ext));

	if (!ext)
		return -ENOMEM;
	int n = ps->idmap_get(ps, rq->inst->obj, (enum proc_idmap)rq->desc->arg, ext);

	for (int i = 0; i < n && i < PROC_IDMAP_MAX; i++)
		strbuf_printf(out, "%10u %10u %10u\n", ext[i].first, ext[i].lower_first,
			      ext[i].count);
	free(ext);
	return n < 0 ? n : 0;
}

/* The three unsigned numbers of one line, NUL-terminated. */
static int parse_extent(char *line, struct proc_idmap_extent *e)
{
	uint32_t *field[3] = { &e->first, &e->lower_first, &e->count };

	for (int i = 0; i < 3; i++) {
		uint64_t v = 0;
		int digits = 0;

		while (*line == ' ' || *line == '\t')
			line++;
		for (; *line >= '0' && *line <= '9'; line++, digits++) {
			v = v * 10 + (uint64_t)(*line - '0');
			if (v > UINT32_MAX)
				return -EINVAL;
		}
		if (!digits || (*line && *line != ' ' && *line != '\t'))
			return -EINVAL;
		*field[i] = (uint32_t)v;
	}
	while (*line == ' ' || *line == '\t')
		line++;
	/* The last id is reserved: (uint32_t)-1 means "none". */
	if (*line || !e->count || e->first == UINT32_MAX || e->lower_first == UINT32_MAX ||
	    e->first + e->count <= e->first || e->lower_first + e->count <= e->lower_first)
		return -EINVAL;
	return 0;
}

static int overlaps(uint32_t a, uint32_t b, uint32_t na, uint32_t nb)
{
	return a < (uint64_t)b + nb && b < (uint64_t)a + na;
}

ssize_t proc_write_idmap(const struct pseudo_req *rq, char *buf, size_t len)
{
	const struct proc_source *ps = proc_ps(rq);
	struct proc_idmap_extent *ext;
	int n = 0, r = 0;

	if (!ps->idmap_set)
		return -EPERM;
	if (len >= PSEUDO_WRITE_MAX || strlen(buf) != len)
		return -EINVAL;
	ext = calloc(PROC_IDMAP_MAX, sizeof(*ext));
	if (!ext)
		return -ENOMEM;
	for (char *line = buf, *next; !r && line && *line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = 0;
		if (n == PROC_IDMAP_MAX)
			r = -EINVAL;
		else
			r = parse_extent(line, &ext[n]);
		for (int i = 0; !r && i < n; i++)
			if (overlaps(ext[i].first, ext[n].first, ext[i].count, ext[n].count) ||
			    overlaps(ext[i].lower_first, ext[n].lower_first, ext[i].count,
				     ext[n].count))
				r = -EINVAL;
		n++;
	}
	if (!r && n == 0)
		r = -EINVAL;
	if (!r)
		r = ps->idmap_set(ps, rq->inst->obj, (enum proc_idmap)rq->desc->arg, ext, n);
	free(ext);
	return r ? r : (ssize_t)len;
}

int proc_show_setgroups(const struct pseudo_req *rq, struct strbuf *out)
{
	const struct proc_source *ps = proc_ps(rq);
	int64_t v = 1;
	int r = ps->number_get(ps, rq->inst->obj, PROC_SETGROUPS, &v);

	if (!r)
		strbuf_puts(out, v ? "allow\n" : "deny\n");
	return r;
}

ssize_t proc_write_setgroups(const struct pseudo_req *rq, char *buf, size_t len)
{
	const struct proc_source *ps = proc_ps(rq);
	int64_t v;

	if (len >= 8)
		return -EINVAL;
	size_t n = len;

	while (n && (buf[n - 1] == '\n' || buf[n - 1] == ' ' || buf[n - 1] == '\t'))
		n--;
	if (n == 5 && !memcmp(buf, "allow", 5))
		v = 1;
	else if (n == 4 && !memcmp(buf, "deny", 4))
		v = 0;
	else
		return -EINVAL;
	int r = ps->number_set ? ps->number_set(ps, rq->inst->obj, PROC_SETGROUPS, v) : -EPERM;

	return r ? r : (ssize_t)len;
}

/* ---- mem: the right to it is decided at open, for the memory the process has then ---- */

int proc_mem_open(const struct pseudo_req *rq, struct file *f, void **data)
{
	const struct proc_source *ps = proc_ps(rq);
	int r = proc_may_access(rq, PROC_ACCESS_ATTACH);

	if (r)
		return r;
	if (ps->mem_get) {
		*data = ps->mem_get(ps, rq->inst->obj);
		if (!*data)
			return -EACCES;
	}
	return 0;
}

void proc_mem_release(const struct pseudo_req *rq)
{
	const struct proc_source *ps = proc_ps(rq);

	if (rq->data && ps->mem_put)
		ps->mem_put(ps, rq->data);
}

static ssize_t mem_rw(struct file *f, struct uio *u, int64_t *pos, int write)
{
	const struct pseudo_req *rq = pseudo_file_req(f);
	const struct proc_source *ps = proc_ps(rq);

	if (!u->left)
		return 0;
	ssize_t n = ps->mem_rw(ps, rq->data ? rq->data : rq->inst->obj, u, (uint64_t)*pos, write);

	if (n == 0 || n == -EFAULT)
		n = -EIO;
	if (n > 0)
		*pos = (int64_t)((uint64_t)*pos + (uint64_t)n);
	return n;
}

static ssize_t mem_read(struct file *f, struct uio *u, int64_t *pos)
{
	return mem_rw(f, u, pos, 0);
}

static ssize_t mem_write(struct file *f, struct uio *u, int64_t *pos)
{
	return mem_rw(f, u, pos, 1);
}

/* As mem_lseek: any 64-bit value is a position. */
static int64_t mem_llseek(struct file *f, int64_t off, int whence)
{
	if (whence == SEEK_SET)
		f->pos = off;
	else if (whence == SEEK_CUR)
		f->pos = (int64_t)((uint64_t)f->pos + (uint64_t)off);
	else
		return -EINVAL;
	return f->pos;
}

const struct file_ops g_proc_mem_ops = {
	.read = mem_read,
	.write = mem_write,
	.llseek = mem_llseek,
	.release = pseudo_file_release,
};
