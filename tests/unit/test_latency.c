/*
 * The table of durations counts the same whether events come in one batch or one by one, with their
 * lengths or without: calls whose exits come right behind their entries have a shorter way, that
 * only a batch of both takes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "control/record/latency.h"

#define FUNCTIONS 4u
#define KINDS (2 * FUNCTIONS + 1) /* and one that is neither entry nor exit */
#define OTHER (KINDS - 1)
#define EVENTS 60u
#define TRIALS 2000u

static struct event_field text[] = { { .type = FIELD_STRING } };
static struct event_type items[KINDS];
static const struct event_types types = { .items = items, .count = KINDS };

struct script {
	uint64_t words[EVENTS * 8], clocks[EVENTS];
	uint16_t lengths[EVENTS];
	size_t count, used;
};

static uint32_t random_state = 1;

static uint32_t below(uint32_t end)
{
	random_state = random_state * 1664525 + 1013904223;
	return (uint32_t)(((uint64_t)(random_state >> 8) * end) >> 24);
}

static void make_types(void)
{
	for (uint32_t id = 0; id < KINDS; id++) {
		items[id] = (struct event_type){ .id = id, .size = id % 2 ? 24 : 8 + id % 3 * 8 };
		if (id % 4 && id != OTHER)
			continue;
		items[id].is_variable = true;
		items[id].fields = text;
		items[id].field_count = 1;
		event_type_learn(&items[id]);
	}
}

static void add(struct script *script, uint32_t id, uint64_t clock, uint64_t duration)
{
	uint64_t *event = script->words + script->used;
	size_t words = items[id].size / 8;

	event[0] = clock << 24 | id;
	if (id % 2) {
		event[1] = 0;
		event[2] = duration;
	} else if (items[id].is_variable) {
		words = 2 + below(3);
		memset(event + 1, 'x', (words - 1) * 8 - 1);
		((char *)(event + words))[-1] = '\0';
	} else {
		memset(event + 1, 0, (words - 1) * 8);
	}
	script->clocks[script->count] = clock;
	script->lengths[script->count++] = (uint16_t)words;
	script->used += words;
}

/* Calls inside each other, some without an entry, some without an exit. */
static void make_script(struct script *script)
{
	uint32_t open[EVENTS], depth = 0;
	uint64_t clock = 1000;

	memset(script, 0, sizeof(*script));
	while (script->count < EVENTS) {
		clock += 1 + below(50);
		if (below(12) == 0) {
			add(script, OTHER, clock, 0);
		} else if (below(15) == 0) {
			add(script, 2 * below(FUNCTIONS) + 1, clock, below(500));
		} else if (depth && below(2)) {
			depth--;
			if (below(10))
				add(script, open[depth] + 1, clock, below(500));
		} else {
			open[depth] = 2 * below(FUNCTIONS);
			add(script, open[depth++], clock, 0);
		}
	}
}

/* In batches of so many events; `lost` from the middle on. */
static void read_script(struct latency *latency, const struct script *script, size_t each,
			bool has_lengths, bool loses)
{
	for (size_t i = 0, at = 0; i < script->count;) {
		struct latency_batch batch = { .stream = 3,
					       .events = script->words + at,
					       .lengths = has_lengths ? script->lengths + i : NULL,
					       .begin = script->clocks[i],
					       .lost = loses && i >= EVENTS / 2 ? 5 : 0,
					       .frequency = 1000000000 };

		for (size_t end = i + each; i < end && i < script->count; i++)
			batch.words += script->lengths[i];
		at += batch.words;
		latency_events(latency, &batch);
	}
}

static void measure(const struct script *script, size_t each, bool has_lengths, bool loses,
		    struct tracepoint_times ret_times[FUNCTIONS])
{
	struct latency latency;

	memset(&latency, 0, sizeof(latency));
	latency_init(&latency, &types);
	for (uint32_t i = 0; i < FUNCTIONS; i++)
		assert_true(latency_add(&latency, 2 * i));
	read_script(&latency, script, each, has_lengths, loses);
	memset(ret_times, 0, FUNCTIONS * sizeof(*ret_times));
	for (uint32_t i = 0; i < FUNCTIONS; i++)
		latency_times(&latency, 2 * i, &ret_times[i]);
	latency_free(&latency);
}

static void assert_same(const struct tracepoint_times *a, const struct tracepoint_times *b)
{
	for (uint32_t i = 0; i < FUNCTIONS; i++) {
		assert_int_equal(a[i].calls, b[i].calls);
		assert_int_equal(a[i].total, b[i].total);
		assert_int_equal(a[i].durations, b[i].durations);
		assert_int_equal(a[i].self, b[i].self);
		assert_int_equal(a[i].max, b[i].max);
		assert_int_equal(a[i].p50, b[i].p50);
		assert_int_equal(a[i].self_known, b[i].self_known);
		assert_int_equal(a[i].cut, b[i].cut);
	}
}

static void test_batches(void **unused)
{
	struct tracepoint_times one[FUNCTIONS], many[FUNCTIONS];
	uint64_t calls = 0;

	for (uint32_t trial = 0; trial < TRIALS; trial++) {
		/* a loss is told of with a batch: both ways have one begin there */
		size_t each = trial % 2 ? EVENTS / 2 : EVENTS;
		struct script script;

		make_script(&script);
		measure(&script, 1, false, trial % 2, one);
		measure(&script, each, false, trial % 2, many);
		assert_same(one, many);
		measure(&script, each, true, trial % 2, many);
		assert_same(one, many);
		for (uint32_t i = 0; i < FUNCTIONS; i++)
			calls += one[i].calls;
	}
	assert_true(calls > TRIALS * EVENTS / 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_batches),
	};

	make_types();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
