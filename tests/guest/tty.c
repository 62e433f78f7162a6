/* SPDX-License-Identifier: Apache-2.0 */
/* Pseudo-terminals: line discipline, job control, hangup, devpts. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "tests/lib/guest.h"

#ifndef TIOCGPTPEER
#define TIOCGPTPEER _IO('T', 0x41)
#endif

static int m, s;
static char g_name[64];

/* The line discipline of a real kernel runs in a worker: give it a moment. */
static void settle(void)
{
	usleep(20000);
}

static void open_pair(void)
{
	int n;

	m = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK);
	if (m < 0 || grantpt(m) || unlockpt(m) || ioctl(m, TIOCGPTN, &n)) {
		printf("FAIL open_pair: errno %d\n", errno);
		exit(1);
	}
	snprintf(g_name, sizeof(g_name), "/dev/pts/%d", n);
	s = open(g_name, O_RDWR | O_NOCTTY | O_NONBLOCK);
	if (s < 0) {
		printf("FAIL open slave: errno %d\n", errno);
		exit(1);
	}
}

static void close_pair(void)
{
	close(s);
	close(m);
}

static void type(const char *text)
{
	if (write(m, text, strlen(text)) != (ssize_t)strlen(text))
		printf("FAIL type\n"), g_failures++;
	settle();
}

static void expect_bytes(const char *name, int fd, const char *want, size_t n)
{
	char buf[8192];
	ssize_t r;

	settle();
	r = read(fd, buf, sizeof(buf));
	if (r == (ssize_t)n && memcmp(buf, want, n) == 0) {
		printf("ok %s\n", name);
		return;
	}
	printf("FAIL %s: got %zd errno %d \"", name, r, errno);
	for (ssize_t i = 0; i < r; i++)
		printf(buf[i] < 32 || buf[i] > 126 ? "\\%03o" : "%c", (unsigned char)buf[i]);
	printf("\"\n");
	g_failures++;
}
#define EXPECT(name, fd, text) expect_bytes(name, fd, text, sizeof(text) - 1)

static void lines(void)
{
	char buf[8];

	open_pair();
	type("ab");
	CHECK_ERRNO("unfinished line", read(s, buf, 1), EAGAIN);
	EXPECT("echo", m, "ab");
	type("c\rnext");
	EXPECT("echo of newline", m, "c\r\nnext");
	EXPECT("line", s, "abc\n");
	type("\nx\ny\n");
	EXPECT("one line a read", s, "next\n");
	EXPECT("second line", s, "x\n");
	EXPECT("third line", s, "y\n");
	close_pair();
}

static void editing(void)
{
	open_pair();
	type("ab\177c\n");
	EXPECT("erase echo", m, "ab\b \bc\r\n");
	EXPECT("erase", s, "ac\n");
	type("one two  \027x\n");
	EXPECT("werase", s, "one x\n");
	EXPECT("werase echo", m, "one two  \b \b\b \b\b \b\b \b\b \bx\r\n");
	type("gone\025left\n");
	EXPECT("kill", s, "left\n");
	EXPECT("kill echo", m, "gone\b \b\b \b\b \b\b \bleft\r\n");
	type("a\026\003b\n");
	EXPECT("lnext", s, "a\003b\n");
	EXPECT("lnext echo", m, "a^\b^Cb\r\n");
	type("a\tb\177\177c\n");
	EXPECT("tab erase", s, "ac\n");
	EXPECT("tab erase echo", m, "a\tb\b \b\b\b\b\b\b\b\bc\r\n");
	type("re\022do\n");
	EXPECT("reprint", m, "re^R\r\nredo\r\n");
	EXPECT("reprint line", s, "redo\n");
	type("\001\177\n");
	EXPECT("control erase echo", m, "^A\b \b\b \b\r\n");
	EXPECT("control erase", s, "\n");
	close_pair();
}

static void eof(void)
{
	char buf[8];

	open_pair();
	type("\004");
	CHECK("eof", read(s, buf, 3) == 0);
	type("abc\004");
	EXPECT("eof ends a partial line", s, "abc");
	CHECK_ERRNO("and is gone", read(s, buf, 1), EAGAIN);
	type("abc\004");
	CHECK("full buffer", read(s, buf, 3) == 3);
	CHECK_ERRNO("takes the eof along", read(s, buf, 3), EAGAIN);
	type("abcd\004");
	CHECK("short buffer", read(s, buf, 3) == 3);
	CHECK("then the rest", read(s, buf, 3) == 1);
	close_pair();
}

