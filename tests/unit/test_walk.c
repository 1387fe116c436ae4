/*
 * walk.c against a walk that takes one header after the other: every fault at every place of a run.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "../../src/control/record/walk.h"

#define WORDS 61
#define MASK40 ((1ULL << 40) - 1)

enum fault {
	FAULT_NONE,
	FAULT_ZERO,
	FAULT_OTHER_ID,
	FAULT_UNKNOWN_ID,
	FAULT_PENDING,
	FAULT_BACK,
	FAULT_FAR,
	FAULT_SAME,
	FAULTS
};

static const uint32_t sizes[] = { 8, 8, 24 };

struct result {
	uint64_t to[WORDS];
	size_t copied, left;
	uint64_t count, clock, first, back, hits[3];
	enum walk_stop stop;
};

/* One at a time, for events without fields. */
static void expect(const uint64_t *from, uint64_t clock, struct result *result)
{
	*result = (struct result){ .stop = WALK_END, .left = WORDS };
	for (size_t i = 0; i < WORDS; i++, result->left--) {
		uint64_t id = from[i] & 0xffffff, ahead = ((from[i] >> 24) - clock) & MASK40;

		if (!from[i] || id > 1) {
			result->stop = !from[i]			    ? WALK_EMPTY :
				       (from[i] & DT_EVENT_PENDING) ? WALK_PENDING :
								      WALK_BROKEN;
			break;
		}
		result->back += ahead >> 39;
		clock += ahead >> 39 ? 0 : ahead;
		if (!result->count++)
			result->first = clock;
		result->hits[id]++;
		result->to[result->copied++] = clock << 24 | id;
	}
	result->clock = clock;
}

static void check(const uint64_t *from, uint64_t clock)
{
	struct result expected, got = { .left = 0 };
	struct walk walk = { .sizes = sizes,
			     .hits = got.hits,
			     .id_count = 3,
			     .from = from,
			     .to = got.to,
			     .words = WORDS,
			     .clock = clock };

	expect(from, clock, &expected);
	walk_events(&walk);
	assert_int_equal(walk.stop, expected.stop);
	assert_int_equal(walk.to - got.to, expected.copied);
	assert_int_equal(walk.words, expected.left);
	assert_int_equal(walk.count, expected.count);
	assert_int_equal(walk.clock, expected.clock);
	assert_int_equal(walk.stepped_back, expected.back);
	if (walk.count)
		assert_int_equal(walk.first_clock, expected.first);
	assert_memory_equal(got.hits, expected.hits, sizeof(got.hits));
	assert_memory_equal(got.to, expected.to, expected.copied * 8);
}

static void spoil(uint64_t *words, size_t at, enum fault fault)
{
	static const int64_t steps[FAULTS] = { [FAULT_BACK] = -5, [FAULT_FAR] = 1LL << 39 };

	switch (fault) {
	case FAULT_ZERO:
		words[at] = 0;
		break;
	case FAULT_OTHER_ID:
		words[at] ^= 1;
		break;
	case FAULT_UNKNOWN_ID:
		words[at] |= 0x1234;
		break;
	case FAULT_PENDING:
		words[at] |= DT_EVENT_PENDING;
		break;
	case FAULT_SAME:
		words[at] = at ? words[at - 1] : words[at];
		break;
	default:
		words[at] += (uint64_t)steps[fault] << 24;
	}
}

/* From clocks that are small, about to wrap in their 40 bits, and that say 0 there. */
static void test_every_fault_everywhere(void **unused)
{
	static const uint64_t starts[] = { 1000, (7ULL << 40) - 20, (3ULL << 40) - 1, 9ULL << 40 };

	for (size_t s = 0; s < sizeof(starts) / sizeof(starts[0]); s++)
		for (uint64_t id = 0; id < 2; id++)
			for (size_t at = 0; at < WORDS; at++)
				for (enum fault fault = FAULT_NONE; fault < FAULTS; fault++) {
					uint64_t words[WORDS], clock = starts[s];

					for (size_t i = 0; i < WORDS; i++)
						words[i] = (clock + i * 3) << 24 | id;
					spoil(words, at, fault);
					check(words, clock);
					spoil(words, (at * 7 + 3) % WORDS, fault);
					check(words, clock);
				}
}

/* Gaps of almost 2^39 each add up beyond 40 bits. */
static void test_long_gaps(void **unused)
{
	uint64_t words[WORDS], clock = 12345;

	for (size_t i = 0; i < WORDS; i++)
		words[i] = (clock + (i + 1) * ((1ULL << 39) - 1)) << 24 | 1;
	check(words, clock);
	struct result result;
	expect(words, clock, &result);
	assert_int_equal(result.clock, clock + WORDS * ((1ULL << 39) - 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_fault_everywhere),
		cmocka_unit_test(test_long_gaps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
