/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one lock order of the sentry: a thread that holds a lock may only take locks of a higher
 * rank. The same tree stands, indented, in ARCHITECTURE.md. Two locks of one rank may be held
 * together only through lock_acquire_nested(), whose caller states the order among them.
 */
#ifndef CAISSON_LOCK_RANKS_H
#define CAISSON_LOCK_RANKS_H

enum lock_rank {
	RANK_NONE = 0,	    /* not checked: for tests */
	RANK_BOOT,	    /* sandbox start and stop */
	RANK_EXEC,	    /* task->exec_guard: credentials and mm of a process being exec'd */
	RANK_FILE_POS,	    /* file->pos_lock */
	RANK_FILE_APPEND,   /* appending writes to one inode (hashed), under pos_lock */
	RANK_EPOLL_CTL,	    /* epoll interest list (nested: outer epoll first) */
	RANK_VFS_RENAME,    /* directory renames across directories, one at a time */
	RANK_INODE_OVERLAY, /* inode->lock of overlay inodes, before those of their layers (nested as
			       below) */
	RANK_INODE,	    /* inode->lock: size, data, attributes (nested: parent, then child;
			       then by address) */
	RANK_FLOCK,	    /* file lock lists of an inode */
	RANK_GOFER,	    /* gofer client bookkeeping */
	RANK_TTY,	    /* terminal state (nested: master, then slave); copies guest memory */
	RANK_PIPE,	    /* pipe buffers (nested: by address); copies guest memory, so before MM */
	RANK_SOCKET_IO,	    /* one reader at a time of a socket; held while copying to the guest */
	RANK_MM,	    /* mm->lock: the VMA tree (nested: parent, then child in fork) */
	RANK_FDTABLE,	    /* fdtable->lock */
	RANK_FS,	    /* fs_struct: cwd, root, umask */
	RANK_IPC,	    /* SysV IPC and POSIX mq objects */
	RANK_SOCKET,	    /* socket state (nested: by address) */
	RANK_STACK,	    /* netstack: one lock per stack */
	RANK_EGRESS,	    /* the egress policy; asked by the stack about each packet */
	RANK_TIMER_OBJ,	    /* timerfd, posix timer objects */
	RANK_FUTEX,	    /* futex hash buckets (nested: by address) */
	RANK_TASKS,	    /* kernel->tasks_lock: task tree, pids, sessions, signals */
	RANK_TIMER,	    /* ktimer heap; released while a timer function runs */
	RANK_VFS_NOTIFY,    /* inode marks: watch functions run under it */
	RANK_VFS_TREE,	    /* dentry tree and mounts (rwlock); nothing of a filesystem runs under it */
	RANK_TMPFS,	    /* tmpfs extent tables and accounting; taken from page faults too */
	RANK_CACHE,	    /* page cache and memfile allocator */
	RANK_PLATFORM_OP,   /* platform: fork and clone of one address space, across a handoff
			       (nested: an address space's, then the zygote's) */
	RANK_PLATFORM,	    /* platform: orders a stub thread has been given */
	RANK_WAITQ,	    /* waitq->lock; wake functions run under it */
	RANK_EPOLL_READY,   /* epoll ready list, taken by wake functions */
	RANK_WAITQ_NESTED,  /* the waitq of an epoll file itself (nested epolls go through it) */
	RANK_LEAF,	    /* held for a few instructions; nothing is taken inside */
	RANK_LOG,	    /* the log's own lock */
};

#endif
