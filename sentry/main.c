/* SPDX-License-Identifier: Apache-2.0 */
/*
 * caisson-sentry BOOTCONF_FD: the kernel of one sandbox. The runtime starts it with a few open fds
 * and a boot configuration (docs/bootconf.md); it isolates itself, builds the sandbox, gives up
 * the rest of its rights and serves until the first program ends.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "platform/base/hash.h"
#include "platform/base/log.h"
#include "platform/base/phase.h"
#include "platform/host/memfile.h"
#include "sentry/boot.h"
#include "sentry/isolate.h"

/* The fds that stay: those the configuration names. Everything else the caller left open goes.
 * #hostcalls: close_range */
static void close_unexpected(const struct bootconf *conf)
{
	static const char *const keys[] = { "stdin_fd", "stdout_fd", "stderr_fd", "log_fd",
					    "control_fd", "gofer_fd", "audit_fd", "nic0_fd", "nic1_fd",
					    "nic2_fd", "nic3_fd", "nic4_fd", "nic5_fd" };
	unsigned int from = 0;

	for (;;) {
		unsigned int next = ~0u;

		for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
			uint64_t fd;

			if (bootconf_get_u64(conf, keys[i], UINT64_MAX, &fd) == 0 && fd <= 65535 &&
			    fd >= from && fd < next)
				next = (unsigned int)fd;
		}
		if (next > from)
			syscall(SYS_close_range, from, next == ~0u ? ~0u : next - 1, 0);
		if (next == ~0u)
			return;
		from = next + 1;
	}
}

int main(int argc, char **argv)
{
	static struct bootconf conf;
	uint64_t seed, log_fd, started = 0;
	enum log_level level = LOG_WARN;
	char *end;
	int err;

	log_setup(2, LOG_WARN, "sentry");
	long fd = argc == 2 ? strtol(argv[1], &end, 10) : -1;

	if (fd < 0 || fd > 65535 || *end) {
		log_error("usage: caisson-sentry BOOTCONF_FD (it is started by `caisson run`)");
		return BOOT_EXIT_SETUP;
	}
	bootconf_init(&conf);
	err = bootconf_read(&conf, (int)fd);
	if (err || bootconf_get_u64(&conf, "log_fd", 2, &log_fd) || log_fd > 65535) {
		log_error("no usable configuration on fd %ld: %s", fd, strerror(err ? -err : EINVAL));
		return BOOT_EXIT_SETUP;
	}
	(void)log_level_parse(bootconf_get(&conf, "log_level"), &level);
	log_setup((int)log_fd, level, "sentry");
	if (bootconf_get_u64(&conf, "started_ns", 0, &started))
		log_warn("configuration: started_ns is not a number");
	phase_begin(started);
	phase_mark("main");
	close_unexpected(&conf);
	crash_setup((int)log_fd);
	if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed)) {
		log_error("no random numbers");
		return BOOT_EXIT_SETUP;
	}
	hash_seed(seed);
	err = kernel_boot(&conf);
	return err ? BOOT_EXIT_SETUP : 0;
}