static void raw_set(int vmin)
{
	struct termios t;

	tcgetattr(s, &t);
	cfmakeraw(&t);
	t.c_cc[VMIN] = vmin;
	t.c_cc[VTIME] = 0;
	tcsetattr(s, TCSANOW, &t);
}

static void raw_mode(void)
{
	char buf[300], all[256];
	struct pollfd p;
	int n = 0;

	open_pair();
	raw_set(1);
	for (int i = 0; i < 256; i++)
		all[i] = (char)i;
	CHECK("raw write", write(m, all, 256) == 256);
	settle();
	CHECK("FIONREAD", ioctl(s, FIONREAD, &n) == 0 && n == 256);
	CHECK("raw read", read(s, buf, 300) == 256 && memcmp(all, buf, 256) == 0);
	CHECK("raw write back", write(s, all, 256) == 256);
	settle();
	CHECK("raw read back", read(m, buf, 300) == 256 && memcmp(all, buf, 256) == 0);
	raw_set(0);
	CHECK("VMIN 0", read(s, buf, 1) == 0);
	raw_set(5);
	type("abc");
	p = (struct pollfd){ .fd = s, .events = POLLIN };
	CHECK("poll below VMIN", poll(&p, 1, 0) == 0);
	CHECK("nonblocking read below VMIN", read(s, buf, 100) == 3);
	close_pair();
}

static void vtime(void)
{
	struct termios t;
	char buf[16];
	int pid, st;

	open_pair();
	fcntl(s, F_SETFL, O_RDWR);
	tcgetattr(s, &t);
	cfmakeraw(&t);
	t.c_cc[VMIN] = 0;
	t.c_cc[VTIME] = 1;
	tcsetattr(s, TCSANOW, &t);
	CHECK("VTIME alone times out", read(s, buf, 16) == 0);
	t.c_cc[VMIN] = 10;
	t.c_cc[VTIME] = 2;
	tcsetattr(s, TCSANOW, &t);
	pid = fork();
	if (pid == 0) {
		usleep(50000);
		write(m, "ab", 2);
		usleep(50000);
		write(m, "cd", 2);
		_exit(0);
	}
	CHECK("VTIME between bytes", read(s, buf, 16) == 4);
	waitpid(pid, &st, 0);
	t.c_cc[VTIME] = 0;
	tcsetattr(s, TCSANOW, &t);
	pid = fork();
	if (pid == 0) {
		for (int i = 0; i < 5; i++) {
			usleep(10000);
			write(m, "xy", 2);
		}
		_exit(0);
	}
	CHECK("VMIN waits for all", read(s, buf, 16) == 10);
	waitpid(pid, &st, 0);
	pid = fork();
	if (pid == 0) {
		usleep(10000);
		write(m, "pq", 2);
		_exit(0);
	}
	CHECK("a small buffer needs no more", read(s, buf, 2) == 2);
	waitpid(pid, &st, 0);
	close_pair();
}

static void flow_and_output(void)
{
	struct termios t;

	open_pair();
	type("\023");
	CHECK_ERRNO("stopped output", write(s, "x", 1), EAGAIN);
	type("\021");
	CHECK("started output", write(s, "x\n", 2) == 2);
	EXPECT("onlcr", m, "x\r\n");
	tcgetattr(s, &t);
	t.c_oflag |= XTABS;
	tcsetattr(s, TCSANOW, &t);
	CHECK("tabs", write(s, "ab\tc\n\td", 7) == 7);
	EXPECT("tabs expanded", m, "ab      c\r\n        d");
	close_pair();
}

static void switching(void)
{
	struct termios t, old;

	open_pair();
	tcgetattr(s, &old);
	t = old;
	cfmakeraw(&t);
	tcsetattr(s, TCSANOW, &t);
	type("part");
	tcsetattr(s, TCSANOW, &old);
	EXPECT("raw input survives", s, "part");
	type("line\n");
	EXPECT("then lines", s, "line\n");
	close_pair();
}

static void packet(void)
{
	int on = 1;

	open_pair();
	CHECK("TIOCPKT", ioctl(m, TIOCPKT, &on) == 0);
	write(s, "hi", 2);
	EXPECT("packet data", m, "\0hi");
	CHECK("TCFLSH", tcflush(s, TCIOFLUSH) == 0);
	EXPECT("flush status", m, "\003");
	type("\023");
	EXPECT("stop status", m, "\004");
	type("\021");
	EXPECT("start status", m, "\010");
	raw_set(1);
	EXPECT("nostop status", m, "\020");
	close_pair();
}

