/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages from the runtime: SOCK_SEQPACKET datagrams of key=value strings (bootconf form).
 *   cmd=winsize rows= cols=	the terminal's new size
 *   cmd=signal signo= [force=1]	to the first process; force: the default action holds for it too
 *   cmd=kill reason=		ends the sandbox
 * The main thread sits in recv; that costs nothing while nobody speaks.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "platform/base/log.h"
#include "sentry/boot.h"
#include "sentry/signal/signal.h"
#include "sentry/task/task_priv.h"

#define MESSAGE_MAX 8192

static void do_winsize(const struct bootconf *m)
{
	uint64_t rows, cols;

	if (bootconf_get_u64(m, "rows", 0, &rows) == 0 && bootconf_get_u64(m, "cols", 0, &cols) == 0 &&
	    rows <= UINT16_MAX && cols <= UINT16_MAX)
		console_resize((uint16_t)rows, (uint16_t)cols);
}

/* Would the signal do nothing, only because its receiver is init? [tasks] */
static int only_init_ignores(struct thread_group *init, int signo)
{
	struct task *leader = init->leader;

	if (!(init->group_flags & TG_INIT) || !leader || !leader->sighand)
		return 0;
	return leader->sighand->action[signo - 1].handler == (uint64_t)(uintptr_t)SIG_DFL &&
	       !((SIGBIT(SIGCHLD) | SIGBIT(SIGURG) | SIGBIT(SIGWINCH) | SIGBIT(SIGCONT) |
		  SIGBIT(SIGTSTP) | SIGBIT(SIGTTIN) | SIGBIT(SIGTTOU)) & SIGBIT(signo));
}

static void do_signal(struct kernel *k, const struct bootconf *m)
{
	uint64_t signo, force;
	siginfo_t si;

	if (bootconf_get_u64(m, "signo", 0, &signo) || signo < 1 || signo > LINUX_NSIG ||
	    bootconf_get_u64(m, "force", 0, &force))
		return;
	siginfo_kernel(&si, (int)signo);
	lock_acquire(&k->tasks_lock);
	if (k->init && force && only_init_ignores(k->init, (int)signo))
		tg_exit_locked(k->init, (int)signo);
	else if (k->init)
		signal_send_group_locked(k->init, &si);
	lock_release(&k->tasks_lock);
}

static void do_kill(struct kernel *k, const struct bootconf *m)
{
	static const char *const reasons[] = { "signaled", "timeout", "oom", "internal-error" };
	const char *want = bootconf_get(m, "reason"), *reason = "signaled";

	for (size_t i = 0; want && i < sizeof(reasons) / sizeof(*reasons); i++)
		if (!strcmp(want, reasons[i]))
			reason = reasons[i];
	kernel_exit(k, reason, SIGKILL);
}

static void serve_message(struct kernel *k, const struct bootconf *m)
{
	const char *cmd = bootconf_get(m, "cmd");

	if (!cmd)
		return;
	if (!strcmp(cmd, "winsize"))
		do_winsize(m);
	else if (!strcmp(cmd, "signal"))
		do_signal(k, m);
	else if (!strcmp(cmd, "kill"))
		do_kill(k, m);
	else
		log_warn("control: unknown command");
}

/* #hostcalls: recvfrom poll */
void control_run(struct kernel *k)
{
	static char buf[MESSAGE_MAX];

	while (k->control_fd >= 0) {
		ssize_t n = recv(k->control_fd, buf, sizeof(buf), 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			/* The runtime is gone: nobody is left to run for. */
			log_info("control: the runtime is gone");
			kernel_exit(k, "signaled", SIGKILL);
		}
		if (buf[n - 1] == '\0')
			serve_message(k, &(struct bootconf){ .data = buf, .size = (size_t)n,
							     .cap = sizeof(buf) });
	}
	for (;;)
		poll(NULL, 0, -1);
}
