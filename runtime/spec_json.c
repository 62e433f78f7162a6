/* SPDX-License-Identifier: Apache-2.0 */
/* JSON values of a configuration, with their types checked; the helpers of spec.h. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/spec.h"

#define DEPTH_MAX 32

int spec_fail(struct spec_error *e, const char *path, const char *fmt, ...)
{
	int n = snprintf(e->text, sizeof(e->text), "config.json: %.200s: ", path);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(e->text + n, sizeof(e->text) - (size_t)n, fmt, ap);
	va_end(ap);
	return -1;
}

struct json_object *spec_get(struct json_object *o, const char *key)
{
	struct json_object *v;

	return o && json_object_object_get_ex(o, key, &v) ? v : NULL;
}

static const char *join(char *buf, size_t size, const char *path, const char *key)
{
	snprintf(buf, size, "%s%s%s", path, *path ? "." : "", key);
	return buf;
}

int spec_want(struct json_object *o, const char *path, const char *key, enum json_type type,
	      struct json_object **out, struct spec_error *e)
{
	char buf[300];

	*out = spec_get(o, key);
	if (*out && !json_object_is_type(*out, type))
		return spec_fail(e, join(buf, sizeof(buf), path, key), "must be a JSON %s",
				 json_type_to_name(type));
	return 0;
}

int spec_text(struct json_object *o, const char *path, const char *key, const char **out,
	      struct spec_error *e)
{
	struct json_object *v;
	char buf[300];

	*out = NULL;
	if (spec_want(o, path, key, json_type_string, &v, e))
		return -1;
	if (v && strlen(json_object_get_string(v)) != (size_t)json_object_get_string_len(v))
		return spec_fail(e, join(buf, sizeof(buf), path, key), "has a NUL byte in it");
	if (v)
		*out = json_object_get_string(v);
	return 0;
}

int spec_int(struct json_object *o, const char *path, const char *key, int64_t min, int64_t max,
	     int64_t *out, struct spec_error *e)
{
	struct json_object *v;
	char buf[300];

	if (spec_want(o, path, key, json_type_int, &v, e))
		return -1;
	if (!v)
		return 0;
	int64_t n = json_object_get_int64(v);

	/* Numbers beyond int64 are kept unsigned by the library, and saturate here. */
	if (n < min || n > max || (n == INT64_MAX && max != INT64_MAX))
		return spec_fail(e, join(buf, sizeof(buf), path, key), "%s is not between %lld and %lld",
				 json_object_get_string(v), (long long)min, (long long)max);
	*out = n;
	return 0;
}

int spec_bool(struct json_object *o, const char *path, const char *key, int *out, struct spec_error *e)
{
	struct json_object *v;

	if (spec_want(o, path, key, json_type_boolean, &v, e))
		return -1;
	if (v)
		*out = json_object_get_boolean(v);
	return 0;
}

int spec_strings(struct json_object *o, const char *path, const char *key, struct json_object **out,
		 size_t *n, struct spec_error *e)
{
	char buf[300];

	*n = 0;
	if (spec_want(o, path, key, json_type_array, out, e))
		return -1;
	if (!*out)
		return 0;
	*n = json_object_array_length(*out);
	for (size_t i = 0; i < *n; i++) {
		struct json_object *v = json_object_array_get_idx(*out, i);

		if (!json_object_is_type(v, json_type_string) ||
		    strlen(json_object_get_string(v)) != (size_t)json_object_get_string_len(v))
			return spec_fail(e, join(buf, sizeof(buf), path, key),
					 "[%zu] must be a string without NUL bytes", i);
	}
	return 0;
}

const char *spec_item(struct json_object *array, size_t i)
{
	return json_object_get_string(json_object_array_get_idx(array, i));
}

int spec_add(struct bootconf *bc, const char *path, const char *key, const char *value,
	     struct spec_error *e)
{
	int err = bootconf_add(bc, key, value);

	return err ? spec_fail(e, path, "%s", strerror(-err)) : 0;
}

char *spec_read_file(int dir, const char *name, size_t *len, struct spec_error *e)
{
	int fd = !strcmp(name, "-") ? dup(0) : openat(dir, name, O_RDONLY | O_CLOEXEC);
	char *text = NULL;
	size_t n = 0, cap = 0;
	ssize_t r = 1;

	if (fd < 0) {
		snprintf(e->text, sizeof(e->text), "%.500s: %s", name,
			 errno == ENOENT ? "no such file or directory" : strerror(errno));
		return NULL;
	}
	while (r > 0) {
		if (cap - n < 4096) {
			char *more = cap < SPEC_SIZE_MAX ? realloc(text, cap * 2 + 65536) : NULL;

			if (!more)
				break;
			text = more;
			cap = cap * 2 + 65536;
		}
		r = read(fd, text + n, cap - n - 1);
		if (r > 0)
			n += (size_t)r;
	}
	close(fd);
	if (r != 0) {
		snprintf(e->text, sizeof(e->text), "%.500s: %s", name,
			 r < 0 ? strerror(errno) : "too big");
		free(text);
		return NULL;
	}
	text[n] = '\0';
	*len = n;
	return text;
}

struct json_object *spec_json(const char *text, size_t len, const char *what, struct spec_error *e)
{
	struct json_tokener *tok = json_tokener_new_ex(DEPTH_MAX);
	struct json_object *o = NULL;

	if (tok && len <= INT_MAX)
		o = json_tokener_parse_ex(tok, text, (int)len);
	if (!o || !json_object_is_type(o, json_type_object)) {
		snprintf(e->text, sizeof(e->text), "%.200s is not a JSON object: %s", what,
			 tok && !o ? json_tokener_error_desc(json_tokener_get_error(tok)) : "another type");
		if (o)
			json_object_put(o);
		o = NULL;
	}
	if (tok)
		json_tokener_free(tok);
	return o;
}
