/* SPDX-License-Identifier: Apache-2.0 */
/* Sending, queueing, choosing a thread, delivering into a fake guest. */
#include "platform/abi/sigframe.h"
#include "tests/unit/sentry/task_fixture.h"

#include <sys/syscall.h>

#define HANDLER 0x401000ull

static struct fixture *f;

static void setup(void)
{
	f = fix_new();
}

static int send_group(int signo, int code, int value)
{
	siginfo_t si = fix_info(signo, code, value);

	return signal_send_group(&f->tg, &si);
}

static int send_task(int i, int signo, int code, int value)
{
	siginfo_t si = fix_info(signo, code, value);

	return signal_send_task(&f->t[i], &si);
}

static int take(int i, siginfo_t *si)
{
	lock_acquire(&f->k.tasks_lock);
	int signo = signal_dequeue_locked(&f->t[i], f->t[i].blocked, si, 0);

	lock_release(&f->k.tasks_lock);
	return signo;
}

static int has_work(int i)
{
	return (f->t[i].work & TASK_WORK_SIGNAL) != 0;
}

START_TEST(ignored_signals_vanish)
{
	siginfo_t si;

	fix_action(f, SIGUSR1, 1, 0);
	ck_assert_int_eq(send_group(SIGUSR1, SI_USER, 0), 0);
	ck_assert_int_eq(send_group(SIGCHLD, SI_USER, 0), 0);
	ck_assert_int_eq(take(0, &si), 0);
	ck_assert(!has_work(0));
}
END_TEST

START_TEST(blocked_signals_are_kept_though_ignored)
{
	siginfo_t si;

	fix_action(f, SIGUSR1, 1, 0);
	f->t[0].blocked = SIGBIT(SIGUSR1);
	send_task(0, SIGUSR1, SI_USER, 0);
	ck_assert_int_eq(take(0, &si), 0);
	f->t[0].blocked = 0;
	ck_assert_int_eq(take(0, &si), SIGUSR1);
}
END_TEST

START_TEST(standard_signals_coalesce_and_keep_the_first_siginfo)
{
	siginfo_t si;

	fix_action(f, SIGUSR1, HANDLER, 0);
	send_group(SIGUSR1, SI_QUEUE, 1);
	send_group(SIGUSR1, SI_QUEUE, 2);
	ck_assert_int_eq(take(0, &si), SIGUSR1);
	ck_assert_int_eq(si.si_value.sival_int, 1);
	ck_assert_int_eq(take(0, &si), 0);
}
END_TEST

START_TEST(realtime_signals_queue_in_order)
{
	siginfo_t si;

	for (int s = 40; s < 42; s++)
		fix_action(f, s, HANDLER, 0);
	for (int i = 0; i < 3; i++)
		send_group(41, SI_QUEUE, i);
	send_group(40, SI_QUEUE, 9);
	ck_assert_int_eq(take(0, &si), 40);
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(take(0, &si), 41);
		ck_assert_int_eq(si.si_value.sival_int, i);
	}
	ck_assert_int_eq(take(0, &si), 0);
	ck_assert_ptr_null(f->k.user_counts);
}
END_TEST

START_TEST(faults_go_before_lower_numbers)
{
	siginfo_t si;

	fix_action(f, SIGHUP, HANDLER, 0);
	fix_action(f, SIGSEGV, HANDLER, 0);
	send_task(0, SIGHUP, SI_USER, 0);
	send_task(0, SIGSEGV, SEGV_MAPERR, 0);
	ck_assert_int_eq(take(0, &si), SIGSEGV);
	ck_assert_int_eq(take(0, &si), SIGHUP);
}
END_TEST

START_TEST(the_limit_counts_per_user)
{
	siginfo_t si;

	f->tg.rlimits[RLIMIT_SIGPENDING].rlim_cur = 2;
	fix_action(f, 40, HANDLER, 0);
	fix_action(f, SIGUSR1, HANDLER, 0);
	ck_assert_int_eq(send_group(40, SI_QUEUE, 0), 0);
	ck_assert_int_eq(send_group(40, SI_QUEUE, 0), 0);
	ck_assert_int_eq(send_group(40, SI_QUEUE, 0), -EAGAIN);
	ck_assert_int_eq(send_group(SIGUSR1, SI_USER, 0), 0);
	ck_assert_int_eq(take(0, &si), SIGUSR1);
	ck_assert_int_eq(take(0, &si), 40);
	ck_assert_int_eq(send_group(40, SI_QUEUE, 0), 0);
}
END_TEST

