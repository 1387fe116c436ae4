/*
 * When the daemon calls a worker stuck: stuck.c with made-up times, without a daemon.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/base/log.h"
#include "daemon/supervisor/peer.h"
#include "daemon/supervisor/requests/request_life.h"
#include "daemon/supervisor/supervisor.h"
#include "daemon/supervisor/targets/stuck.h"
#include "daemon/supervisor/targets/target_worker.h"

#define SECOND 1000000000ULL

/* A worker that has one request, and a client that waits behind it. Workers have no pid here: none
 * is stopped by a signal. */
static struct {
	struct supervisor supervisor;
	struct target target;
	struct peer peer;
	struct request first, second;
	struct worker_call calls[2];
	struct target *targets[1];
	char told[200]; /* to the client of the second request */
	unsigned killed;
	uint64_t queued; /* ns for which the worker has waited for a processor */
} world;

uint64_t target_worker_queued(const struct target *target)
{
	assert_ptr_equal(target, &world.target);
	return world.queued;
}

void request_leave(struct request *request, struct error *error)
{
	assert_ptr_equal(request, &world.second);
	snprintf(world.told, sizeof(world.told), "%s", error_text(error));
	error_free(error);
	request->peer = NULL;
}

void target_worker_end(struct target *target)
{
	assert_ptr_equal(target, &world.target);
	world.killed++;
}

void log_line(const char *format, ...)
{
	(void)format;
}

static int set_up(void **state)
{
	(void)state;
	memset(&world, 0, sizeof(world));
	world.second.peer = &world.peer;
	world.calls[0] = (struct worker_call){ .request = &world.first, .kind = WIRE_ADD };
	world.calls[1] = (struct worker_call){ .request = &world.second, .kind = WIRE_TRACEPOINTS };
	world.target.pid = 77;
	snprintf(world.target.process.name, sizeof(world.target.process.name), "spin");
	world.target.calls.items = world.calls;
	world.target.calls.count = 2;
	world.target.sent = 1;
	world.targets[0] = &world.target;
	world.supervisor.targets.items = world.targets;
	world.supervisor.targets.count = 1;
	return 0;
}

/* Both requests came at second 100; looks at that second. */
static void look_at(uint64_t seconds)
{
	bool again = false;

	for (size_t i = 0; i < 2; i++)
		world.calls[i].since = world.calls[i].sent_at = 100 * SECOND;
	stuck_sweep(&world.supervisor, seconds * SECOND, &again);
	assert_true(again);
}

static void test_a_silent_worker_is_told_of_after_15_s(void **state)
{
	(void)state;
	world.target.heard_at = 50 * SECOND;
	look_at(114);
	assert_string_equal(world.told, "");
	look_at(115);
	assert_string_equal(world.told, "process 77 (spin): its worker hasn't answered for 15 s: "
					"the request is done when it goes on");
}

/* The worker has answered others before: the client's own turn comes. */
static void test_a_worker_that_answers_others_is_not_silent(void **state)
{
	(void)state;
	world.target.heard_at = 110 * SECOND;
	look_at(124);
	assert_string_equal(world.told, "");
	look_at(125);
	assert_string_equal(world.told, "process 77 (spin): its worker hasn't answered for 15 s: "
					"the request is done when it goes on");
}

/* It restores all places, which are many in a compiler, and may wait for an add before it. */
static void test_detach_may_take_as_long_as_add(void **state)
{
	(void)state;
	world.calls[1].kind = WIRE_DETACH;
	look_at(219);
	assert_string_equal(world.told, "");
	look_at(220);
	assert_non_null(strstr(world.told, "hasn't answered for 120 s"));
}

static void test_a_worker_is_replaced_after_120_s_of_silence(void **state)
{
	(void)state;
	world.target.heard_at = 150 * SECOND; /* answered a call that was sent before these */
	look_at(270);
	assert_int_equal(world.killed, 0);
	look_at(271);
	assert_int_equal(world.killed, 1);
}

/* A busy machine: of 210 seconds since the request the worker waited 90 for a processor. */
static void test_waits_for_a_processor_are_no_silence(void **state)
{
	(void)state;
	world.calls[1].kind = WIRE_DETACH;
	world.queued = 1000 * SECOND; /* before these requests */
	look_at(100);
	world.queued = 1090 * SECOND;
	look_at(309);
	assert_string_equal(world.told, "");
	assert_int_equal(world.killed, 0);
	look_at(311);
	assert_non_null(strstr(world.told, "hasn't answered for 211 s"));
	assert_int_equal(world.killed, 1);
}

/* A client of a quick call is told all the same; and an answer begins all anew. */
static void test_quick_calls_count_all_time(void **state)
{
	(void)state;
	look_at(100);
	world.queued = 1000 * SECOND;
	look_at(115);
	assert_non_null(strstr(world.told, "hasn't answered for 15 s"));
	world.target.heard_at = 150 * SECOND;
	look_at(150);
	look_at(271);
	assert_int_equal(world.killed, 1);
}

/* An answer may come between the look at the clock and the look at the worker. */
static void test_an_answer_of_just_now_is_no_silence(void **state)
{
	(void)state;
	world.target.heard_at = 301 * SECOND;
	look_at(300);
	assert_string_equal(world.told, "");
	assert_int_equal(world.killed, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_a_silent_worker_is_told_of_after_15_s, set_up),
		cmocka_unit_test_setup(test_a_worker_that_answers_others_is_not_silent, set_up),
		cmocka_unit_test_setup(test_detach_may_take_as_long_as_add, set_up),
		cmocka_unit_test_setup(test_a_worker_is_replaced_after_120_s_of_silence, set_up),
		cmocka_unit_test_setup(test_waits_for_a_processor_are_no_silence, set_up),
		cmocka_unit_test_setup(test_quick_calls_count_all_time, set_up),
		cmocka_unit_test_setup(test_an_answer_of_just_now_is_no_silence, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
