/* SPDX-License-Identifier: Apache-2.0 */
/* SysV IPC: message queues, semaphores with undo, shared memory. */
#include <signal.h>
#include <stdint.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/guest.h"

#ifndef MSG_COPY
#define MSG_COPY 040000
#endif

struct msg {
	long type;
	char text[64];
};

union semun {
	int val;
	struct semid_ds *buf;
	unsigned short *array;
	struct seminfo *info;
};

static void on_sig(int s)
{
	(void)s;
}

static void test_msg(void)
{
	struct msg m = { .type = 3 }, r;
	struct msqid_ds ds;
	int q = msgget(IPC_PRIVATE, 0600), k = msgget(0x4711aa, IPC_CREAT | 0600), st;

	CHECK("msgget", q >= 0 && k >= 0 && q != k);
	CHECK("same key, same queue", msgget(0x4711aa, 0) == k);
	CHECK_ERRNO("exclusive", msgget(0x4711aa, IPC_CREAT | IPC_EXCL), EEXIST);
	CHECK_ERRNO("no such key", msgget(0x4711ab, 0), ENOENT);
	CHECK_ERRNO("empty", msgrcv(q, &r, 64, 0, IPC_NOWAIT), ENOMSG);
	strcpy(m.text, "three");
	CHECK("send", msgsnd(q, &m, 6, 0) == 0);
	m.type = 1;
	strcpy(m.text, "one");
	msgsnd(q, &m, 4, 0);
	m.type = 2;
	strcpy(m.text, "two");
	msgsnd(q, &m, 4, 0);
	CHECK("stat", msgctl(q, IPC_STAT, &ds) == 0 && ds.msg_qnum == 3 && ds.msg_lspid == getpid() &&
			      ds.msg_perm.uid == getuid());
	CHECK("by type", msgrcv(q, &r, 64, 2, 0) == 4 && r.type == 2 && !strcmp(r.text, "two"));
	CHECK("lowest type", msgrcv(q, &r, 64, -3, 0) == 4 && r.type == 1);
	CHECK_ERRNO("too big", msgrcv(q, &r, 2, 0, 0), E2BIG);
	CHECK("cut", msgrcv(q, &r, 2, 0, MSG_NOERROR) == 2 && r.type == 3);
	m.type = 5;
	msgsnd(q, &m, 4, 0);
	m.type = 6;
	msgsnd(q, &m, 4, 0);
	CHECK("all but", msgrcv(q, &r, 64, 5, MSG_EXCEPT) == 4 && r.type == 6);
	CHECK("copy", msgrcv(q, &r, 64, 0, MSG_COPY | IPC_NOWAIT) == 4 && r.type == 5);
	CHECK_ERRNO("copy must not wait", msgrcv(q, &r, 64, 0, MSG_COPY), EINVAL);
	CHECK("it stays", msgrcv(q, &r, 64, 0, 0) == 4 && r.type == 5);
	m.type = 0;
	CHECK_ERRNO("type 0", msgsnd(q, &m, 4, 0), EINVAL);
	m.type = 1;
	CHECK_ERRNO("over msgmax", msgsnd(q, &m, 8193, 0), EINVAL);
	CHECK_ERRNO("bad queue", msgsnd(-1, &m, 1, 0), EINVAL);
	CHECK_ERRNO("bad pointer", msgsnd(q, (void *)8, 1, 0), EFAULT);
	pid_t c = fork();

	if (c == 0) {
		usleep(10000);
		m.type = 9;
		msgsnd(q, &m, 1, 0);
		_exit(0);
	}
	CHECK("receive waits", msgrcv(q, &r, 64, 9, 0) == 1);
	waitpid(c, &st, 0);
	msgctl(q, IPC_STAT, &ds);
	ds.msg_qbytes = 10;
	CHECK("IPC_SET", msgctl(q, IPC_SET, &ds) == 0);
	msgsnd(q, &m, 8, 0);
	CHECK_ERRNO("full", msgsnd(q, &m, 8, IPC_NOWAIT), EAGAIN);
	c = fork();
	if (c == 0)
		_exit(msgsnd(q, &m, 8, 0) == -1 && errno == EIDRM ? 0 : 1);
	guest_asleep(c);
	CHECK("IPC_RMID", msgctl(q, IPC_RMID, NULL) == 0);
	waitpid(c, &st, 0);
	CHECK("sleepers get EIDRM", st == 0);
	CHECK_ERRNO("it is gone", msgctl(q, IPC_STAT, &ds), EINVAL);
	struct sigaction sa = { .sa_handler = on_sig };

	sigaction(SIGALRM, &sa, NULL);
	ualarm(10000, 0);
	CHECK_ERRNO("a signal interrupts", msgrcv(k, &r, 64, 0, 0), EINTR);
	if (getuid() == 0) {
		c = fork();
		if (c == 0) {
			setuid(12345);
			int bad = msgsnd(k, &m, 1, IPC_NOWAIT) != -1 || errno != EACCES;

			bad |= msgctl(k, IPC_RMID, NULL) != -1 || errno != EPERM;
			bad |= msgget(0x4711aa, 0600) != -1 || errno != EACCES;
			_exit(bad);
		}
		waitpid(c, &st, 0);
		CHECK("permissions", st == 0);
	}
	msgctl(k, IPC_RMID, NULL);
}