START_TEST(the_main_thread_is_asked_first)
{
	fix_action(f, SIGUSR1, HANDLER, 0);
	send_group(SIGUSR1, SI_USER, 0);
	ck_assert(has_work(0) && !has_work(1) && !has_work(2));
}
END_TEST

START_TEST(then_one_that_does_not_block_it)
{
	fix_action(f, SIGUSR1, HANDLER, 0);
	f->t[0].blocked = f->t[1].blocked = SIGBIT(SIGUSR1);
	send_group(SIGUSR1, SI_USER, 0);
	ck_assert(!has_work(0) && !has_work(1) && has_work(2));
}
END_TEST

START_TEST(a_waiter_counts_as_one_that_does_not_block_it)
{
	fix_action(f, SIGUSR1, HANDLER, 0);
	for (int i = 0; i < FIX_THREADS; i++)
		f->t[i].blocked = SIGBIT(SIGUSR1);
	f->t[1].waiting_for = SIGBIT(SIGUSR1);
	send_group(SIGUSR1, SI_USER, 0);
	ck_assert(!has_work(0) && has_work(1) && !has_work(2));
}
END_TEST

START_TEST(blocking_hands_a_group_signal_on)
{
	fix_action(f, SIGUSR1, HANDLER, 0);
	send_group(SIGUSR1, SI_USER, 0);
	signal_set_blocked(&f->t[0], SIGBIT(SIGUSR1));
	ck_assert(!has_work(0) && has_work(1));
}
END_TEST

START_TEST(an_ending_thread_hands_a_group_signal_on)
{
	fix_action(f, SIGUSR1, HANDLER, 0);
	send_group(SIGUSR1, SI_USER, 0);
	lock_acquire(&f->k.tasks_lock);
	signal_task_exit_locked(&f->t[0]);
	lock_release(&f->k.tasks_lock);
	ck_assert(has_work(1));
}
END_TEST

START_TEST(fatal_signals_end_the_group_at_once)
{
	send_group(SIGTERM, SI_USER, 0);
	ck_assert(f->tg.group_flags & TG_EXITING);
	ck_assert_int_eq(f->tg.group_exit_status, SIGTERM);
	for (int i = 0; i < FIX_THREADS; i++)
		ck_assert(f->t[i].work & TASK_WORK_EXIT);
}
END_TEST

START_TEST(a_blocked_fatal_signal_waits)
{
	for (int i = 0; i < FIX_THREADS; i++)
		f->t[i].blocked = SIGBIT(SIGTERM);
	send_group(SIGTERM, SI_USER, 0);
	ck_assert(!(f->tg.group_flags & TG_EXITING));
	send_task(1, SIGKILL, SI_USER, 0);
	ck_assert_int_eq(f->tg.group_exit_status, SIGKILL);
}
END_TEST

START_TEST(init_is_spared_what_it_has_no_handler_for)
{
	siginfo_t si;

	f->tg.group_flags |= TG_INIT;
	send_group(SIGTERM, SI_USER, 0);
	send_group(SIGKILL, SI_USER, 0);
	ck_assert(!(f->tg.group_flags & TG_EXITING));
	fix_action(f, SIGTERM, HANDLER, 0);
	send_group(SIGTERM, SI_USER, 0);
	ck_assert_int_eq(take(0, &si), SIGTERM);
	siginfo_kernel(&si, SIGKILL);
	signal_send_group(&f->tg, &si);
	ck_assert(f->tg.group_flags & TG_EXITING);
}
END_TEST

START_TEST(stop_and_cont_remove_each_other)
{
	siginfo_t si;

	f->t[0].blocked = SIGBIT(SIGTSTP) | SIGBIT(SIGCONT);
	send_task(0, SIGTSTP, SI_USER, 0);
	ck_assert(f->t[0].pending.set & SIGBIT(SIGTSTP));
	send_group(SIGCONT, SI_USER, 0);
	ck_assert(!(f->t[0].pending.set & SIGBIT(SIGTSTP)));
	ck_assert(f->tg.pending.set & SIGBIT(SIGCONT));
	send_task(1, SIGSTOP, SI_USER, 0);
	ck_assert(!(f->tg.pending.set & SIGBIT(SIGCONT)));
	ck_assert_int_eq(take(1, &si), SIGSTOP);
}
END_TEST

