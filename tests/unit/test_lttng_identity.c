/* The words of the tracer's argument, which tell LTTng of events. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "control/base/cleanup.h"
#include "control/event/lttng_identity.h"

static void test_words(void **state)
{
	struct lttng_identity identity;
	size_t length;

	(void)state;
	assert_null(lttng_identity_parse(NULL, &identity));
	assert_false(identity.typed || identity.enabled);
	assert_int_equal(identity.loglevel, LTTNG_NO_LEVEL);
	assert_null(lttng_identity_next_hidden(&identity, NULL, &length));
	assert_null(lttng_identity_parse("nowrite=a,typed,loglevel=trace_Debug_Line,nowrite=bc,enabled",
					 &identity));
	assert_true(identity.typed && identity.enabled);
	assert_int_equal(identity.loglevel, 13);
	assert_true(lttng_identity_hides(&identity, "a"));
	assert_true(lttng_identity_hides(&identity, "bc"));
	assert_false(lttng_identity_hides(&identity, "b"));
	assert_false(lttng_identity_hides(&identity, "typed"));
}

static void test_refusals(void **state)
{
	static const char *const wrong[] = { "",	  "type",     "typed,", "loglevel=",
					     "loglevel=x", "nowrite=", "typed,,enabled" };

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct lttng_identity identity;
		_cleanup_error_ struct error *error = lttng_identity_parse(wrong[i], &identity);

		assert_non_null(error);
		assert_int_equal(error_kind(error), ERROR_USAGE);
	}
}

static void test_levels_and_providers(void **state)
{
	int level;

	(void)state;
	assert_null(lttng_identity_level("EMERG", &level));
	assert_int_equal(level, 0);
	assert_null(lttng_identity_level("debug", &level));
	assert_int_equal(level, 14);
	assert_int_equal(lttng_identity_provider("shop:order"), 4);
	assert_int_equal(lttng_identity_provider("ns::f"), 0);
	assert_int_equal(lttng_identity_provider("order"), 0);
	assert_int_equal(lttng_identity_provider("order:"), 0);
	assert_int_equal(lttng_identity_provider(":order"), 0);
	assert_int_equal(lttng_identity_provider("a:b::c"), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_words),
					    cmocka_unit_test(test_refusals),
					    cmocka_unit_test(test_levels_and_providers) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