static int op1(int id, int num, int op, int flags)
{
	struct sembuf s = { .sem_num = (unsigned short)num, .sem_op = (short)op,
			    .sem_flg = (short)flags };

	return semop(id, &s, 1);
}

static int val(int id, int num)
{
	return semctl(id, num, GETVAL);
}

static void test_sem(void)
{
	int id = semget(IPC_PRIVATE, 3, 0600), st;
	unsigned short v[3] = { 1, 2, 3 }, w[3];
	union semun u = { .array = v };
	struct semid_ds ds;
	pid_t c;

	CHECK("semget", id >= 0);
	CHECK_ERRNO("none", semget(IPC_PRIVATE, 0, 0600), EINVAL);
	CHECK_ERRNO("too many", semget(IPC_PRIVATE, 32001, 0600), EINVAL);
	CHECK("SETALL", semctl(id, 0, SETALL, u) == 0);
	u.array = w;
	CHECK("GETALL", semctl(id, 0, GETALL, u) == 0 && w[0] == 1 && w[1] == 2 && w[2] == 3);
	u.val = 5;
	CHECK("SETVAL", semctl(id, 1, SETVAL, u) == 0 && val(id, 1) == 5);
	u.val = 40000;
	CHECK_ERRNO("out of range", semctl(id, 1, SETVAL, u), ERANGE);
	CHECK_ERRNO("no such semaphore", semctl(id, 3, GETVAL), EINVAL);
	CHECK("take", op1(id, 0, -1, 0) == 0 && val(id, 0) == 0);
	CHECK("GETPID", semctl(id, 0, GETPID) == getpid());
	CHECK_ERRNO("would block", op1(id, 0, -1, IPC_NOWAIT), EAGAIN);
	CHECK_ERRNO("bad number", op1(id, 3, 1, 0), EFBIG);
	struct sembuf many[2] = { { .sem_num = 1, .sem_op = -5 }, { .sem_num = 0, .sem_op = -1,
								     .sem_flg = IPC_NOWAIT } };

	CHECK_ERRNO("all or nothing", semop(id, many, 2), EAGAIN);
	CHECK("nothing", val(id, 1) == 5);
	CHECK_ERRNO("no operations", semop(id, many, 0), EINVAL);
	CHECK_ERRNO("too many operations", semop(id, many, 501), E2BIG);
	CHECK_ERRNO("bad pointer", semop(id, (void *)8, 1), EFAULT);
	CHECK_ERRNO("over the maximum", op1(id, 2, 32766, 0), ERANGE);
	struct timespec ts = { .tv_nsec = 3000000 };
	struct sembuf s = { .sem_num = 0, .sem_op = -1 };

	CHECK_ERRNO("semtimedop", semtimedop(id, &s, 1, &ts), EAGAIN);
	c = fork();
	if (c == 0)
		_exit(op1(id, 0, -2, 0));
	for (int i = 0; i < 1000 && semctl(id, 0, GETNCNT) != 1; i++)
		usleep(500);
	CHECK("GETNCNT", semctl(id, 0, GETNCNT) == 1);
	op1(id, 0, 1, 0);
	CHECK("one is not enough", val(id, 0) == 1 && semctl(id, 0, GETNCNT) == 1);
	op1(id, 0, 1, 0);
	waitpid(c, &st, 0);
	CHECK("two are", st == 0 && val(id, 0) == 0);
	op1(id, 0, 1, 0);
	c = fork();
	if (c == 0)
		_exit(op1(id, 0, 0, 0));
	for (int i = 0; i < 1000 && semctl(id, 0, GETZCNT) != 1; i++)
		usleep(500);
	CHECK("GETZCNT", semctl(id, 0, GETZCNT) == 1);
	op1(id, 0, -1, 0);
	waitpid(c, &st, 0);
	CHECK("wait for zero", st == 0);
	c = fork();
	if (c == 0) {
		op1(id, 1, -3, SEM_UNDO);
		op1(id, 2, 4, SEM_UNDO);
		_exit(val(id, 1) == 2 && val(id, 2) == 7 ? 0 : 1);
	}
	waitpid(c, &st, 0);
	CHECK("undo at exit", st == 0 && val(id, 1) == 5 && val(id, 2) == 3);
	c = fork();
	if (c == 0) {
		op1(id, 1, -3, SEM_UNDO);
		kill(getpid(), SIGKILL);
	}
	waitpid(c, &st, 0);
	CHECK("undo when killed", val(id, 1) == 5);
	CHECK("IPC_STAT", semctl(id, 0, IPC_STAT, (union semun){ .buf = &ds }) == 0 &&
				  ds.sem_nsems == 3 && ds.sem_otime != 0);
	c = fork();
	if (c == 0)
		_exit(op1(id, 0, -1, 0) == -1 && errno == EIDRM ? 0 : 1);
	for (int i = 0; i < 1000 && semctl(id, 0, GETNCNT) != 1; i++)
		usleep(500);
	semctl(id, 0, IPC_RMID);
	waitpid(c, &st, 0);
	CHECK("EIDRM", st == 0);
	CHECK_ERRNO("gone", semctl(id, 0, GETVAL), EINVAL);
}

