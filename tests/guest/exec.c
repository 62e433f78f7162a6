/* SPDX-License-Identifier: Apache-2.0 */
/* execve and execveat: arguments, limits, errors, scripts, what survives and what does not. */
#include <elf.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/guest.h"

static char g_self[4096];
static char g_dir[] = "/tmp/exec_test_XXXXXX";
extern char **environ;

static int wait_code(pid_t pid)
{
	int st;

	if (waitpid(pid, &st, 0) != pid)
		return -1;
	return WIFEXITED(st) ? WEXITSTATUS(st) : 1000 + WTERMSIG(st);
}

/* Runs ourselves in a child role. */
static int run(char *const argv[], char *const envp[])
{
	pid_t p = fork();

	if (!p) {
		execve(g_self, argv, envp);
		_exit(errno);
	}
	return wait_code(p);
}

static const char *in_dir(const char *name)
{
	static char path[4200];

	snprintf(path, sizeof(path), "%s/%s", g_dir, name);
	return path;
}

static const char *make_file(const char *name, const void *data, size_t n, int mode)
{
	const char *path = in_dir(name);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	if (fd < 0 || write(fd, data, n) != (ssize_t)n)
		return NULL;
	fchmod(fd, (mode_t)mode);
	close(fd);
	return path;
}

/* ---- roles of the exec'd image ---- */

static int role_args(int argc, char **argv)
{
	if (argc != 5 || strcmp(argv[2], "") || strcmp(argv[3], "two words") || strcmp(argv[4], "x"))
		return 1;
	if (!environ[0] || strcmp(environ[0], "A=1") || strcmp(environ[1], "B=") || environ[2])
		return 2;
	return argv[argc] ? 3 : 0;
}

static int role_auxv(void)
{
	uintptr_t sp = (uintptr_t)__builtin_frame_address(0);

	if (getauxval(AT_PAGESZ) != 4096 || getauxval(AT_CLKTCK) != 100)
		return 1;
	if (getauxval(AT_UID) != getuid() || getauxval(AT_EGID) != getegid() || getauxval(AT_SECURE))
		return 2;
	if (strcmp((char *)getauxval(AT_PLATFORM), "x86_64"))
		return 3;
	const uint8_t *r = (const uint8_t *)getauxval(AT_RANDOM);
	int all = 0;

	for (int i = 0; i < 16; i++)
		all |= r[i];
	if (!all)
		return 4;
	if (!getauxval(AT_PHDR) || getauxval(AT_PHENT) != 56 || !getauxval(AT_PHNUM) ||
	    !getauxval(AT_ENTRY))
		return 5;
	if (!getauxval(AT_HWCAP) || !getauxval(AT_EXECFN))
		return 6;
	if (sp & 15)
		return 7;
	return 0;
}

static int role_state(void)
{
	struct sigaction sa;
	sigset_t mask;
	stack_t ss;
	char name[17] = "";

	sigaction(SIGUSR1, NULL, &sa);
	if (sa.sa_handler != SIG_DFL)
		return 1;
	sigaction(SIGUSR2, NULL, &sa);
	if (sa.sa_handler != SIG_IGN)
		return 2;
	sigprocmask(SIG_BLOCK, NULL, &mask);
	if (!sigismember(&mask, SIGTERM))
		return 3;
	sigaltstack(NULL, &ss);
	if (!(ss.ss_flags & SS_DISABLE))
		return 4;
	if (fcntl(90, F_GETFD) >= 0 || fcntl(91, F_GETFD) < 0)
		return 5;
	prctl(PR_GET_NAME, name);
	if (strncmp(strrchr(g_self, '/') + 1, name, 15))
		return 6;
	sigset_t pend;

	sigpending(&pend);
	if (!sigismember(&pend, SIGTERM))
		return 7;
	return 0;
}

static int role(int argc, char **argv)
{
	if (!strcmp(argv[1], "args"))
		return role_args(argc, argv);
	if (!strcmp(argv[1], "auxv"))
		return role_auxv();
	if (!strcmp(argv[1], "state"))
		return role_state();
	if (!strcmp(argv[1], "pid"))
		return getpid() == atoi(argv[2]) && syscall(SYS_gettid) == getpid() ? 0 : 1;
	if (!strcmp(argv[1], "count"))
		return argc == atoi(argv[2]) ? 0 : 1;
	if (!strcmp(argv[1], "code"))
		return atoi(argv[2]);
	return 77;
}

