/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of the gofer protocol, for both sides: header, attribute record, limits, and the
 * checked cursors through which every field is read and written. gofer/PROTOCOL.md says what the
 * messages mean. Little-endian as the host is (x86-64 only). Pure functions, no host calls.
 */
#ifndef CAISSON_GOFER_WIRE_H
#define CAISSON_GOFER_WIRE_H

#include <stddef.h>
#include <stdint.h>

#define GOFER_MAGIC   0x53494143u /* "CAIS" */
#define GOFER_VERSION 1u

/*
 * The largest message either side sends. A SEQPACKET message must fit the socket's send buffer,
 * whose default is 208 KiB and which an unprivileged process can not raise far.
 */
#define GOFER_MSG_MAX	     (128u << 10)
#define GOFER_NAME_MAX	     255u
#define GOFER_LINK_MAX	     4095u
#define GOFER_WALK_MAX	     64u /* components per WALK */
#define GOFER_LISTDIRS_MAX   64u /* directories per LISTDIRS */
#define GOFER_FORGET_MAX     4096u
#define GOFER_XATTR_MAX	     65536u
#define GOFER_XATTR_NAME_MAX 255u

struct gofer_hdr {
	uint32_t size;	/* of the whole message, header included */
	uint16_t type;	/* GOFER_*; replies carry their request's */
	uint16_t flags; /* GOFER_F_* */
	uint32_t tag;	/* chosen by the client, echoed */
	int32_t error;	/* replies: 0 or negative errno, then there is no body. Requests: 0 */
};
_Static_assert(sizeof(struct gofer_hdr) == 16, "wire layout");
#define GOFER_F_REPLY 1u
#define GOFER_F_FD    2u /* one fd comes along */

enum gofer_msg {
#define MSG(num, name, phases, flags) GOFER_##name = num,
#include "gofer/proto/messages.def"
#undef MSG
	GOFER_MSG_COUNT
};

/* "WALK", or "?" for numbers that are no message. */
const char *gofer_msg_name(unsigned int type);

/* Attributes of one object, as on the wire. */
struct gofer_attr {
	uint64_t dev, ino;
	uint64_t size, blocks, rdev;
	int64_t atime, mtime, ctime, btime;
	uint32_t atime_ns, mtime_ns, ctime_ns, btime_ns;
	uint32_t mode, nlink, uid, gid;
	uint32_t blksize;
	uint32_t flags; /* GOFER_ATTR_* */
};
_Static_assert(sizeof(struct gofer_attr) == 112, "wire layout");
#define GOFER_ATTR_IMMUTABLE 1u
#define GOFER_ATTR_APPEND    2u
#define GOFER_ATTR_NOCAPS    4u /* known to have no security.capability (replies to opens only) */

struct gofer_statfs {
	int64_t type;
	uint64_t bsize, frsize, blocks, bfree, bavail, files, ffree, namelen;
};

/* ATTACH reply flags */
#define GOFER_AT_RDONLY	   1u
#define GOFER_AT_FILE	   2u
#define GOFER_AT_EXCLUSIVE 4u

/* WALK request flags */
#define GOFER_WALK_OPEN 1u /* open the last component for reading if it is a regular file */
/* READDIR request flags */
#define GOFER_READDIR_PLUS 1u /* entries carry attributes */
/* OPEN and CREATE access */
#define GOFER_OPEN_READ	 1u
#define GOFER_OPEN_WRITE 2u
/* UNLINK flags */
#define GOFER_UNLINK_DIR 1u
/* SETATTR valid bits */
#define GOFER_SET_MODE	1u
#define GOFER_SET_UID	2u
#define GOFER_SET_GID	4u
#define GOFER_SET_SIZE	8u
#define GOFER_SET_ATIME 16u
#define GOFER_SET_MTIME 32u
#define GOFER_SET_ALL	63u

/* ---- reading: a getter past the end returns zeros and sets bad, for good ---- */
struct wire_in {
	const uint8_t *p;
	size_t left;
	int bad;
};

void wire_in_init(struct wire_in *in, const void *p, size_t n);
uint8_t wire_u8(struct wire_in *in);
uint16_t wire_u16(struct wire_in *in);
uint32_t wire_u32(struct wire_in *in);
uint64_t wire_u64(struct wire_in *in);
/* n raw bytes inside the message; NULL when bad. */
const void *wire_bytes(struct wire_in *in, size_t n);
void wire_attr(struct wire_in *in, struct gofer_attr *a);
/*
 * A file name {u16 length, bytes} copied out with a NUL: 1..255 bytes, no '/', no NUL, not "."
 * and not "..". Anything else sets bad. Returns the length (0 when bad).
 */
size_t wire_name(struct wire_in *in, char name[GOFER_NAME_MAX + 1]);
/* A NUL-free string {u16 length, bytes} of 1..max bytes, copied with a NUL into buf[max + 1]. */
size_t wire_text(struct wire_in *in, char *buf, size_t max);
/* True when everything was there and nothing is left over. */
static inline int wire_done(const struct wire_in *in)
{
	return !in->bad && in->left == 0;
}

/* ---- writing: a putter past the end sets bad and writes nothing ---- */
struct wire_out {
	uint8_t *buf;
	size_t len, cap;
	int bad;
};

void wire_out_init(struct wire_out *out, void *buf, size_t cap);
void wire_put(struct wire_out *out, const void *p, size_t n);
void wire_put_u8(struct wire_out *out, uint8_t v);
void wire_put_u16(struct wire_out *out, uint16_t v);
void wire_put_u32(struct wire_out *out, uint32_t v);
void wire_put_u64(struct wire_out *out, uint64_t v);
/* {u16 length, bytes} */
void wire_put_text(struct wire_out *out, const char *s, size_t n);
/* Overwrites 4 or 2 bytes at `at`, which were put before. */
void wire_patch_u32(struct wire_out *out, size_t at, uint32_t v);
void wire_patch_u16(struct wire_out *out, size_t at, uint16_t v);

/* 1 when s[0..n) may stand as one component of a path. */
int gofer_name_valid(const char *s, size_t n);

#endif
