/* SPDX-License-Identifier: Apache-2.0 */
/* Native AIO by raw system calls: transfers, POLL, eventfd notification, limits, errors. */
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/guest.h"

#define SETUP(n, c) syscall(SYS_io_setup, n, c)
#define DESTROY(c) syscall(SYS_io_destroy, c)
#define SUBMIT(c, n, v) syscall(SYS_io_submit, c, n, v)
#define EVENTS(c, min, n, e, ts) syscall(SYS_io_getevents, c, min, n, e, ts)

static void *write_later(void *arg)
{
	usleep(50000);
	write(*(int *)arg, "x", 1);
	return NULL;
}

int main(void)
{
	char name[] = "aio_test_XXXXXX", buf[16] = "", out[16] = "asynchronous";
	struct timespec ts = { 0, 30000000 }, zero = { 0, 0 };
	aio_context_t ctx = 0, bad = 12345;
	struct io_event ev[4];
	struct iocb w = { 0 }, r = { 0 }, p = { 0 }, *list[2] = { &w, &r };
	int fd = mkstemp(name), efd = eventfd(0, EFD_NONBLOCK), pipes[2];
	uint64_t count;
	pthread_t th;

	unlink(name);
	CHECK_ERRNO("no events", SETUP(0, &ctx), EINVAL);
	CHECK_ERRNO("context not zero", SETUP(1, &bad), EINVAL);
	CHECK("io_setup", SETUP(4, &ctx) == 0 && ctx);
	w.aio_lio_opcode = IOCB_CMD_PWRITE;
	w.aio_fildes = (uint32_t)fd;
	w.aio_buf = (uint64_t)(uintptr_t)out;
	w.aio_nbytes = 12;
	w.aio_data = 77;
	w.aio_flags = IOCB_FLAG_RESFD;
	w.aio_resfd = (uint32_t)efd;
	r.aio_lio_opcode = IOCB_CMD_PREAD;
	r.aio_fildes = (uint32_t)fd;
	r.aio_buf = (uint64_t)(uintptr_t)buf;
	r.aio_nbytes = 5;
	r.aio_data = 78;
	CHECK("write", SUBMIT(ctx, 1, list) == 1 && EVENTS(ctx, 1, 4, ev, NULL) == 1 && ev[0].res == 12 &&
			       ev[0].data == 77 && ev[0].obj == (uint64_t)(uintptr_t)&w);
	CHECK("the eventfd was told", read(efd, &count, 8) == 8 && count == 1);
	CHECK("read", SUBMIT(ctx, 1, list + 1) == 1 && EVENTS(ctx, 1, 4, ev, NULL) == 1 && ev[0].res == 5 &&
			      !memcmp(buf, "async", 5));
	CHECK("nothing more", EVENTS(ctx, 1, 4, ev, &ts) == 0 && EVENTS(ctx, 0, 4, ev, &zero) == 0);
	CHECK_ERRNO("min over nr", EVENTS(ctx, 5, 4, ev, &zero), EINVAL);
	CHECK_ERRNO("no context", EVENTS(bad, 0, 4, ev, &zero), EINVAL);
	r.aio_fildes = 999;
	CHECK_ERRNO("bad fd", SUBMIT(ctx, 1, list + 1), EBADF);
	r.aio_lio_opcode = 99;
	r.aio_fildes = (uint32_t)fd;
	CHECK_ERRNO("bad opcode", SUBMIT(ctx, 1, list + 1), EINVAL);
	CHECK_ERRNO("bad pointer", SUBMIT(ctx, 1, (void *)8), EFAULT);
	CHECK("the first counts", SUBMIT(ctx, 2, list) == 1 && EVENTS(ctx, 1, 4, ev, NULL) == 1);
	pipe(pipes);
	p.aio_lio_opcode = IOCB_CMD_POLL;
	p.aio_fildes = (uint32_t)pipes[0];
	p.aio_buf = POLLIN;
	list[0] = &p;
	CHECK("poll waits", SUBMIT(ctx, 1, list) == 1 && EVENTS(ctx, 1, 4, ev, &ts) == 0);
	pthread_create(&th, NULL, write_later, &pipes[1]);
	CHECK("and comes", EVENTS(ctx, 1, 4, ev, NULL) == 1 && (ev[0].res & POLLIN));
	pthread_join(th, NULL);
	CHECK("io_destroy", DESTROY(ctx) == 0);
	CHECK_ERRNO("twice", DESTROY(ctx), EINVAL);
	return guest_done();
}
