/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What execve makes of the credentials: set-user-id and set-group-id bits, file capabilities, root's
 * privilege, ambient capabilities (capabilities(7); Linux: bprm_fill_uid, cap_bprm_creds_from_file).
 */
#include <linux/capability.h>
#include <linux/securebits.h>
#include <string.h>
#include <sys/stat.h>

#include "sentry/task/task_priv.h"

struct file_caps {
	int present, effective;
	uint64_t permitted, inheritable;
};

static uint32_t le32(const uint8_t *p)
{
	return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* security.capability, revisions 2 and 3 (whose root id must be ours). Others are ignored. */
static void read_file_caps(struct task *t, struct file *f, struct file_caps *fc)
{
	uint8_t raw[24];
	struct vfs_ctx ctx;
	ssize_t n;

	memset(fc, 0, sizeof(*fc));
	task_vfs_ctx(t, &ctx);
	n = vfs_getxattr(&ctx, f->path, "security.capability", raw, sizeof(raw));
	task_vfs_ctx_put(&ctx);
	if (n < 20)
		return;
	uint32_t magic = le32(raw), rev = magic & VFS_CAP_REVISION_MASK;

	if (!((rev == VFS_CAP_REVISION_2 && n == 20) ||
	      (rev == VFS_CAP_REVISION_3 && n == 24 && le32(raw + 20) == 0)))
		return;
	fc->present = 1;
	fc->effective = (magic & VFS_CAP_FLAGS_EFFECTIVE) != 0;
	fc->permitted = (le32(raw + 4) | (uint64_t)le32(raw + 12) << 32) & CAP_ALL_MASK;
	fc->inheritable = (le32(raw + 8) | (uint64_t)le32(raw + 16) << 32) & CAP_ALL_MASK;
}

/* The set-id bits. */
static void fill_ids(struct task *t, struct file *f, struct cred *c)
{
	struct inode *ino = f->inode;
	uint32_t mode = ino->mode;

	if ((f->path.mnt->flags & MNT_F_NOSUID) || t->no_new_privs)
		return;
	if (mode & S_ISUID)
		c->euid = ino->uid;
	if ((mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP))
		c->egid = ino->gid;
}

static int same(const struct cred *a, const struct cred *b)
{
	return a->uid == b->uid && a->euid == b->euid && a->suid == b->suid && a->fsuid == b->fsuid &&
	       a->gid == b->gid && a->egid == b->egid && a->sgid == b->sgid && a->fsgid == b->fsgid &&
	       a->cap_permitted == b->cap_permitted && a->cap_effective == b->cap_effective &&
	       a->cap_inheritable == b->cap_inheritable && a->cap_ambient == b->cap_ambient &&
	       a->securebits == b->securebits;
}

int exec_creds_prepare(struct task *t, struct file *file, struct exec_creds *out)
{
	const struct cred *old = task_cred(t);
	struct file_caps fc = { 0 };
	int effective, is_setid, gained;
	struct cred *c = cred_dup(old);

	memset(out, 0, sizeof(*out));
	if (!c)
		return -ENOMEM;
	fill_ids(t, file, c);
	if (!(file->path.mnt->flags & MNT_F_NOSUID) && !t->no_new_privs)
		read_file_caps(t, file, &fc);
	effective = fc.present && fc.effective;
	c->cap_permitted = 0;
	if (fc.present) {
		c->cap_permitted = (old->cap_bounding & fc.permitted) |
				   (old->cap_inheritable & fc.inheritable);
		/* A program that counts on its capabilities does not run with fewer. */
		if (effective && (fc.permitted & ~c->cap_permitted)) {
			cred_put(c);
			return -EPERM;
		}
	}
	/* Root gets everything, unless file capabilities of a set-uid-root file say less. */
	if (!(old->securebits & (1u << SECURE_NOROOT)) &&
	    !(fc.present && c->uid != 0 && c->euid == 0)) {
		if (c->euid == 0 || c->uid == 0)
			c->cap_permitted = old->cap_bounding | old->cap_inheritable;
		if (c->euid == 0)
			effective = 1;
	}
	is_setid = c->euid != old->uid || c->egid != old->gid;
	gained = (c->cap_permitted & ~old->cap_permitted) != 0;
	if ((is_setid || gained) && (t->no_new_privs || t->ptrace)) {
		if (t->no_new_privs || !cred_has_cap(old, CAP_SETUID)) {
			c->euid = c->uid;
			c->egid = c->gid;
		}
		c->cap_permitted &= old->cap_permitted;
	}
	c->suid = c->fsuid = c->euid;
	c->sgid = c->fsgid = c->egid;
	if (fc.present || is_setid)
		c->cap_ambient = 0;
	c->cap_permitted |= c->cap_ambient;
	c->cap_effective = effective ? c->cap_permitted : c->cap_ambient;
	c->securebits &= ~(1u << SECURE_KEEP_CAPS);
	out->secure = is_setid ||
		      (c->uid != 0 && (effective || (c->cap_permitted & ~c->cap_ambient)));
	out->ids_changed = c->euid != old->euid || c->egid != old->egid || gained;
	if (same(c, old))
		cred_put(c);
	else
		out->cred = c;
	return 0;
}
