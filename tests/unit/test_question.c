/* Questions to calls: the words of --by and --of; distributions of values with a sign. O4, O5 and
 * O6 are tested by tests/e2e/test_report_by.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "control/base/cleanup.h"
#include "control/event/question.h"
#include "control/record/distribution.h"

static void test_words(void **state)
{
	static const enum question_kind kinds[] = { QUESTION_EXPRESSION, QUESTION_TID,
						    QUESTION_EXPRESSION, QUESTION_BACKTRACE,
						    QUESTION_RET };
	static const char *const texts[] = { "size", "$tid", "f(a, \"),\") + b[1,2]", "backtrace:5",
					     "$ret" };
	struct question question;

	assert_null(question_parse("size, $tid ,f(a, \"),\") + b[1,2],backtrace:5,$ret", "self",
				   &question));
	assert_int_equal(question.key_count, 5);
	for (size_t i = 0; i < 5; i++) {
		assert_int_equal(question.keys[i].kind, kinds[i]);
		assert_string_equal(question.keys[i].text, texts[i]);
	}
	assert_int_equal(question.keys[3].frames, 5);
	assert_int_equal(question.value.kind, QUESTION_SELF);
	question_free(&question);
	assert_null(question_parse(NULL, NULL, &question));
	assert_int_equal(question.key_count, 0);
	assert_null(question.value.text);
}

static void test_refusals(void **state)
{
	static const struct {
		const char *by, *of, *error;
	} cases[] = {
		{ "a,", NULL, "--by: an empty word (give a field, $tid, ret, caller, ...)" },
		{ "", NULL, "--by: an empty word (give a field, $tid, ret, caller, ...)" },
		{ NULL, " ", "--of: an empty word (give duration, self, ret or a numeric field)" },
		{ "duration", NULL, "--by: 'duration' is no key (--of duration sums it up)" },
		{ NULL, "$comm", "--of: '$comm' is no value (--by $comm groups by it)" },
		{ "backtrace:0", NULL, "--by: 'backtrace:0': give 1 to 127 frames" },
		{ "backtrace:x", NULL, "--by: 'backtrace:x': give 1 to 127 frames" },
		{ "a,b,c,d,e,f,g,h,i", NULL, "--by: at most 8 keys" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct question question;
		_cleanup_error_ struct error *error =
			question_parse(cases[i].by, cases[i].of, &question);

		assert_non_null(error);
		assert_int_equal(error_kind(error), ERROR_USAGE);
		assert_string_equal(error_text(error), cases[i].error);
	}
}

static int by_value(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

#define COUNT 10001

/* Each value is in the bar that says so, and percentiles are those of the sorted values. */
static void check_values(int64_t *values, size_t count)
{
	static const double shares[] = { 0, 0.01, 0.5, 0.9, 0.99, 1 };
	struct distribution_bar bars[DISTRIBUTION_BARS_MAX];
	struct distribution all = { 0 }, parts[2] = { 0 };

	for (size_t i = 0; i < count; i++)
		assert_true(distribution_add(&parts[i % 2], values[i], 1));
	assert_true(distribution_merge(&all, &parts[0]) && distribution_merge(&all, &parts[1]));
	qsort(values, count, sizeof(values[0]), by_value);
	assert_int_equal(all.count, count);
	assert_true(all.min == values[0] && all.max == values[count - 1]);
	for (size_t i = 0; i < sizeof(shares) / sizeof(shares[0]); i++) {
		size_t rank = (size_t)((double)count * shares[i]);
		double exact = (double)values[rank < count ? rank : count - 1],
		       found = (double)distribution_quantile(&all, shares[i]),
		       bound = (exact < 0 ? -exact : exact) / 60;

		assert_true(found <= exact + bound && found >= exact - bound);
	}
	for (int linear = 0; linear < 2; linear++) {
		unsigned n = distribution_bars(&all, linear, bars);
		size_t at = 0;

		for (unsigned i = 0; i < n; i++) {
			uint64_t inside = 0;

			assert_true(i == 0 || bars[i].low == bars[i - 1].high);
			while (at < count && (values[at] < bars[i].high || i + 1 == n)) {
				assert_true(values[at++] >= bars[i].low);
				inside++;
			}
			assert_int_equal(bars[i].count, inside);
		}
		assert_int_equal(at, count);
		assert_true(!linear || n <= 42);
	}
	for (size_t i = 0; i < 2; i++)
		distribution_free(&parts[i]);
	distribution_free(&all);
}

static void test_distributions(void **state)
{
	static int64_t values[COUNT];
	uint64_t random = 3;

	for (unsigned shift = 1; shift < 62; shift += 3)
		for (int sign = -1; sign <= 1; sign++) {
			for (size_t i = 0; i < COUNT; i++) {
				random = random * 6364136223846793005u + 1442695040888963407u;
				int64_t value = (int64_t)((random >> 2) >> shift);

				values[i] = sign < 0 || (!sign && random & 1) ? -value : value;
			}
			check_values(values, COUNT);
		}
	check_values((int64_t[]){ INT64_MAX, INT64_MIN + 2, 0, -1, 1 }, 5);
	check_values((int64_t[]){ 1000, 1020, 1019, 1000 }, 4);
	check_values((int64_t[]){ 7 }, 1);
}

/* More than 2^32 values of one size: a function that is left counted for an hour. */
static void test_very_many_values(void **state)
{
	(void)state;
	struct distribution all = { 0 }, part = { 0 };
	uint64_t many = 1ULL << 33, count;
	uint32_t at = 0;
	int64_t value;

	assert_true(distribution_add(&part, 10, many) && distribution_add(&part, 10, many) &&
		    distribution_add(&part, 20, 1));
	assert_true(distribution_merge(&all, &part) && distribution_merge(&all, &part));
	assert_true(distribution_next(&all, &at, &value, &count));
	assert_true(value == 10 && count == 4 * many);
	assert_true(distribution_next(&all, &at, &value, &count) && count == 2);
	assert_int_equal(distribution_quantile(&all, 0.99), 10);
	assert_int_equal(all.count, 4 * many + 2);
	distribution_free(&part);
	distribution_free(&all);
}

static void test_no_values(void **state)
{
	struct distribution_bar bars[DISTRIBUTION_BARS_MAX];
	struct distribution none = { 0 };

	assert_int_equal(distribution_quantile(&none, 0.5), 0);
	assert_int_equal(distribution_mean(&none), 0);
	assert_int_equal(distribution_bars(&none, true, bars), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_distributions),
		cmocka_unit_test(test_very_many_values),
		cmocka_unit_test(test_no_values),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