static void ioctls(void)
{
	struct winsize ws = { .ws_row = 10, .ws_col = 20 }, got;
	struct stat st, st2;
	int v = -1, fd;
	char c = 'x';

	open_pair();
	CHECK("winsize starts at 0", ioctl(s, TIOCGWINSZ, &got) == 0 && got.ws_row == 0);
	CHECK("winsize set", ioctl(m, TIOCSWINSZ, &ws) == 0);
	CHECK("winsize get", ioctl(s, TIOCGWINSZ, &got) == 0 && got.ws_row == 10 && got.ws_col == 20);
	CHECK_ERRNO("TIOCGPTN of a slave", ioctl(s, TIOCGPTN, &v), ENOTTY);
	CHECK_ERRNO("TIOCGPGRP without ctty", ioctl(s, TIOCGPGRP, &v), ENOTTY);
	CHECK("TIOCGPGRP of a master", ioctl(m, TIOCGPGRP, &v) == 0 && v == 0);
	CHECK_ERRNO("TIOCGSID of a master", ioctl(m, TIOCGSID, &v), ENOTTY);
	CHECK("TIOCOUTQ", ioctl(s, TIOCOUTQ, &v) == 0 && v == 0);
	CHECK("TIOCGETD", ioctl(s, TIOCGETD, &v) == 0 && v == 0);
	CHECK("isatty", isatty(s) && isatty(m));
	CHECK("TIOCGPTLCK", ioctl(m, TIOCGPTLCK, &v) == 0 && v == 0);
	CHECK_ERRNO("unknown ioctl", ioctl(s, 0x54ff, &v), ENOTTY);
	CHECK_ERRNO("TCFLSH argument", ioctl(s, TCFLSH, 9), EINVAL);
	CHECK_ERRNO("TIOCMGET", ioctl(s, TIOCMGET, &v), ENOTTY);
	CHECK("exclusive", ioctl(s, TIOCEXCL) == 0 && ioctl(s, TIOCGEXCL, &v) == 0 && v == 1 &&
				   ioctl(s, TIOCNXCL) == 0);
	CHECK("fstat", fstat(s, &st) == 0 && S_ISCHR(st.st_mode) && (st.st_rdev >> 8) == 136);
	CHECK("ttyname", stat(g_name, &st2) == 0 && st.st_ino == st2.st_ino && st.st_dev == st2.st_dev &&
				 st.st_rdev == st2.st_rdev && ttyname(s) && !strcmp(ttyname(s), g_name));
	fd = ioctl(m, TIOCGPTPEER, O_RDWR | O_NOCTTY);
	CHECK("TIOCGPTPEER", fd >= 0 && fstat(fd, &st2) == 0 && st.st_ino == st2.st_ino);
	close(fd);
	CHECK_ERRNO("lseek", lseek(s, 0, SEEK_SET), ESPIPE);
	(void)c;
	close_pair();
	CHECK_ERRNO("the name is gone", open(g_name, O_RDWR | O_NOCTTY), ENOENT);
}

static void closing(void)
{
	struct pollfd p;
	char buf[16];
	int v = 1;

	open_pair();
	write(s, "last", 4);
	settle();
	close(s);
	p = (struct pollfd){ .fd = m, .events = POLLIN | POLLOUT };
	CHECK("poll with data", poll(&p, 1, 0) == 1 && p.revents == (POLLIN | POLLOUT | POLLHUP));
	EXPECT("data before the hangup", m, "last");
	CHECK_ERRNO("read after slave close", read(m, buf, 1), EIO);
	CHECK("poll after slave close", poll(&p, 1, 0) == 1 && p.revents == (POLLHUP | POLLOUT));
	s = open(g_name, O_RDWR | O_NOCTTY | O_NONBLOCK);
	CHECK_ERRNO("reopened", read(m, buf, 1), EAGAIN);
	close(m);
	settle();
	CHECK("slave reads end of file", read(s, buf, 1) == 0);
	CHECK_ERRNO("slave write", write(s, "x", 1), EIO);
	CHECK_ERRNO("slave ioctl", ioctl(s, TIOCGWINSZ, buf), EIO);
	CHECK_ERRNO("slave tcsetpgrp", ioctl(s, TIOCSPGRP, &v), ENOTTY);
	p.fd = s;
	CHECK("slave poll", poll(&p, 1, 0) == 1 && p.revents == (POLLIN | POLLOUT | POLLERR | POLLHUP));
	close(s);
	m = open("/dev/ptmx", O_RDWR | O_NOCTTY);
	ioctl(m, TIOCGPTN, &v);
	snprintf(g_name, sizeof(g_name), "/dev/pts/%d", v);
	CHECK_ERRNO("a locked slave", open(g_name, O_RDWR | O_NOCTTY), EIO);
	close(m);
}

static volatile sig_atomic_t g_got[65];