/* As an interpreter: argv is [self, arg?, script, rest]; prints it for the parent. */
static int as_interpreter(int argc, char **argv)
{
	const char *want = getenv("WANT");
	char got[1024] = "";

	for (int i = 1; i < argc; i++) {
		strncat(got, argv[i], sizeof(got) - strlen(got) - 2);
		if (i + 1 < argc)
			strcat(got, "|");
	}
	return want && !strcmp(got, want) ? 0 : 1;
}

/* ---- tests ---- */

static void test_basic(void)
{
	char *argv[] = { g_self, "args", "", "two words", "x", NULL };
	char *envp[] = { "A=1", "B=", NULL };
	char *aux[] = { g_self, "auxv", NULL };

	CHECK("arguments and environment", run(argv, envp) == 0);
	CHECK("auxiliary vector and stack", run(aux, environ) == 0);
}

static void test_state(void)
{
	pid_t p = fork();

	if (!p) {
		static char stack[65536];
		stack_t ss = { .ss_sp = stack, .ss_size = sizeof(stack) };
		char *argv[] = { g_self, "state", NULL };
		sigset_t set;

		signal(SIGUSR1, (void (*)(int))role_state);
		signal(SIGUSR2, SIG_IGN);
		sigemptyset(&set);
		sigaddset(&set, SIGTERM);
		sigprocmask(SIG_BLOCK, &set, NULL);
		raise(SIGTERM);
		sigaltstack(&ss, NULL);
		int fd = open("/", O_RDONLY);

		dup3(fd, 90, O_CLOEXEC);
		dup2(fd, 91);
		execve(g_self, argv, environ);
		_exit(100);
	}
	CHECK("signals, descriptors and name over exec", wait_code(p) == 0);
}

static void test_errors(void)
{
	char *argv[] = { "x", NULL };

	CHECK_ERRNO("missing", execve("/no/such/file", argv, environ), ENOENT);
	CHECK_ERRNO("empty path", execve("", argv, environ), ENOENT);
	CHECK_ERRNO("a directory", execve("/tmp", argv, environ), EACCES);
	CHECK_ERRNO("bad path pointer", syscall(SYS_execve, 8, argv, environ), EFAULT);
	CHECK_ERRNO("bad argv pointer", syscall(SYS_execve, g_self, 8, environ), EFAULT);
	char *bad[] = { "x", (char *)8, NULL };

	CHECK_ERRNO("bad string pointer", syscall(SYS_execve, g_self, bad, environ), EFAULT);
	CHECK_ERRNO("not executable", execve(make_file("plain", "hello", 5, 0644), argv, environ),
		    EACCES);
	CHECK_ERRNO("an empty file", execve(make_file("empty", "", 0, 0755), argv, environ), ENOEXEC);
	CHECK_ERRNO("not a program", execve(make_file("text", "hello\n", 6, 0755), argv, environ),
		    ENOEXEC);
	CHECK_ERRNO("through a file", execve(in_dir("text/x"), argv, environ), ENOTDIR);
	CHECK_ERRNO("interpreter missing",
		    execve(make_file("noint", "#!/no/such/interp\n", 18, 0755), argv, environ), ENOENT);
	Elf64_Ehdr eh = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS32, ELFDATA2LSB, 1 },
			  .e_type = ET_EXEC,
			  .e_machine = EM_386 };

	CHECK_ERRNO("a foreign machine", execve(make_file("i386", &eh, sizeof(eh), 0755), argv, environ),
		    ENOEXEC);
	eh.e_ident[EI_CLASS] = ELFCLASS64;
	eh.e_machine = EM_X86_64;
	eh.e_phentsize = 56;
	eh.e_phnum = 0;
	CHECK_ERRNO("no program headers", execve(make_file("noph", &eh, sizeof(eh), 0755), argv, environ),
		    ENOEXEC);
	int fd = open(in_dir("busy"), O_WRONLY | O_CREAT, 0755);

	if (write(fd, "#!/bin/true\n", 12) != 12)
		exit(2);
	CHECK_ERRNO("open for writing", execve(in_dir("busy"), argv, environ), ETXTBSY);
	close(fd);
}

static void test_limits(void)
{
	char *big = malloc(131073);

	memset(big, 'a', 131072);
	big[131072] = 0;
	char *one[] = { g_self, "count", "4", big, NULL };

	CHECK("one string too long", run(one, environ) == E2BIG);
	big[131071] = 0;
	CHECK("the longest string", run(one, environ) == 0);
	char **many = calloc(100004, sizeof(*many));

	many[0] = g_self;
	many[1] = "count";
	many[2] = "100003";
	for (int i = 3; i < 100003; i++)
		many[i] = "y";
	CHECK("a hundred thousand arguments", run(many, (char *[]){ NULL }) == 0);
	char **huge = calloc(90, sizeof(*huge));

	huge[0] = g_self;
	huge[1] = "count";
	huge[2] = "80";
	for (int i = 3; i < 80; i++)
		huge[i] = big;
	CHECK("more than the limit", run(huge, environ) == E2BIG);
	free(many);
	free(huge);
	free(big);
}

