/* Runs only the tests that DYNTRACE_TEST_ONLY names (a glob with * and ?): for tests/mutants. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

__attribute__((constructor)) static void choose_tests(void)
{
	const char *only = getenv("DYNTRACE_TEST_ONLY");

	if (only)
		cmocka_set_test_filter(only);
}
