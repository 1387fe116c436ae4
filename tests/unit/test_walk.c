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
#include "../../src/shared/program.h"

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
	uint16_t lengths[WORDS];
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
		result->lengths[result->copied] = 1;
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
			     .lengths = got.lengths,
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
	assert_int_equal(walk.lengths - got.lengths, expected.copied);
	assert_memory_equal(got.lengths, expected.lengths, sizeof(got.lengths));
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

/* ---- events with strings --------------------------------------------------------------------- */

#define ROOM 600
#define KINDS 4
#define LONGEST 70 /* bytes of a string: some end behind all that walk_take_short looks at */
#define TRIALS 30000

static struct event_field one_text[] = { { .type = FIELD_STRING } };
static struct event_field three_texts[] = { { .type = FIELD_STRING },
					    { .type = FIELD_STRING },
					    { .type = FIELD_STRING } };
static struct event_field number_and_text[] = { { .type = FIELD_INT, .size = 8 },
						{ .type = FIELD_INT, .size = 4 },
						{ .type = FIELD_STRING } };
static struct event_type text_types[KINDS] = {
	{ .id = 0, .size = 24 },
	{ .id = 1, .size = 16, .is_variable = true, .fields = one_text, .field_count = 1 },
	{ .id = 2, .size = 16, .is_variable = true, .fields = three_texts, .field_count = 3 },
	{ .id = 3, .size = 24, .is_variable = true, .fields = number_and_text, .field_count = 3 },
};
static const struct event_types texts = { .items = text_types, .count = KINDS };
static uint32_t text_sizes[KINDS] = { 24 };

struct texts_result {
	uint64_t to[ROOM];
	uint16_t lengths[ROOM];
	size_t copied, left;
	uint64_t count, clock, first, back, hits[KINDS];
	uint32_t last_id, last_padding;
	enum walk_stop stop;
};

static uint32_t random_state = 1;

static uint32_t below(uint32_t end)
{
	random_state = random_state * 1664525 + 1013904223;
	return (uint32_t)(((uint64_t)(random_state >> 8) * end) >> 24);
}

/* Bytes of the trace's event whose fields, behind the pool's size word, are there; 0: it isn't one.
 * Looks at one byte after the other. */
static size_t judge_texts(uint64_t id, const uint8_t *fields, size_t size)
{
	size_t at = id == 3 ? 12 : 0;

	for (size_t left = id == 2 ? 3 : 1; left; left--) {
		while (at < size && fields[at])
			at++;
		if (at >= size)
			return 0;
		at++;
	}
	return at == size ? 8 + at : 0;
}

static size_t expect_one(const uint64_t *from, size_t left, uint64_t *to, size_t *ret_size)
{
	uint64_t id = from[0] & 0xffffff, word = left >= 2 ? from[1] : 0;
	size_t size = (uint32_t)word, span = word >> 32 ? word >> 32 : (size + 7) / 8 * 8;

	if (!id) {
		memcpy(to + 1, from + 1, left >= 3 ? 16 : 0);
		*ret_size = 24;
		return left >= 3 ? 3 : 0;
	}
	if (size < 16 || span % 8 || span < size || span / 8 > left || span > DT_EVENT_SIZE_MAX)
		return 0;
	memcpy(to + 1, from + 2, (size + 7) / 8 * 8 - 16);
	*ret_size = judge_texts(id, (const uint8_t *)(from + 2), size - 16);
	return *ret_size ? span / 8 : 0;
}

static void expect_texts(const uint64_t *from, size_t words, uint64_t clock,
			 struct texts_result *result)
{
	*result = (struct texts_result){ .stop = WALK_END, .left = words };
	while (result->left) {
		uint64_t id = *from & 0xffffff, ahead = ((*from >> 24) - clock) & MASK40;
		size_t size, span;

		result->stop = !*from			  ? WALK_EMPTY :
			       (*from & DT_EVENT_PENDING) ? WALK_PENDING :
							    WALK_BROKEN;
		if (!*from || id >= KINDS ||
		    !(span = expect_one(from, result->left, result->to + result->copied, &size)))
			break;
		result->stop = WALK_END;
		result->back += ahead >> 39;
		clock += ahead >> 39 ? 0 : ahead;
		if (!result->count++)
			result->first = clock;
		result->hits[id]++;
		result->to[result->copied] = clock << 24 | id;
		result->lengths[result->count - 1] = (uint16_t)((size + 7) / 8);
		if (id)
			result->last_padding = (uint32_t)(-size % 8);
		result->last_id = (uint32_t)id;
		result->copied += (size + 7) / 8;
		from += span;
		result->left -= span;
	}
	result->clock = clock;
}