static void test_empty_argv(void)
{
	pid_t p = fork();

	if (!p) {
		char *none[] = { NULL };

		execve(g_self, none, (char *[]){ "EMPTY=1", NULL });
		_exit(100);
	}
	CHECK("an empty argv becomes one empty string", wait_code(p) == 0);
}

static int run_script(const char *text, const char *want, char *const argv[])
{
	char path[4200], env[4300];

	snprintf(path, sizeof(path), "%s", make_file("script", text, strlen(text), 0755));
	snprintf(env, sizeof(env), "WANT=%s", want);
	pid_t p = fork();

	if (!p) {
		execve(path, argv, (char *[]){ env, NULL });
		_exit(errno);
	}
	return wait_code(p);
}

static void test_scripts(void)
{
	char *argv[] = { "zero", "one", "two", NULL };
	char text[9000], want[9000], interp[200];

	/* A short name for ourselves keeps the line below 256 bytes. */
	snprintf(interp, sizeof(interp), "%s/i", g_dir);
	if (symlink(g_self, interp) != 0)
		exit(2);
	snprintf(text, sizeof(text), "#!%s\n", interp);
	snprintf(want, sizeof(want), "%s|one|two", in_dir("script"));
	CHECK("plain", run_script(text, want, argv) == 0);
	snprintf(text, sizeof(text), "#! \t%s  first second  \nrest", interp);
	snprintf(want, sizeof(want), "first second|%s|one|two", in_dir("script"));
	CHECK("one optional argument, blanks kept inside", run_script(text, want, argv) == 0);
	snprintf(text, sizeof(text), "#!%s", interp);
	snprintf(want, sizeof(want), "%s|one|two", in_dir("script"));
	CHECK("no newline", run_script(text, want, argv) == 0);
	CHECK("no interpreter", run_script("#!\n", "", argv) == ENOEXEC);
	CHECK("blanks only", run_script("#!   \n", "", argv) == ENOEXEC);
	memset(text, 'a', 400);
	memcpy(text, "#!/", 3);
	text[400] = 0;
	CHECK("a cut-off path", run_script(text, "", argv) == ENOEXEC);

	/* A chain: s0 is run by the interpreter, s1 by s0, and so on. */
	char prev[300], name[16];

	snprintf(prev, sizeof(prev), "%s", interp);
	for (int i = 0; i < 7; i++) {
		snprintf(text, sizeof(text), "#!%s\n", prev);
		snprintf(name, sizeof(name), "s%d", i);
		snprintf(prev, sizeof(prev), "%s", make_file(name, text, strlen(text), 0755));
	}
	for (int i = 3; i < 7; i++) {
		pid_t p = fork();
		char label[40];

		if (!p) {
			snprintf(name, sizeof(name), "s%d", i);
			execve(in_dir(name), argv, (char *[]){ "CHAIN=1", NULL });
			_exit(errno);
		}
		snprintf(label, sizeof(label), "%d scripts in a chain", i + 1);
		CHECK(label, wait_code(p) == (i < 5 ? 0 : ELOOP));
	}
}

static void test_execveat(void)
{
	int dir = open(g_dir, O_RDONLY | O_DIRECTORY), fd = open(g_self, O_RDONLY | O_CLOEXEC);
	char *argv[] = { "x", "code", "23", NULL };
	pid_t p = fork();

	if (!p) {
		syscall(SYS_execveat, fd, "", argv, environ, AT_EMPTY_PATH);
		_exit(200);
	}
	CHECK("by descriptor", wait_code(p) == 23);
	p = fork();
	if (!p) {
		syscall(SYS_execveat, dir, "i", argv, environ, 0);
		_exit(200);
	}
	CHECK("relative to a directory", wait_code(p) == 23);
	CHECK_ERRNO("a symlink not followed",
		    syscall(SYS_execveat, dir, "i", argv, environ, AT_SYMLINK_NOFOLLOW), ELOOP);
	CHECK_ERRNO("bad flags", syscall(SYS_execveat, dir, "i", argv, environ, 1), EINVAL);
	CHECK_ERRNO("empty path", syscall(SYS_execveat, fd, "", argv, environ, 0), ENOENT);
	CHECK_ERRNO("bad fd", syscall(SYS_execveat, 999, "x", argv, environ, 0), EBADF);
	int sfd = open(in_dir("s0"), O_RDONLY | O_CLOEXEC);

	CHECK_ERRNO("a script on a close-on-exec fd",
		    syscall(SYS_execveat, sfd, "", argv, environ, AT_EMPTY_PATH), ENOENT);
	close(sfd);
	close(dir);
	close(fd);
}