static void on_signal(int signo)
{
	g_got[signo]++;
}

/* Runs fn in a new session whose controlling terminal is the slave. */
static void in_session(void (*fn)(void))
{
	int pid, st;

	fflush(stdout);
	open_pair();
	pid = fork();
	if (pid == 0) {
		g_failures = 0;
		setsid();
		close(s);
		s = open(g_name, O_RDWR);
		fn();
		_exit(g_failures ? 1 : 0);
	}
	close_pair(); /* the child's master is the last one */
	waitpid(pid, &st, 0);
	if (!WIFEXITED(st) || WEXITSTATUS(st)) {
		printf("FAIL session child: status %x\n", st);
		g_failures++;
	}
}

static void job_control(void)
{
	int v = 0, pid, st, fd;
	struct winsize ws = { .ws_row = 33 };
	char buf[4];

	fcntl(s, F_SETFL, O_RDWR);
	CHECK("opening took the terminal", ioctl(s, TIOCGSID, &v) == 0 && v == getpid());
	CHECK("foreground", tcgetpgrp(s) == getpid());
	fd = open("/dev/tty", O_RDWR);
	CHECK("/dev/tty", fd >= 0);
	close(fd);
	for (int i = 0; i < 3; i++) {
		static const int sig[] = { SIGINT, SIGQUIT, SIGWINCH };

		signal(sig[i], on_signal);
	}
	write(m, "\003", 1);
	settle();
	CHECK("INTR", g_got[SIGINT] == 1);
	write(m, "\034", 1);
	settle();
	CHECK("QUIT", g_got[SIGQUIT] == 1);
	ioctl(m, TIOCSWINSZ, &ws);
	settle();
	CHECK("WINCH", g_got[SIGWINCH] == 1);
	CHECK_ERRNO("tcsetpgrp to nobody", tcsetpgrp(s, 999999), ESRCH);
	pid = fork();
	if (pid == 0) {
		setpgid(0, 0);
		signal(SIGTTIN, SIG_DFL);
		read(s, buf, 1); /* stops here */
		_exit(7);
	}
	setpgid(pid, pid);
	CHECK("background read stops", waitpid(pid, &st, WUNTRACED) == pid && WIFSTOPPED(st) &&
					       WSTOPSIG(st) == SIGTTIN);
	tcsetpgrp(s, pid);
	CHECK("tcsetpgrp", tcgetpgrp(s) == pid);
	kill(-pid, SIGCONT);
	write(m, "go\n", 3);
	CHECK("foreground read goes on", waitpid(pid, &st, 0) == pid && WIFEXITED(st) && WEXITSTATUS(st) == 7);
	signal(SIGTTOU, SIG_IGN);
	CHECK("tcsetpgrp from the background", tcsetpgrp(s, getpid()) == 0);
	pid = fork();
	if (pid == 0) {
		setpgid(0, 0);
		signal(SIGTTIN, SIG_IGN);
		_exit(read(s, buf, 1) == -1 && errno == EIO ? 0 : 1);
	}
	CHECK("ignored SIGTTIN gives EIO", waitpid(pid, &st, 0) == pid && st == 0);
	signal(SIGHUP, on_signal);
	signal(SIGCONT, on_signal);
	close(m);
	settle();
	CHECK("hangup", g_got[SIGHUP] == 1 && g_got[SIGCONT] == 1);
	CHECK_ERRNO("/dev/tty is gone", open("/dev/tty", O_RDWR), ENXIO);
}

static void giving_up(void)
{
	int v;

	signal(SIGHUP, on_signal);
	signal(SIGCONT, on_signal);
	CHECK("TIOCNOTTY", ioctl(s, TIOCNOTTY) == 0);
	CHECK("signals of TIOCNOTTY", g_got[SIGHUP] == 1 && g_got[SIGCONT] == 1);
	CHECK_ERRNO("no ctty", ioctl(s, TIOCGPGRP, &v), ENOTTY);
	CHECK_ERRNO("TIOCNOTTY twice", ioctl(s, TIOCNOTTY), ENOTTY);
	CHECK("TIOCSCTTY", ioctl(s, TIOCSCTTY, 0) == 0);
	CHECK("TIOCSCTTY again", ioctl(s, TIOCSCTTY, 0) == 0);
	CHECK("foreground again", tcgetpgrp(s) == getpid());
}

int main(void)
{
	signal(SIGHUP, SIG_IGN);
	lines();
	editing();
	eof();
	raw_mode();
	vtime();
	flow_and_output();
	switching();
	packet();
	ioctls();
	closing();
	in_session(job_control);
	in_session(giving_up);
	return guest_done();
}