START_TEST(ignoring_a_signal_drops_what_is_queued)
{
	struct linux_sigaction ign = { .handler = 1 };
	siginfo_t si;

	fix_action(f, 40, HANDLER, 0);
	send_group(40, SI_QUEUE, 1);
	send_task(1, 40, SI_QUEUE, 2);
	ck_assert_int_eq(signal_set_action(&f->t[0], 40, &ign, NULL), 0);
	ck_assert_int_eq(take(0, &si), 0);
	ck_assert_int_eq(take(1, &si), 0);
	ck_assert_ptr_null(f->k.user_counts);
}
END_TEST

/* ---- into the guest ---- */

static void guest(void)
{
	fix_memory(f);
	f->t[0].regs.rip = 0x402002;
	f->t[0].regs.rsp = FIX_PAGE + 3 * 4096 + 2048;
	f->t[0].regs.eflags = 0x202 | 0x400 | 0x100;
}

START_TEST(a_handler_gets_linux_frame)
{
	struct linux_rt_sigframe fr;
	struct task *t = &f->t[0];

	guest();
	t->regs.rbx = 0x1234;
	t->blocked = SIGBIT(SIGHUP);
	fix_action(f, SIGUSR1, HANDLER, SA_SIGINFO);
	send_task(0, SIGUSR1, SI_QUEUE, 77);
	signal_deliver(t);
	ck_assert_uint_eq(t->regs.rip, HANDLER);
	ck_assert_uint_eq(t->regs.rsp % 16, 8);
	ck_assert_uint_eq(t->regs.rdi, SIGUSR1);
	ck_assert_uint_eq(t->regs.rax, 0);
	ck_assert_uint_eq(t->regs.eflags, 0x202);
	ck_assert_uint_eq(t->blocked, SIGBIT(SIGHUP) | SIGBIT(SIGUSR1));
	ck_assert_int_eq(copy_from_user(t, &fr, t->regs.rsp, sizeof(fr)), 0);
	ck_assert_uint_eq(fr.pretcode, 0x777000);
	ck_assert_uint_eq(t->regs.rdx, t->regs.rsp + 8);
	ck_assert_uint_eq(t->regs.rsi, t->regs.rsp + 8 + 304);
	ck_assert_int_eq(fr.info.si_value.sival_int, 77);
	ck_assert_uint_eq(fr.uc.mcontext.rbx, 0x1234);
	ck_assert_uint_eq(fr.uc.mcontext.rip, 0x402002);
	ck_assert_uint_eq(fr.uc.mcontext.eflags, 0x702);
	ck_assert_uint_eq(fr.uc.sigmask, SIGBIT(SIGHUP));
	ck_assert_uint_eq(fr.uc.flags, 7);
	ck_assert_uint_eq(fr.uc.mcontext.fpstate % 64, 0);
	/* And back. */
	t->regs.rbx = 0;
	t->regs.rsp += 8;
	ck_assert_int_eq(signal_return(t), 0);
	ck_assert_uint_eq(t->regs.rbx, 0x1234);
	ck_assert_uint_eq(t->regs.rip, 0x402002);
	ck_assert_uint_eq(t->blocked, SIGBIT(SIGHUP));
	ck_assert_uint_eq(t->regs.orig_rax, (uint64_t)-1);
}
END_TEST

static void interrupted_call(long code)
{
	f->t[0].in_syscall = 1;
	f->t[0].regs.orig_rax = SYS_read;
	f->t[0].regs.rax = (uint64_t)-code;
	f->t[0].regs.rip = 0x402002;
}

static uint64_t frame_rax(void)
{
	struct linux_rt_sigframe fr;

	copy_from_user(&f->t[0], &fr, f->t[0].regs.rsp, sizeof(fr));
	return fr.uc.mcontext.rax;
}

START_TEST(restart_rules_with_a_handler)
{
	static const struct {
		long code;
		uint64_t flags, want;
	} rows[] = {
		{ ERESTARTSYS, 0, (uint64_t)-EINTR },
		{ ERESTARTSYS, SA_RESTART, SYS_read },
		{ ERESTARTNOHAND, SA_RESTART, (uint64_t)-EINTR },
		{ ERESTARTNOINTR, 0, SYS_read },
		{ ERESTART_RESTARTBLOCK, SA_RESTART, (uint64_t)-EINTR },
	};

	guest();
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		f->t[0].blocked = 0;
		f->t[0].regs.rsp = FIX_PAGE + 3 * 4096 + 2048;
		fix_action(f, SIGUSR1, HANDLER, rows[i].flags);
		interrupted_call(rows[i].code);
		send_task(0, SIGUSR1, SI_USER, 0);
		signal_deliver(&f->t[0]);
		ck_assert_uint_eq(frame_rax(), rows[i].want);
	}
}
END_TEST

