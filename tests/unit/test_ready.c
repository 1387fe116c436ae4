/* Waiting for a descriptor while signals come. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "control/base/ready.h"

static volatile int signals;

static void on_alarm(int number)
{
	(void)number;
	signals++;
}

static void send_signals(void)
{
	struct sigaction action = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
	struct itimerval often = { { 0, 2000 }, { 0, 2000 } };

	assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
	assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
}

/* Something comes after many signals. */
static void test_signals_come_first(void **state)
{
	int ends[2];

	(void)state;
	assert_int_equal(pipe(ends), 0);
	signals = 0;
	send_signals();
	pid_t child = fork();
	if (!child) { /* timers aren't inherited */
		usleep(50000);
		_exit(write(ends[1], "x", 1) == 1 ? 0 : 1);
	}
	assert_true(ready_within(ends[0], POLLIN, 60000));
	assert_true(signals > 0);
	setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, NULL);
	assert_int_equal(waitpid(child, NULL, 0), child);
}

/* Signals don't prolong the wait. */
static void test_nothing_comes(void **state)
{
	int ends[2];

	(void)state;
	assert_int_equal(pipe(ends), 0);
	send_signals();
	assert_false(ready_within(ends[0], POLLIN, 30));
	assert_false(ready_within(ends[0], POLLIN, 0));
	setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_signals_come_first),
		cmocka_unit_test(test_nothing_comes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
