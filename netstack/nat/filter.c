/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What caisson-net may ask of the host once it serves: Internet sockets that connect, and talking on
 * them. No bind, no listen (the runtime opened published ports), no files, no processes, no threads.
 * Whatever is not listed kills it.
 */
#include <netinet/tcp.h>
#include <sys/mman.h>

#include "netstack/nat/nat.h"
#include "platform/host/filter.h"

#define ARG(i, v) { .index = i, .op = HOST_ARG_EQ, .value = (uint64_t)(v) }
#define MASK(i, m, v) { .index = i, .op = HOST_ARG_MASKED, .value = (uint64_t)(v), .mask = (uint64_t)(m) }
#define TYPE (SOCK_NONBLOCK | SOCK_CLOEXEC)
#define ANY(n) { .name = n }

int nat_filter(const struct nat *n, int log)
{
	const struct host_filter_rule rules[] = {
		{ .name = "socket", .arg_count = 3, .arg = { ARG(0, AF_INET), ARG(1, SOCK_STREAM | TYPE), ARG(2, 0) } },
		{ .name = "socket", .arg_count = 3, .arg = { ARG(0, AF_INET6), ARG(1, SOCK_STREAM | TYPE), ARG(2, 0) } },
		{ .name = "socket", .arg_count = 3, .arg = { ARG(0, AF_INET), ARG(1, SOCK_DGRAM | TYPE), ARG(2, 0) } },
		{ .name = "socket", .arg_count = 3, .arg = { ARG(0, AF_INET6), ARG(1, SOCK_DGRAM | TYPE), ARG(2, 0) } },
		{ .name = "socket", .arg_count = 3,
		  .arg = { ARG(0, AF_INET), ARG(1, SOCK_DGRAM | TYPE), ARG(2, IPPROTO_ICMP) } },
		{ .name = "socket", .arg_count = 3,
		  .arg = { ARG(0, AF_INET6), ARG(1, SOCK_DGRAM | TYPE), ARG(2, IPPROTO_ICMPV6) } },
		ANY("connect"),
		ANY("accept4"),
		ANY("sendto"),
		ANY("recvfrom"),
		ANY("shutdown"),
		ANY("close"),
		{ .name = "sendmmsg", .arg_count = 1, .arg = { ARG(0, n->link.fd) } },
		{ .name = "recvmmsg", .arg_count = 1, .arg = { ARG(0, n->link.fd) } },
		{ .name = "getsockopt", .arg_count = 2, .arg = { ARG(1, SOL_SOCKET), ARG(2, SO_ERROR) } },
		{ .name = "setsockopt", .arg_count = 2, .arg = { ARG(1, SOL_SOCKET), ARG(2, SO_LINGER) } },
		{ .name = "setsockopt", .arg_count = 2, .arg = { ARG(1, SOL_SOCKET), ARG(2, SO_KEEPALIVE) } },
		{ .name = "setsockopt", .arg_count = 2, .arg = { ARG(1, IPPROTO_TCP), ARG(2, TCP_NODELAY) } },
		ANY("epoll_ctl"),
		ANY("epoll_wait"),
		ANY("clock_gettime"),
		ANY("getrandom"),
		{ .name = "write", .arg_count = 1, .arg = { ARG(0, log) } },
		/* memory; futex: of uncontended locks, should one ever wait */
		{ .name = "mmap", .arg_count = 1, .arg = { MASK(2, PROT_EXEC, 0) } },
		{ .name = "mprotect", .arg_count = 1, .arg = { MASK(2, PROT_EXEC, 0) } },
		ANY("munmap"),
		ANY("mremap"),
		ANY("madvise"),
		ANY("brk"),
		ANY("futex"),
		ANY("restart_syscall"),
		ANY("exit_group"),
	};

	return host_filter_install(rules, sizeof(rules) / sizeof(*rules), HOST_FILTER_KILL);
}
