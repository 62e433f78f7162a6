/* SPDX-License-Identifier: Apache-2.0 */
/* Open text files and directory listings of table-made filesystems. */
#include "vfs/pseudo/pseudo_priv.h"

int pseudo_open(struct inode *ino, struct file *f)
{
	struct pseudo_file *pf = calloc(1, sizeof(*pf));

	if (!pf)
		return -ENOMEM;
	pf->rq = pseudo_req_of(ino);
	pf->rq.cred = f->cred;
	lock_init(&pf->lock, RANK_LEAF);
	strbuf_init(&pf->text);
	const struct pseudo_desc *d = pf->rq.desc;

	if (d->open) {
		int r = d->open(&pf->rq, f, &pf->rq.data);

		if (r) {
			lock_destroy(&pf->lock);
			free(pf);
			return r;
		}
	}
	f->priv = pf;
	f->ops = d->fops ? d->fops : ino->fops;
	return 0;
}

const struct pseudo_req *pseudo_file_req(struct file *f)
{
	return &((struct pseudo_file *)f->priv)->rq;
}

void pseudo_file_release(struct file *f)
{
	struct pseudo_file *pf = f->priv;

	if (!pf)
		return;
	if (pf->rq.desc->release)
		pf->rq.desc->release(&pf->rq);
	strbuf_free(&pf->text);
	lock_destroy(&pf->lock);
	free(pf);
	f->priv = NULL;
}

/* Makes the text anew for a reader that starts over; pf is that reader's own. */
static int fill(struct pseudo_file *pf, int64_t pos)
{
	if (pf->filled && pos != 0)
		return 0;
	strbuf_free(&pf->text);
	pf->filled = 0;
	int r = pf->rq.desc->show(&pf->rq, &pf->text);

	if (!r)
		r = pf->text.err;
	if (r)
		return r;
	pf->filled = 1;
	return 0;
}

static ssize_t text_read(struct file *f, struct uio *u, int64_t *pos)
{
	struct pseudo_file *pf = f->priv;
	struct strbuf text;
	ssize_t n = 0;

	if (!pf->rq.desc->show)
		return -EINVAL;
	if (*pos < 0)
		return -EINVAL;
	/*
	 * The copy to the guest may fault and wait, and show may take any of the sentry's locks,
	 * so the text is taken out of the file meanwhile; a second reader at once makes its own.
	 */
	lock_acquire(&pf->lock);
	text = pf->text;
	int filled = pf->filled;

	strbuf_init(&pf->text);
	pf->filled = 0;
	lock_release(&pf->lock);

	struct pseudo_file mine = { .rq = pf->rq, .text = text, .filled = filled };
	int r = fill(&mine, *pos);

	if (r)
		n = r;
	else if ((uint64_t)*pos < mine.text.len) {
		n = uio_copy_out(u, mine.text.data + *pos, mine.text.len - (size_t)*pos);
		if (n > 0)
			*pos += n;
	}
	lock_acquire(&pf->lock);
	if (!pf->filled && mine.filled) {
		pf->text = mine.text;
		pf->filled = 1;
		strbuf_init(&mine.text);
	}
	lock_release(&pf->lock);
	strbuf_free(&mine.text);
	return n;
}

static ssize_t text_write(struct file *f, struct uio *u, int64_t *pos)
{
	struct pseudo_file *pf = f->priv;

	if (!pf->rq.desc->write)
		return -EINVAL;
	size_t n = u->left < PSEUDO_WRITE_MAX ? u->left : PSEUDO_WRITE_MAX;
	char *buf = malloc(n + 1);

	if (!buf)
		return -ENOMEM;
	ssize_t got = uio_copy_in(u, buf, n);

	if (got >= 0) {
		buf[got] = 0;
		got = pf->rq.desc->write(&pf->rq, buf, (size_t)got);
		if (got > 0 && pos)
			*pos += got;
	}
	free(buf);
	return got;
}

/* As seq_lseek: no end to seek from. */
static int64_t text_llseek(struct file *f, int64_t off, int whence)
{
	int64_t to;

	if (whence == SEEK_SET)
		to = off;
	else if (whence != SEEK_CUR || __builtin_add_overflow(f->pos, off, &to))
		return -EINVAL;
	if (to < 0)
		return -EINVAL;
	return to;
}

static uint32_t text_poll(struct file *f, struct poll_table *pt)
{
	struct pseudo_file *pf = f->priv;

	if (pf->rq.desc->poll)
		return pf->rq.desc->poll(&pf->rq, pt);
	return POLLIN | POLLOUT | POLLRDNORM | POLLWRNORM;
}

static uint8_t type_of(uint32_t mode)
{
	return (uint8_t)((mode & S_IFMT) >> 12);
}

static int emit_dots(struct file *f, struct dir_emit *de, int64_t *pos)
{
	struct dentry *d = f->path.dentry;
	struct inode *up = d && d->parent && d->parent->inode ? d->parent->inode : f->inode;

	if (*pos == 0) {
		if (!de->emit(de, ".", 1, 1, f->inode->ino, type_of(S_IFDIR)))
			return 0;
		*pos = 1;
	}
	if (*pos == 1) {
		if (!de->emit(de, "..", 2, 2, up->ino, type_of(S_IFDIR)))
			return 0;
		*pos = 2;
	}
	return 1;
}

/* Static names at position index + 2. 1: all are out. */
static int emit_static(struct file *f, const struct pseudo_req *rq, struct dir_emit *de, int64_t *pos)
{
	const struct pseudo_desc *d = rq->desc->children;
	int64_t at = 2;

	for (; d && d->name; d++, at++) {
		struct pseudo_req child = *rq;

		child.desc = d;
		if (at < *pos || (d->present && !d->present(&child)))
			continue;
		if (!de->emit(de, d->name, strlen(d->name), (uint64_t)at + 1,
			      pseudo_ino(f->inode->sb, d, rq->inst), type_of(d->mode)))
			return 0;
		*pos = at + 1;
	}
	return 1;
}

static int pseudo_iterate(struct file *f, struct dir_emit *de, int64_t *pos)
{
	struct pseudo_file *pf = f->priv;
	const struct pseudo_req *rq = &pf->rq;
	const struct pseudo_dyn *dyn = rq->desc->dyn;

	if (*pos < 0)
		return -EINVAL;
	if ((uint64_t)*pos < PSEUDO_DYN_POS) {
		if (!emit_dots(f, de, pos) || !emit_static(f, rq, de, pos))
			return 0;
		if (!dyn)
			return 0;
	}
	if (!dyn)
		return 0;
	uint64_t from = (uint64_t)*pos > PSEUDO_DYN_POS ? (uint64_t)*pos - PSEUDO_DYN_POS : 0, key;
	char name[PSEUDO_NAME_SIZE];
	struct pseudo_inst inst = *rq->inst;

	while (dyn->next(rq, from, &key, name) > 0) {
		inst.key[dyn->slot] = key;
		if (!de->emit(de, name, strlen(name), PSEUDO_DYN_POS + key + 1,
			      pseudo_ino(f->inode->sb, dyn->each, &inst), type_of(dyn->each->mode)))
			return 0;
		from = key + 1;
		*pos = (int64_t)(PSEUDO_DYN_POS + from);
	}
	return 0;
}

const struct file_ops g_pseudo_text_ops = {
	.read = text_read,
	.write = text_write,
	.llseek = text_llseek,
	.poll = text_poll,
	.release = pseudo_file_release,
};

const struct file_ops g_pseudo_dir_ops = {
	.iterate = pseudo_iterate,
	.release = pseudo_file_release,
};