static char *g_pid_argv[4];

static void *exec_thread(void *arg)
{
	(void)arg;
	usleep(20000);
	execve(g_self, g_pid_argv, environ);
	_exit(100);
}

static void *idle_thread(void *arg)
{
	(void)arg;
	for (;;)
		pause();
	return NULL;
}

static void *busy_thread(void *arg)
{
	volatile uint64_t *n = arg;

	for (;;)
		(*n)++;
	return NULL;
}

static void test_threads(void)
{
	pid_t p = fork();

	if (!p) {
		static char num[16];
		static uint64_t counter;
		pthread_t th[4];

		snprintf(num, sizeof(num), "%d", getpid());
		g_pid_argv[0] = g_self;
		g_pid_argv[1] = "pid";
		g_pid_argv[2] = num;
		pthread_create(&th[0], NULL, idle_thread, NULL);
		pthread_create(&th[1], NULL, busy_thread, &counter);
		pthread_create(&th[2], NULL, exec_thread, NULL);
		for (;;)
			pause();
	}
	CHECK("a thread that execs takes the leader's place", wait_code(p) == 0);
	p = fork();
	if (!p) {
		static char num[16];
		pthread_t th;

		snprintf(num, sizeof(num), "%d", getpid());
		char *argv[] = { g_self, "pid", num, NULL };

		pthread_create(&th, NULL, idle_thread, NULL);
		execve(g_self, argv, environ);
		_exit(100);
	}
	CHECK("the leader execs with threads around", wait_code(p) == 0);
}

static void test_setid(void)
{
	if (getuid() != 0)
		return;
	/* A copy of ourselves that belongs to somebody else, set-user-id. */
	char cmd[9000];

	snprintf(cmd, sizeof(cmd), "%s/setid", g_dir);
	int in = open(g_self, O_RDONLY), out = open(cmd, O_WRONLY | O_CREAT, 0755);
	char buf[65536];
	ssize_t n;

	while ((n = read(in, buf, sizeof(buf))) > 0)
		if (write(out, buf, (size_t)n) != n)
			exit(2);
	if (fchown(out, 1234, 2345) != 0)
		return;
	fchmod(out, 06755);
	close(in);
	close(out);
	chmod(g_dir, 0755);
	pid_t p = fork();

	if (!p) {
		if (setresgid(1000, 1000, 1000) || setresuid(1000, 1000, 1000))
			_exit(101);
		execve(cmd, (char *[]){ "x", "setid", NULL }, environ);
		_exit(errno);
	}
	CHECK("set-user-id and set-group-id", wait_code(p) == 0);
	p = fork();
	if (!p) {
		if (setresgid(1000, 1000, 1000) || setresuid(1000, 1000, 1000))
			_exit(101);
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		execve(cmd, (char *[]){ "x", "nosetid", NULL }, environ);
		_exit(errno);
	}
	CHECK("not with no_new_privs", wait_code(p) == 0);
}

int main(int argc, char **argv)
{
	if (getenv("EMPTY"))
		return argc == 1 && argv[0][0] == 0 ? 0 : 1;
	if (getenv("CHAIN"))
		return 0;
	if (getenv("WANT"))
		return as_interpreter(argc, argv);
	if (argc > 1 && !strcmp(argv[1], "setid"))
		return geteuid() == 1234 && getegid() == 2345 && getuid() == 1000 &&
				       getauxval(AT_SECURE) ? 0 : 1;
	if (argc > 1 && !strcmp(argv[1], "nosetid"))
		return geteuid() == 1000 && getegid() == 1000 ? 0 : 1;
	ssize_t n = readlink("/proc/self/exe", g_self, sizeof(g_self) - 1);

	if (n < 0)
		snprintf(g_self, sizeof(g_self), "%s", argv[0]);
	if (argc > 1)
		return role(argc, argv);
	if (!mkdtemp(g_dir))
		return 2;
	test_basic();
	test_state();
	test_errors();
	test_limits();
	test_empty_argv();
	test_scripts();
	test_execveat();
	test_threads();
	test_setid();
	char cmd[4300];

	snprintf(cmd, sizeof(cmd), "rm -rf %s", g_dir);
	if (system(cmd) != 0)
		printf("# %s is left\n", g_dir);
	return guest_done();
}
