/* SPDX-License-Identifier: Apache-2.0 */
/* See name.h. */
#include "netstack/egress/name.h"

#include <errno.h>
#include <string.h>

#define LABEL_MAX 63

int egress_name_canon(const char *in, size_t n, char out[EGRESS_NAME_SIZE])
{
	size_t label = 0, digits = 0;

	if (n && in[n - 1] == '.')
		n--;
	if (!n || n >= EGRESS_NAME_SIZE)
		return -EINVAL;
	for (size_t i = 0; i < n; i++) {
		char c = in[i];

		if (c == '.') {
			if (!label)
				return -EINVAL;
			label = digits = 0;
		} else {
			if (c >= 'A' && c <= 'Z')
				c = (char)(c - 'A' + 'a');
			if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_') ||
			    ++label > LABEL_MAX)
				return -EINVAL;
			digits += c >= '0' && c <= '9';
		}
		out[i] = c;
	}
	out[n] = '\0';
	/* No top-level domain is a number; what ends in one is somebody's spelling of an address. */
	return !label || digits == label ? -EINVAL : 0;
}

int egress_name_below(const char *name, const char *suffix)
{
	size_t n = strlen(name), s = strlen(suffix);

	return n > s + 1 && name[n - s - 1] == '.' && !memcmp(name + n - s, suffix, s);
}