static void check_texts(const uint64_t *from, size_t words, uint64_t clock)
{
	struct texts_result expected, got = { .left = 0 };
	struct walk walk = { .sizes = text_sizes,
			     .types = &texts,
			     .hits = got.hits,
			     .id_count = KINDS,
			     .from = from,
			     .to = got.to,
			     .lengths = got.lengths,
			     .words = words,
			     .clock = clock };

	expect_texts(from, words, clock, &expected);
	walk_events(&walk);
	assert_int_equal(walk.stop, expected.stop);
	assert_int_equal(walk.to - got.to, expected.copied);
	assert_int_equal(walk.lengths - got.lengths, expected.count);
	assert_int_equal(walk.words, expected.left);
	assert_int_equal(walk.count, expected.count);
	assert_int_equal(walk.clock, expected.clock);
	assert_int_equal(walk.stepped_back, expected.back);
	if (walk.count) {
		assert_int_equal(walk.first_clock, expected.first);
		assert_int_equal(walk.last_id, expected.last_id);
		assert_int_equal(walk.last_padding, expected.last_padding);
	}
	assert_memory_equal(got.hits, expected.hits, sizeof(got.hits));
	assert_memory_equal(got.to, expected.to, expected.copied * 8);
	assert_memory_equal(got.lengths, expected.lengths, expected.count * 2);
}

/* Writes an event, with any bytes behind its fields. Returns its words. */
static size_t make_event(uint64_t *at, uint64_t id, uint64_t clock, uint32_t longest)
{
	uint8_t *fields = (uint8_t *)(at + 2);
	size_t end = id == 3 ? 12 : 0;

	for (size_t i = 0; i < DT_EVENT_SIZE_MAX / 8 && i < 40; i++)
		at[i] = 0x0100000001000101ull * (uint64_t)below(256);
	at[0] = clock << 24 | id;
	if (!id)
		return 3;
	for (size_t left = id == 2 ? 3 : 1; left; left--) {
		size_t length = below(longest + 1);

		memset(fields + end, 'a' + (int)below(20), length);
		end += length;
		fields[end++] = '\0';
	}
	size_t size = 16 + end, room = below(4) ? 0 : (size + 7) / 8 + below(3);
	at[1] = (uint64_t)room * 8 << 32 | size;
	return room ? room : (size + 7) / 8;
}

/* Any change that an enemy, or an incomplete event, makes. */
static void spoil_event(uint64_t *at, size_t words)
{
	switch (below(9)) {
	case 0:
		at[0] = 0;
		break;
	case 1:
		at[0] |= DT_EVENT_PENDING;
		break;
	case 2:
		at[0] = (at[0] & ~0xffffffull) | below(KINDS + 2);
		break;
	case 3:
		at[1] += below(17) - 8ull;
		break;
	case 4:
		at[1] += (below(17) - 8ull) << 32;
		break;
	case 5:
		((uint8_t *)at)[16 + below((uint32_t)words * 8)] = (uint8_t)below(2);
		break;
	case 6:
		at[1] = (uint64_t)below(ROOM) * 8 << 32 | below(100);
		break;
	case 7:
		at[0] -= 5ull << 24;
		break;
	default:
		at[0] += (1ull << 39) << 24;
	}
}

/* Runs of one kind and of many, short events and long ones, whole and spoiled ones. */
static void test_texts(void **unused)
{
	for (uint64_t id = 1; id < KINDS; id++) {
		event_type_learn(&text_types[id]);
		text_sizes[id] = WALK_KIND(text_types[id].fixed_end,
					   text_types[id].field_count - text_types[id].fixed_count);
	}
	for (size_t trial = 0; trial < TRIALS; trial++) {
		uint64_t words[ROOM] = { 0 }, clock = 1000, id = below(KINDS);
		size_t at = 0, last = 0, spoiled = trial % 2 ? below(20) : SIZE_MAX, n = 0;
		uint32_t change = below(4), longest = below(LONGEST), end = below(ROOM - 50);

		for (; at < end; at += last, n++) {
			id = change && !below(change * 4) ? below(KINDS) : id;
			clock += below(100);
			last = make_event(words + at, id, clock, longest);
			if (n == spoiled)
				spoil_event(words + at, last);
		}
		check_texts(words, at, 1000);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_fault_everywhere),
		cmocka_unit_test(test_long_gaps),
		cmocka_unit_test(test_texts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
