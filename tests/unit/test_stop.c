/* Holding threads still and letting them go, on real programs. */
#include "target.h"

#include <sched.h>
#include <sys/syscall.h>

#include "control/inject/stop.h"

#define TIMEOUT_MS 2000

static int64_t remote(struct stop *stop, long number, uint64_t a, uint64_t b)
{
	int64_t result = INT64_MIN;

	no_error(stop_syscall(stop, number, (const uint64_t[6]){ a, b }, &result));
	return result;
}

static struct proc *open_target(const struct target *target)
{
	struct proc *proc = NULL;

	no_error(proc_open(target->pid, &proc));
	return proc;
}

static void expect_all_ok(char *text, size_t lines)
{
	size_t count = 0;

	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"), count++) {
		if (!strstr(line, " ok"))
			fail_msg("%s", line);
	}
	assert_int_equal(count, lines);
}

/* Every blocking call goes on as if nothing had been, after stops of all threads and remote calls on each. */
static void test_calls_go_on(void **state)
{
	struct target target = target_start("sleeper", "--ms", "1500", NULL);
	char text[4096];

	target_ready(&target);
	struct proc *proc = open_target(&target);
	for (int i = 0; i < 20; i++) {
		struct stop *stop = NULL;

		no_error(stop_all(proc, TIMEOUT_MS, &stop));
		assert_int_equal(stop_thread_count(stop), 15);
		assert_int_equal(remote(stop, SYS_getpid, 0, 0), target.pid);
		assert_int_equal(remote(stop, SYS_getpid, 0, 0), target.pid);
		stop_release(stop, NULL);
	}
	target_go(&target);
	assert_int_equal(target_finish(&target, text, sizeof(text)), 0);
	expect_all_ok(text, 14);
	proc_close(proc);
}

/* The same, with the remote calls run by each of the sleeping threads in turn. */
static void test_calls_go_on_with_remote_calls(void **state)
{
	struct target target = target_start("sleeper", "--ms", "1500", NULL);
	struct tids tids = { 0 };
	char text[4096];

	target_ready(&target);
	struct proc *proc = open_target(&target);
	no_error(threads_list(proc, &tids));
	for (size_t i = 0; i < 3 * tids.count; i++) {
		pid_t tid = tids.items[i % tids.count];
		struct stop *stop = NULL;

		no_error(stop_thread(proc, tid, TIMEOUT_MS, &stop));
		assert_int_equal(stop_thread_tid(stop, 0), tid);
		assert_int_equal(remote(stop, SYS_gettid, 0, 0), tid);
		assert_int_equal(remote(stop, SYS_close, 9999, 0), -EBADF);
		stop_release(stop, NULL);
	}
	vec_free(&tids);
	target_go(&target);
	assert_int_equal(target_finish(&target, text, sizeof(text)), 0);
	expect_all_ok(text, 14);
	proc_close(proc);
}

static void test_one_is_fit(void **state)
{
	struct target target = target_start("spin", "--threads", "4", NULL);
	struct stop *stop = NULL;

	target_ready(&target);
	struct proc *proc = open_target(&target);
	no_error(stop_one(proc, TIMEOUT_MS, &stop));
	assert_int_equal(stop_thread_count(stop), 1);
	assert_int_equal(stop_thread_tid(stop, 0), target.pid);
	assert_int_equal(remote(stop, SYS_getppid, 0, 0), getpid());
	stop_release(stop, NULL);
	proc_close(proc);
	target_end(&target);
}

/* Runs for as long as we like, and says at the end whether anything was touched. */
static void end_steady(struct target *target)
{
	char text[256];

	kill(target->pid, SIGUSR1);
	assert_int_equal(target_finish(target, text, sizeof(text)), 0);
	assert_string_equal(text, "ok\n");
}

static void test_running_threads_are_unharmed(void **state)
{
	struct target target = target_start("steady", "--threads", "4", NULL);

	target_ready(&target);
	target_go(&target);
	struct proc *proc = open_target(&target);
	for (int i = 0; i < 300; i++) {
		struct stop *stop = NULL;

		if (i % 2)
			no_error(stop_all(proc, TIMEOUT_MS, &stop));
		else
			no_error(stop_one(proc, TIMEOUT_MS, &stop));
		assert_int_equal(stop_thread_count(stop), i % 2 ? 4 : 1);
		assert_int_equal(remote(stop, SYS_getpid, 0, 0), target.pid);
		stop_release(stop, NULL);
	}
	end_steady(&target);
	proc_close(proc);
}

static void test_priority_is_raised_and_lowered(void **state)
{
	struct target target = target_start("spin", NULL);
	struct stop *stop = NULL;
	int before = sched_getscheduler(0);

	target_ready(&target);
	struct proc *proc = open_target(&target);
	no_error(stop_all(proc, TIMEOUT_MS, &stop));
	if (!geteuid())
		assert_int_equal(sched_getscheduler(0), SCHED_FIFO | SCHED_RESET_ON_FORK);
	stop_release(stop, NULL);
	assert_int_equal(sched_getscheduler(0), before);
	proc_close(proc);
	target_end(&target);
}

/* A stopped process can be held and used, and is still stopped afterwards. */
static void test_stopped_stays_stopped(void **state)
{
	struct target target = target_start("spin", "--threads", "3", NULL);

	target_ready(&target);
	struct proc *proc = open_target(&target);
	kill(target.pid, SIGSTOP);
	target_await_state(target.pid, 'T');
	for (int i = 0; i < 10; i++) {
		struct stop *stop = NULL;

		if (i % 2)
			no_error(stop_all(proc, TIMEOUT_MS, &stop));
		else
			no_error(stop_one(proc, TIMEOUT_MS, &stop));
		assert_int_equal(remote(stop, SYS_getpid, 0, 0), target.pid);
		stop_release(stop, NULL);
		target_await_state(target.pid, 'T');
	}
	kill(target.pid, SIGCONT);
	target_await_state(target.pid, 'S');
	target_go(&target);
	target_ready(&target);
	proc_close(proc);
	target_end(&target);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_calls_go_on),
		cmocka_unit_test(test_calls_go_on_with_remote_calls),
		cmocka_unit_test(test_one_is_fit),
		cmocka_unit_test(test_running_threads_are_unharmed),
		cmocka_unit_test(test_priority_is_raised_and_lowered),
		cmocka_unit_test(test_stopped_stays_stopped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
