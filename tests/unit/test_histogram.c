/* Log-linear histograms: buckets without gaps, values within their bound, quantiles as counted by
 * hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "control/record/histogram.h"
#include "shared/layout.h"

#define BITS DT_BUCKET_BITS

static void test_buckets_follow_each_other(void **state)
{
	uint32_t last = histogram_bucket(0, BITS);

	assert_int_equal(last, 0);
	for (uint64_t value = 1; value < 1u << 16; value++) {
		uint32_t bucket = histogram_bucket(value, BITS);

		assert_true(bucket == last || bucket == last + 1);
		last = bucket;
	}
	for (unsigned shift = 1; shift < 64; shift++)
		assert_true(histogram_bucket(1ULL << shift, BITS) >
				    histogram_bucket((1ULL << shift) - 1, BITS) ||
			    shift <= 0);
	assert_int_equal(histogram_bucket(UINT64_MAX, BITS), DT_BUCKETS - 1);
}

/* The middle of a bucket is within 1 / 128 of all that is in it; small values are exact. */
static void test_middle_is_near(void **state)
{
	uint64_t random = 1;

	for (uint64_t value = 0; value < 2u << BITS; value++)
		assert_int_equal(histogram_middle(histogram_bucket(value, BITS), BITS), value);
	for (int i = 0; i < 200000; i++) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		uint64_t value = random >> (random >> 58);
		uint64_t middle = histogram_middle(histogram_bucket(value, BITS), BITS);
		uint64_t distance = middle > value ? middle - value : value - middle;

		assert_true(distance <= value >> (BITS + 1));
	}
}

static int by_value(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void test_quantiles(void **state)
{
	static uint64_t counts[DT_BUCKETS], values[10001];
	static const double shares[] = { 0, 0.01, 0.5, 0.9, 0.99, 1 };
	uint64_t random = 7;

	for (size_t i = 0; i < 10001; i++) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		values[i] = (random >> 40) * (random >> 60);
		counts[histogram_bucket(values[i], BITS)]++;
	}
	qsort(values, 10001, sizeof(values[0]), by_value);
	struct histogram histogram = { BITS, counts, DT_BUCKETS, 10001, values[10000] };
	for (size_t i = 0; i < sizeof(shares) / sizeof(shares[0]); i++) {
		size_t rank = (size_t)(10001 * shares[i]);
		uint64_t exact = values[rank < 10001 ? rank : 10000],
			 found = histogram_quantile(&histogram, shares[i]);

		assert_true(found <= exact + exact / 100 && found + exact / 100 >= exact);
	}
	assert_true(histogram_quantile(&histogram, 1) <= values[10000]);
}

static void test_few(void **state)
{
	uint64_t counts[DT_BUCKETS] = { 0 };
	struct histogram histogram = { BITS, counts, DT_BUCKETS, 0, 0 };

	assert_int_equal(histogram_quantile(&histogram, 0.5), 0);
	counts[histogram_bucket(1000000, BITS)] = 1;
	histogram.total = 1;
	histogram.max = 1000000;
	assert_true(histogram_quantile(&histogram, 0.01) <= 1000000 &&
		    histogram_quantile(&histogram, 0.01) > 990000);
	assert_int_equal(histogram_quantile(&histogram, 0.5), histogram_quantile(&histogram, 0.99));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_buckets_follow_each_other),
		cmocka_unit_test(test_middle_is_near),
		cmocka_unit_test(test_quantiles),
		cmocka_unit_test(test_few),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