static void test_shm(void)
{
	struct shmid_ds ds;
	int id = shmget(IPC_PRIVATE, 10000, 0600), k = shmget(0x4711ac, 4096, IPC_CREAT | 0600), st;
	char *p, *ro;
	pid_t c;

	CHECK("shmget", id >= 0 && k >= 0);
	CHECK("same key", shmget(0x4711ac, 0, 0) == k && shmget(0x4711ac, 4096, 0) == k);
	CHECK_ERRNO("bigger than it is", shmget(0x4711ac, 8192, 0), EINVAL);
	CHECK_ERRNO("size 0", shmget(IPC_PRIVATE, 0, 0600), EINVAL);
	CHECK_ERRNO("exclusive", shmget(0x4711ac, 4096, IPC_CREAT | IPC_EXCL), EEXIST);
	p = shmat(id, NULL, 0);
	CHECK("shmat", p != (char *)-1 && p[0] == 0 && p[12287] == 0);
	strcpy(p, "shared");
	ro = shmat(id, NULL, SHM_RDONLY);
	CHECK("attached twice, same bytes", ro != p && !strcmp(ro, "shared"));
	CHECK("nattch", shmctl(id, IPC_STAT, &ds) == 0 && ds.shm_nattch == 2 &&
				ds.shm_segsz == 10000 && ds.shm_cpid == getpid());
	CHECK("read-only stays so", mprotect(ro, 4096, PROT_READ | PROT_WRITE) == -1 && errno == EACCES);
	c = fork();
	if (c == 0) {
		shmctl(id, IPC_STAT, &ds);
		int bad = ds.shm_nattch != 4 || strcmp(p, "shared");

		strcpy(p + 100, "child");
		_exit(bad);
	}
	waitpid(c, &st, 0);
	CHECK("fork inherits attaches", st == 0 && !strcmp(ro + 100, "child"));
	shmctl(id, IPC_STAT, &ds);
	CHECK("exit detaches", ds.shm_nattch == 2);
	CHECK("shmdt", shmdt(ro) == 0);
	CHECK_ERRNO("not attached", shmdt(ro), EINVAL);
	CHECK_ERRNO("misaligned", shmdt(p + 1), EINVAL);
	CHECK_ERRNO("taken address", (long)shmat(k, p, 0), EINVAL);
	CHECK("SHM_REMAP", shmat(k, p, SHM_REMAP) == p && p[0] == 0);
	CHECK_ERRNO("odd address", (long)shmat(k, p + 100, 0), EINVAL);
	CHECK("the rest of what it covered is still attached", shmdt(p) == 0 && shmdt(p) == 0);
	p = shmat(id, NULL, 0);
	CHECK("IPC_RMID while attached", shmctl(id, IPC_RMID, NULL) == 0 && !strcmp(p, "shared"));
	CHECK("marked", shmctl(id, IPC_STAT, &ds) == 0 && (ds.shm_perm.mode & 01000));
	shmdt(p);
	CHECK_ERRNO("gone with the last detach", shmctl(id, IPC_STAT, &ds), EINVAL);
	CHECK_ERRNO("bad id", (long)shmat(-1, NULL, 0), EINVAL);
	if (getuid() == 0) {
		c = fork();
		if (c == 0) {
			setuid(12345);
			_exit(shmat(k, NULL, 0) == (void *)-1 && errno == EACCES ? 0 : 1);
		}
		waitpid(c, &st, 0);
		CHECK("permissions", st == 0);
	}
	shmctl(k, IPC_RMID, NULL);
}

int main(void)
{
	test_msg();
	test_sem();
	test_shm();
	return guest_done();
}
