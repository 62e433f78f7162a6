/* SPDX-License-Identifier: Apache-2.0 */
/* The key=value list of bootconf.h. */
#include "platform/base/bootconf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

void bootconf_init(struct bootconf *bc)
{
	memset(bc, 0, sizeof(*bc));
}

void bootconf_free(struct bootconf *bc)
{
	free(bc->data);
	bootconf_init(bc);
}

static int reserve(struct bootconf *bc, size_t more)
{
	size_t want;

	if (__builtin_add_overflow(bc->size, more, &want) || want > BOOTCONF_MAX_SIZE)
		return -E2BIG;
	if (want <= bc->cap)
		return 0;
	size_t cap = bc->cap ? bc->cap : 4096;

	while (cap < want)
		cap *= 2;
	char *p = realloc(bc->data, cap);

	if (!p)
		return -ENOMEM;
	bc->data = p;
	bc->cap = cap;
	return 0;
}

int bootconf_add(struct bootconf *bc, const char *key, const char *value)
{
	size_t k = strlen(key), v = strlen(value);

	if (!k || strchr(key, '='))
		return -EINVAL;
	int err = reserve(bc, k + v + 2);

	if (err)
		return err;
	char *at = bc->data + bc->size;

	memcpy(at, key, k);
	at[k] = '=';
	memcpy(at + k + 1, value, v + 1);
	bc->size += k + v + 2;
	return 0;
}

int bootconf_addf(struct bootconf *bc, const char *key, const char *fmt, ...)
{
	char *value;
	va_list ap;

	va_start(ap, fmt);
	int n = vasprintf(&value, fmt, ap);

	va_end(ap);
	if (n < 0)
		return -ENOMEM;
	int err = bootconf_add(bc, key, value);

	free(value);
	return err;
}

int bootconf_add_u64(struct bootconf *bc, const char *key, uint64_t value)
{
	return bootconf_addf(bc, key, "%llu", (unsigned long long)value);
}

int bootconf_read(struct bootconf *bc, int fd)
{
	for (;;) {
		int err = reserve(bc, 65536);

		if (err)
			return err;
		struct iovec room = { bc->data + bc->size, 65536 };
		/* What read(2) does; the sentry, which takes configurations later too, has only this. */
		ssize_t n = preadv2(fd, &room, 1, -1, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		bc->size += (size_t)n;
	}
	if (bc->size && bc->data[bc->size - 1] != '\0')
		return -EINVAL;
	for (size_t at = 0; at < bc->size; at += strlen(bc->data + at) + 1)
		if (!strchr(bc->data + at, '=') || bc->data[at] == '=')
			return -EINVAL;
	return 0;
}

int bootconf_write(const struct bootconf *bc, int fd)
{
	size_t done = 0;

	while (done < bc->size) {
		ssize_t n = write(fd, bc->data + done, bc->size - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		done += (size_t)n;
	}
	return 0;
}

const char *bootconf_next(const struct bootconf *bc, const char *key, size_t *pos)
{
	size_t k = strlen(key);

	while (*pos < bc->size) {
		const char *at = bc->data + *pos;

		*pos += strlen(at) + 1;
		if (!strncmp(at, key, k) && at[k] == '=')
			return at + k + 1;
	}
	return NULL;
}

const char *bootconf_get(const struct bootconf *bc, const char *key)
{
	size_t pos = 0;

	return bootconf_next(bc, key, &pos);
}

int bootconf_get_u64(const struct bootconf *bc, const char *key, uint64_t dflt, uint64_t *out)
{
	const char *v = bootconf_get(bc, key);
	char *end;

	if (!v) {
		*out = dflt;
		return 0;
	}
	if (*v < '0' || *v > '9')
		return -EINVAL;
	errno = 0;
	*out = strtoull(v, &end, v[0] == '0' && v[1] == 'x' ? 16 : 10);
	return errno || *end ? -EINVAL : 0;
}
