/* SPDX-License-Identifier: Apache-2.0 */
/* AF_PACKET (packet(7)): refused plainly. Frames are the netstack's alone. */
#include "platform/base/log.h"
#include "sentry/socket/socket.h"

static struct socket *create(struct kernel *k, struct task *t, int type, int protocol)
{
	(void)k, (void)protocol;
	if (type != SOCK_RAW && type != SOCK_DGRAM && type != SOCK_PACKET)
		return ERR_PTR(-ESOCKTNOSUPPORT);
	if (!cred_has_cap(task_cred(t), CAP_NET_RAW))
		return ERR_PTR(-EPERM);
	log_info("AF_PACKET is not served");
	return ERR_PTR(-EAFNOSUPPORT);
}

const struct socket_family g_packet_family = { AF_PACKET, create };
