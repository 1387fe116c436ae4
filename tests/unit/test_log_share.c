/* A user's part of the daemon's log: bounded, counted, and apart from failures that root sees. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "daemon/base/log.h"
#include "daemon/supervisor/supervisor.h"

#define MEMBER 61901
#define LINES 1000

static struct supervisor supervisor;
static char last[128];
static struct timespec now = { .tv_sec = 1000 };

/* In front of the libc's: time stands still. */
int clock_gettime(clockid_t clock, struct timespec *ret_time)
{
	*ret_time = now;
	return 0;
}

bool supervisor_is_master(const struct supervisor *one, uid_t uid)
{
	return uid == 0;
}

void log_line(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(last, sizeof(last), format, args);
	va_end(args);
}

static void use_up(bool (*take)(struct supervisor *supervisor, uid_t uid))
{
	for (int i = 0; i < LINES; i++)
		assert_true(take(&supervisor, MEMBER));
	for (int i = 0; i < LINES; i++)
		assert_false(take(&supervisor, MEMBER));
}

static int begin(void **state)
{
	memset(&supervisor, 0, sizeof(supervisor));
	*last = '\0';
	return 0;
}

static void test_left_out_lines_are_counted(void **state)
{
	use_up(log_share_take);
	assert_true(log_share_take(&supervisor, 0));
	assert_true(log_share_take(&supervisor, MEMBER + 1));
	assert_string_equal(last, "");
	now.tv_sec++; /* ten more lines */
	assert_true(log_share_take(&supervisor, MEMBER));
	assert_string_equal(last, "uid=61901: 1000 lines left out: too many at once");
}

/* (D6) Whoever makes a line per request doesn't hide what goes wrong with his processes. */
static void test_failures_are_shown_beside_requests(void **state)
{
	use_up(log_share_take);
	use_up(log_share_take_failure);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_left_out_lines_are_counted, begin),
		cmocka_unit_test_setup(test_failures_are_shown_beside_requests, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
