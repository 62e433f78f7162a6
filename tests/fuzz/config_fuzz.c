/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hostile config.json. Seeds are cut, spliced and sprinkled with the words that mean something to
 * the parser; what it accepts must be well formed: a root first, four fields a mount line, absolute
 * targets, attach points without tabs, and nothing that a later reader would take for another key.
 *
 *   config_fuzz [ROUNDS [SEED]]      plain program; the default is 20000 rounds
 *   -DFUZZ_LIBFUZZER                 leaves out main(): input is the text
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/spec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t g_accepted;

static void fail(const char *why, const char *what)
{
	fprintf(stderr, "FAIL: %s: %s\n", why, what);
	abort();
}

static unsigned tabs(const char *s)
{
	unsigned n = 0;

	for (; *s; s++)
		n += *s == '\t';
	return n;
}

static void check_lines(const struct bootconf *bc, const char *key, unsigned fields, char first)
{
	const char *v;
	size_t pos = 0;

	while ((v = bootconf_next(bc, key, &pos)))
		if ((fields && tabs(v) != fields - 1) || (first && *v != first))
			fail(key, v);
}

static void check_result(const struct spec *s)
{
	const char *root, *v;
	size_t pos = 0;

	root = bootconf_next(&s->sentry, "mount", &pos);
	if (!root || !strstr(root, "\t0\t/\t"))
		fail("the first mount is not the root", root ? root : "none");
	check_lines(&s->sentry, "mount", 4, 0);
	check_lines(&s->gofer, "attach", 4, 0);
	check_lines(&s->sentry, "device", 5, '/');
	check_lines(&s->sentry, "masked", 0, '/');
	v = bootconf_get(&s->sentry, "uid");
	if (!v || strspn(v, "0123456789") != strlen(v) || strtoull(v, NULL, 10) > 4294967294ull)
		fail("uid", v ? v : "none");
	for (pos = 0; (v = bootconf_next(&s->sentry, "sysctl", &pos));)
		if (strncmp(v, "net.", 4) && strncmp(v, "kernel.", 7) && strncmp(v, "fs.mqueue.", 10))
			fail("sysctl", v);
	for (size_t at = 0; at < s->sentry.size; at += strlen(s->sentry.data + at) + 1)
		if (!strchr(s->sentry.data + at, '='))
			fail("a line without a key", s->sentry.data + at);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct spec_error e;
	struct spec s;

	memset(&s, 0, sizeof(s));
	if (spec_parse(&s, (const char *)data, size, "/", &e) == 0) {
		check_result(&s);
		g_accepted++;
	} else if (!e.text[0]) {
		fail("refused without a reason", "");
	}
	spec_free(&s);
	return 0;
}

#ifndef FUZZ_LIBFUZZER
static uint64_t g_random;

static uint32_t pick(uint32_t n)
{
	g_random ^= g_random << 13;
	g_random ^= g_random >> 7;
	g_random ^= g_random << 17;
	return (uint32_t)(g_random >> 16) % n;
}

static const char g_seed[] =
	"{\"ociVersion\":\"1.0.2\",\"root\":{\"path\":\"/tmp\",\"readonly\":true},\"hostname\":\"h\",\"process\":{\"terminal\":false,"
	"\"args\":[\"sh\",\"-c\"],\"env\":[\"A=b\"],\"cwd\":\"/\",\"user\":{\"uid\":1,\"gid\":2,\"umask\":18,\"additionalGids\":[3]},"
	"\"capabilities\":{\"bounding\":[\"CAP_KILL\"]},\"rlimits\":[{\"type\":\"RLIMIT_CPU\",\"soft\":1,\"hard\":2}],"
	"\"noNewPrivileges\":true,\"oomScoreAdj\":5},\"mounts\":[{\"destination\":\"/dev\",\"type\":\"tmpfs\",\"options\":[\"ro\",\"mode=755\"]},"
	"{\"destination\":\"/v\",\"type\":\"bind\",\"source\":\"/usr\",\"options\":[\"rbind\",\"ro\"]}],\"linux\":{\"namespaces\":[{\"type\":\"pid\"},"
	"{\"type\":\"network\",\"path\":\"/x\"}],\"maskedPaths\":[\"/proc/kcore\"],\"devices\":[{\"path\":\"/dev/x\",\"type\":\"c\",\"major\":1,\"minor\":3}],"
	"\"sysctl\":{\"net.x\":\"1\"},\"cgroupsPath\":\"/a\",\"resources\":{\"memory\":{\"limit\":1000},\"pids\":{\"limit\":5}},"
	"\"uidMappings\":[{\"containerID\":0,\"hostID\":1,\"size\":2}],\"seccomp\":{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":["
	"{\"names\":[\"read\"],\"action\":\"SCMP_ACT_ERRNO\",\"args\":[{\"index\":0,\"value\":1,\"op\":\"SCMP_CMP_EQ\"}]}]}}}";

static const char *const g_words[] = {
	"null", "-1", "0", "4294967295", "18446744073709551615", "1e308", "true", "[]", "{}", "\"\"", "\\u0000", "\\t", "\\n",
	"/", "..", "\"/a\\tb\"", ",", "\"bind\"", "\"rw\"", "[[[[[[[[", "\"kernel.core_pattern\":\"x\"", "\"path\"", "\xff",
	"\"type\":\"proc\"", "\"SCMP_ACT_TRACE\"", "\"net/../../x\":\"y\"",
};

static size_t mutate(char *buf, size_t len, size_t cap)
{
	for (uint32_t n = 1 + pick(4); n; n--) {
		size_t at = pick((uint32_t)len), cut = pick(3) ? 0 : pick(12);
		const char *w = g_words[pick(sizeof(g_words) / sizeof(*g_words))];
		size_t wl = strlen(w);

		if (pick(3) == 0) { /* replace a value where one begins */
			char *colon = memchr(buf + at, ':', len - at);

			if (colon) {
				at = (size_t)(colon - buf) + 1;
				cut = strcspn(buf + at, ",]}");
			}
		}
		if (pick(4) == 0) {
			buf[at] ^= (char)(1 << pick(8));
			if (!buf[at])
				buf[at] = '0';
			continue;
		}
		if (cut > len - at)
			cut = len - at;
		if (len - cut + wl >= cap)
			continue;
		memmove(buf + at + wl, buf + at + cut, len - at - cut + 1);
		memcpy(buf + at, w, wl);
		len = len - cut + wl;
	}
	return len;
}

int main(int argc, char **argv)
{
	uint64_t rounds = argc > 1 ? strtoull(argv[1], NULL, 10) : 20000;
	static char buf[16384];

	g_random = argc > 2 ? strtoull(argv[2], NULL, 10) : 88172645463325252ull;
	LLVMFuzzerTestOneInput((const uint8_t *)g_seed, sizeof(g_seed) - 1);
	if (!g_accepted)
		fail("the seed is refused", g_seed);
	for (uint64_t i = 0; i < rounds; i++) {
		memcpy(buf, g_seed, sizeof(g_seed));
		size_t len = mutate(buf, sizeof(g_seed) - 1, sizeof(buf));

		LLVMFuzzerTestOneInput((const uint8_t *)buf, len);
	}
	printf("%llu rounds, %llu accepted\n", (unsigned long long)rounds, (unsigned long long)g_accepted);
	return 0;
}
#endif
