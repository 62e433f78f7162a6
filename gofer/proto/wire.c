/* SPDX-License-Identifier: Apache-2.0 */
/* The cursors of wire.h. Both ends read hostile bytes through these and nothing else. */
#include "gofer/proto/wire.h"

#include <string.h>

const char *gofer_msg_name(unsigned int type)
{
	static const char *const names[GOFER_MSG_COUNT] = {
#define MSG(num, name, phases, flags) [num] = #name,
#include "gofer/proto/messages.def"
#undef MSG
	};

	return type < GOFER_MSG_COUNT && names[type] ? names[type] : "?";
}

int gofer_name_valid(const char *s, size_t n)
{
	if (n == 0 || n > GOFER_NAME_MAX || memchr(s, '/', n) || memchr(s, '\0', n))
		return 0;
	if (s[0] == '.' && (n == 1 || (n == 2 && s[1] == '.')))
		return 0;
	return 1;
}

void wire_in_init(struct wire_in *in, const void *p, size_t n)
{
	in->p = p;
	in->left = n;
	in->bad = 0;
}

const void *wire_bytes(struct wire_in *in, size_t n)
{
	if (in->bad || n > in->left) {
		in->bad = 1;
		return NULL;
	}
	const void *p = in->p;

	in->p += n;
	in->left -= n;
	return p;
}

static void get(struct wire_in *in, void *to, size_t n)
{
	const void *p = wire_bytes(in, n);

	if (p)
		memcpy(to, p, n);
	else
		memset(to, 0, n);
}

uint8_t wire_u8(struct wire_in *in)
{
	uint8_t v;

	get(in, &v, sizeof(v));
	return v;
}

uint16_t wire_u16(struct wire_in *in)
{
	uint16_t v;

	get(in, &v, sizeof(v));
	return v;
}

uint32_t wire_u32(struct wire_in *in)
{
	uint32_t v;

	get(in, &v, sizeof(v));
	return v;
}

uint64_t wire_u64(struct wire_in *in)
{
	uint64_t v;

	get(in, &v, sizeof(v));
	return v;
}

void wire_attr(struct wire_in *in, struct gofer_attr *a)
{
	get(in, a, sizeof(*a));
}

size_t wire_text(struct wire_in *in, char *buf, size_t max)
{
	size_t n = wire_u16(in);
	const char *p = n && n <= max ? wire_bytes(in, n) : NULL;

	buf[0] = '\0';
	if (!p || memchr(p, '\0', n)) {
		in->bad = 1;
		return 0;
	}
	memcpy(buf, p, n);
	buf[n] = '\0';
	return n;
}

size_t wire_name(struct wire_in *in, char name[GOFER_NAME_MAX + 1])
{
	size_t n = wire_text(in, name, GOFER_NAME_MAX);

	if (n && !gofer_name_valid(name, n)) {
		in->bad = 1;
		name[0] = '\0';
		return 0;
	}
	return n;
}

void wire_out_init(struct wire_out *out, void *buf, size_t cap)
{
	out->buf = buf;
	out->len = 0;
	out->cap = cap;
	out->bad = 0;
}

void wire_put(struct wire_out *out, const void *p, size_t n)
{
	if (out->bad || n > out->cap - out->len) {
		out->bad = 1;
		return;
	}
	if (n)
		memcpy(out->buf + out->len, p, n);
	out->len += n;
}

void wire_put_u8(struct wire_out *out, uint8_t v)
{
	wire_put(out, &v, sizeof(v));
}

void wire_put_u16(struct wire_out *out, uint16_t v)
{
	wire_put(out, &v, sizeof(v));
}

void wire_put_u32(struct wire_out *out, uint32_t v)
{
	wire_put(out, &v, sizeof(v));
}

void wire_put_u64(struct wire_out *out, uint64_t v)
{
	wire_put(out, &v, sizeof(v));
}

void wire_put_text(struct wire_out *out, const char *s, size_t n)
{
	if (n > UINT16_MAX) {
		out->bad = 1;
		return;
	}
	wire_put_u16(out, (uint16_t)n);
	wire_put(out, s, n);
}

void wire_patch_u32(struct wire_out *out, size_t at, uint32_t v)
{
	if (at <= out->len && out->len - at >= sizeof(v))
		memcpy(out->buf + at, &v, sizeof(v));
}

void wire_patch_u16(struct wire_out *out, size_t at, uint16_t v)
{
	if (at <= out->len && out->len - at >= sizeof(v))
		memcpy(out->buf + at, &v, sizeof(v));
}
