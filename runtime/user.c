/* SPDX-License-Identifier: Apache-2.0 */
/* The strict parser of user.h. */
#include "runtime/user.h"

#include <stdio.h>
#include <string.h>

int user_id_parse(const char *text, uint32_t *id)
{
	uint64_t v = 0;

	if (!*text || strlen(text) > 10)
		return -1;
	for (; *text; text++) {
		if (*text < '0' || *text > '9')
			return -1;
		v = v * 10 + (uint64_t)(*text - '0');
	}
	if (v > USER_ID_MAX)
		return -1;
	*id = (uint32_t)v;
	return 0;
}

int user_parse(const char *text, uint32_t *uid, uint32_t *gid)
{
	const char *colon = strchr(text, ':');
	uint32_t u, g = *gid;
	char first[16];

	if (!colon)
		return user_id_parse(text, uid);
	if ((size_t)(colon - text) >= sizeof(first))
		return -1;
	snprintf(first, sizeof(first), "%.*s", (int)(colon - text), text);
	if (user_id_parse(first, &u) || user_id_parse(colon + 1, &g))
		return -1;
	*uid = u;
	*gid = g;
	return 0;
}