START_TEST(restart_rules_without_a_handler)
{
	guest();
	interrupted_call(ERESTARTNOHAND);
	signal_deliver(&f->t[0]);
	ck_assert_uint_eq(f->t[0].regs.rax, SYS_read);
	ck_assert_uint_eq(f->t[0].regs.rip, 0x402000);
	interrupted_call(ERESTART_RESTARTBLOCK);
	signal_deliver(&f->t[0]);
	ck_assert_uint_eq(f->t[0].regs.rax, SYS_restart_syscall);
	ck_assert_uint_eq(f->t[0].regs.rip, 0x402000);
}
END_TEST

START_TEST(a_temporary_mask_comes_back)
{
	struct linux_rt_sigframe fr;
	struct task *t = &f->t[0];

	guest();
	t->blocked = SIGBIT(SIGUSR1);
	signal_set_temporary_mask(t, 0);
	signal_deliver(t);
	ck_assert_uint_eq(t->blocked, SIGBIT(SIGUSR1));
	/* With a handler it comes back through the frame. */
	fix_action(f, SIGUSR1, HANDLER, 0);
	signal_set_temporary_mask(t, SIGBIT(SIGHUP));
	send_task(0, SIGUSR1, SI_USER, 0);
	signal_deliver(t);
	copy_from_user(t, &fr, t->regs.rsp, sizeof(fr));
	ck_assert_uint_eq(fr.uc.sigmask, SIGBIT(SIGUSR1));
	ck_assert_uint_eq(t->blocked, SIGBIT(SIGUSR1) | SIGBIT(SIGHUP));
	ck_assert_int_eq(t->restore_mask, 0);
}
END_TEST

START_TEST(the_alternate_stack_is_used_and_guarded)
{
	struct task *t = &f->t[0];

	guest();
	t->altstack = (stack_t){ .ss_sp = (void *)FIX_PAGE, .ss_size = 8192 };
	fix_action(f, SIGUSR1, HANDLER, SA_ONSTACK | SA_NODEFER);
	send_task(0, SIGUSR1, SI_USER, 0);
	signal_deliver(t);
	ck_assert(t->regs.rsp > FIX_PAGE && t->regs.rsp < FIX_PAGE + 8192);
	/* Nested handlers fill it up; the one that does not fit becomes SIGSEGV. */
	fix_action(f, SIGSEGV, HANDLER + 1, SA_ONSTACK);
	for (int i = 0; i < 10; i++) {
		uint64_t sp = t->regs.rsp;

		send_task(0, SIGUSR1, SI_USER, 0);
		f->t[0].regs.rsp = sp;
		if (sp < FIX_PAGE + 3800)
			break;
		signal_deliver(t);
	}
	ck_assert(t->regs.rsp >= FIX_PAGE);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		ignored_signals_vanish,
		blocked_signals_are_kept_though_ignored,
		standard_signals_coalesce_and_keep_the_first_siginfo,
		realtime_signals_queue_in_order,
		faults_go_before_lower_numbers,
		the_limit_counts_per_user,
		the_main_thread_is_asked_first,
		then_one_that_does_not_block_it,
		a_waiter_counts_as_one_that_does_not_block_it,
		blocking_hands_a_group_signal_on,
		an_ending_thread_hands_a_group_signal_on,
		fatal_signals_end_the_group_at_once,
		a_blocked_fatal_signal_waits,
		init_is_spared_what_it_has_no_handler_for,
		stop_and_cont_remove_each_other,
		ignoring_a_signal_drops_what_is_queued,
		a_handler_gets_linux_frame,
		restart_rules_with_a_handler,
		restart_rules_without_a_handler,
		a_temporary_mask_comes_back,
		the_alternate_stack_is_used_and_guarded,
	};
	Suite *s = suite_create("signal");
	TCase *tc = tcase_create("signal");

	tcase_add_checked_fixture(tc, setup, NULL);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		tcase_add_test(tc, tests[i]);
	suite_add_tcase(s, tc);
	SRunner *r = srunner_create(s);

	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);

	srunner_free(r);
	return failed != 0;
}
