/* Options: every form, lists, sizes, times, refusals, suggestions. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "../../src/options/options.h"
#include "../../src/options/suggest.h"
#include "../../src/control/base/cleanup.h"

enum tag { PROBE = 7, FUNCTION = 9 };

static struct {
	bool exit, all;
	const char *output;
	struct option_values what;
	uint64_t size;
	double seconds;
	int mode;
	int handled;
} args;

static struct error *handle_number(const char *text)
{
	if (strcmp(text, "good"))
		return error_new(ERROR_USAGE, "'%s' is bad", text);
	args.handled++;
	return NULL;
}

static const char *const modes[] = { "discard", "overwrite", "block", NULL };

static const struct option_spec options[] = {
	{ 'e', "exit", NULL, "help", .flag = &args.exit },
	{ 'a', NULL, NULL, "help", .flag = &args.all },
	{ 'o', "output", "DIR", "help", .string = &args.output },
	{ 0, "probe", "LOC", "help", .list = &args.what, .tag = PROBE },
	{ 'f', "function", "LOC", "help", .list = &args.what, .tag = FUNCTION },
	{ 0, "buffer-size", "SIZE", "help", .size = &args.size },
	{ 0, "for", "SECONDS", "help", .seconds = &args.seconds },
	{ 0, "mode", "discard|overwrite|block", "help", .choice = &args.mode, .choices = modes },
	{ 0, "special", "WORD", "help", .handle = handle_number },
	OPTION_MEANT("duration", "--for"),
	{ 0 },
};

static int reset(void **state)
{
	vec_free(&args.what);
	memset(&args, 0, sizeof(args));
	return 0;
}

/* Parses the strings up to NULL. */
#define PARSE(keep_rest, words, ...)                                                               \
	({                                                                                         \
		static char *argv_[] = { __VA_ARGS__, NULL };                                      \
		options_parse(options, keep_rest, (int)(sizeof(argv_) / sizeof(*argv_)) - 1,       \
			      argv_, words);                                                       \
	})

static void assert_usage_error(struct error *error, const char *text)
{
	assert_non_null(error);
	assert_string_equal(error_text(error), text);
	assert_int_equal(error_kind(error), ERROR_USAGE);
	error_free(error);
}

#define ASSERT_REFUSED(text, ...)                                                                  \
	do {                                                                                       \
		struct words words_ = { .count = 77 };                                             \
		assert_usage_error(PARSE(true, &words_, __VA_ARGS__), text);                       \
		assert_int_equal(words_.count, 77); /* untouched */                                \
	} while (0)

static void test_every_form(void **state)
{
	_cleanup_(words_free) struct words words = { 0 };

	assert_null(PARSE(true, &words, "one", "-e", "--output", "d1", "two", "-od2",
			  "--buffer-size=64M", "--for", "0.5", "--mode=block", "--special", "good",
			  "-"));
	assert_true(args.exit);
	assert_false(args.all);
	assert_string_equal(args.output, "d2");
	assert_int_equal(args.size, 64 << 20);
	assert_true(args.seconds == 0.5);
	assert_int_equal(args.mode, 2);
	assert_int_equal(args.handled, 1);
	assert_int_equal(words.count, 3);
	assert_string_equal(words.items[0], "one");
	assert_string_equal(words.items[1], "two");
	assert_string_equal(words.items[2], "-");
	assert_null(words.rest);
	assert_false(words.help);
}

static void test_letters_together(void **state)
{
	_cleanup_(words_free) struct words words = { 0 };

	assert_null(PARSE(true, &words, "-aeo", "dir", "-o="));
	assert_true(args.exit && args.all);
	assert_string_equal(args.output, "=");
	assert_int_equal(words.count, 0);
}

static void test_lists_keep_the_order(void **state)
{
	static const struct {
		enum tag tag;
		const char *text;
	} expected[] = { { FUNCTION, "a" },
			 { PROBE, "b" },
			 { FUNCTION, "--c" },
			 { PROBE, "" },
			 { FUNCTION, "d" } };
	_cleanup_(words_free) struct words words = { 0 };

	assert_null(PARSE(true, &words, "--function", "a", "--probe=b", "--function", "--c",
			  "--probe=", "-fd"));
	assert_int_equal(args.what.count, 5);
	for (size_t i = 0; i < 5; i++) {
		assert_int_equal(args.what.items[i].option->tag, expected[i].tag);
		assert_string_equal(args.what.items[i].text, expected[i].text);
	}
}

static void test_dashes(void **state)
{
	_cleanup_(words_free) struct words kept = { 0 }, joined = { 0 }, empty = { 0 };

	assert_null(PARSE(true, &kept, "word", "--", "ls", "-e", "--help", "--"));
	assert_int_equal(kept.count, 1);
	assert_string_equal(kept.rest[0], "ls");
	assert_string_equal(kept.rest[1], "-e");
	assert_string_equal(kept.rest[2], "--help");
	assert_string_equal(kept.rest[3], "--");
	assert_null(kept.rest[4]);
	assert_false(args.exit || kept.help);

	assert_null(PARSE(false, &joined, "word", "--", "-e"));
	assert_int_equal(joined.count, 2);
	assert_string_equal(joined.items[1], "-e");
	assert_null(joined.rest);
	assert_false(args.exit);

	assert_null(PARSE(true, &empty, "--"));
	assert_non_null(empty.rest);
	assert_null(empty.rest[0]);
}

static void test_help(void **state)
{
	_cleanup_(words_free) struct words first = { 0 }, second = { 0 };

	assert_null(PARSE(true, &first, "--help", "--nonsense"));
	assert_true(first.help);
	assert_null(PARSE(true, &second, "-eh"));
	assert_true(second.help);
}

static void test_refusals(void **state)
{
	ASSERT_REFUSED("unknown option '--fro' (did you mean '--for'?)", "--fro", "1");
	ASSERT_REFUSED("unknown option '--func' (did you mean '--function'?)", "--func=x");
	ASSERT_REFUSED("unknown option '-xit' (did you mean '--exit'?)", "-xit");
	ASSERT_REFUSED("unknown option '-qwerty' (--help lists them)", "-qwerty");
	ASSERT_REFUSED("unknown option '-special' (did you mean '--special'?)", "-special");
	ASSERT_REFUSED("unknown option '-x' (--help lists them)", "-ex");
	ASSERT_REFUSED("unknown option '--zzzzzz' (--help lists them)", "--zzzzzz");
	ASSERT_REFUSED("option '--output' needs a value: DIR", "-e", "--output");
	ASSERT_REFUSED("option '-o' needs a value: DIR", "-o");
	ASSERT_REFUSED("option '--exit' takes no value", "--exit=1");
	ASSERT_REFUSED("option '--for': '-1' is not a time (2, 0.5, 200ms, 10s, 5m)", "--for",
		       "-1");
	ASSERT_REFUSED("option '--buffer-size': '0' is too small (leave the option out for its "
		       "default)",
		       "--buffer-size", "0");
	ASSERT_REFUSED("unknown option '--duration' (did you mean '--for'?)", "--duration", "1");
	ASSERT_REFUSED("unknown option '--durations' (--help lists them)", "--durations", "1");
	ASSERT_REFUSED("option '--mode': unknown value 'blok' (did you mean 'block'?)", "--mode",
		       "blok");
	ASSERT_REFUSED("option '--mode': unknown value 'q' (one of discard, overwrite, block)",
		       "--mode", "q");
	ASSERT_REFUSED("option '--special': 'x' is bad", "--special=x");
}

static void test_sizes(void **state)
{
	static const struct {
		const char *text;
		uint64_t size;
	} good[] = {
		{ "0", 0 },
		{ "4096", 4096 },
		{ "0x10", 16 },
		{ "1k", 1024 },
		{ "64M", 64ULL << 20 },
		{ "3G", 3ULL << 30 },
		{ "1T", 1ULL << 40 },
		{ "16777215T", 16777215ULL << 40 },
	};
	static const char *const bad[] = { "",	  "M",	 "-1",	 " 1",
					   "1 M", "1MB", "1.5G", "99999999999999999999",
					   "x" };
	uint64_t size = 5;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		_cleanup_error_ struct error *error = options_size(bad[i], &size);

		assert_non_null(error);
		assert_int_equal(size, 5);
	}
	assert_usage_error(options_size("16777216T", &size), "'16777216T' is too large");
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		assert_null(options_size(good[i].text, &size));
		assert_int_equal(size, good[i].size);
	}
}

static void test_seconds(void **state)
{
	static const char *const bad[] = { "", "0", "-2", "nan", "inf", "1x", "1e999", "two", "s", "1 s" };
	static const struct {
		const char *text;
		double seconds;
	} good[] = { { "2.25", 2.25 }, { "1s", 1 },  { "200ms", 0.2 }, { "5us", 5e-6 },
		     { "1.5ms", 1.5e-3 }, { "3m", 180 }, { "2min", 120 }, { "0.5h", 1800 } };
	double seconds = 5;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		_cleanup_error_ struct error *error = options_seconds(bad[i], &seconds);

		assert_non_null(error);
		assert_true(seconds == 5);
	}
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		assert_null(options_seconds(good[i].text, &seconds));
		assert_true(fabs(seconds - good[i].seconds) < 1e-12);
	}
}

static const char *nearest(const char *typed)
{
	static const char *const words[] = { "trace", "view", "list-symbols", "list-markers",
					     "help" };
	struct suggestion near = { .typed = typed };

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		suggest_offer(&near, words[i]);
	return near.best ? near.best : "";
}

static void test_suggestions(void **state)
{
	char endless[300];

	assert_string_equal(nearest("trcae"), "trace"); /* swapped */
	assert_string_equal(nearest("veiw"), "view");
	assert_string_equal(nearest("viewe"), "view");
	assert_string_equal(nearest("list-symbol"), "list-symbols");
	assert_string_equal(nearest("list-marker"), "list-markers");
	assert_string_equal(nearest("listsymbols"), "list-symbols");
	assert_string_equal(nearest("lis"), "list-symbols");
	assert_string_equal(nearest("record"), "");
	assert_string_equal(nearest(""), "");
	memset(endless, 'v', sizeof(endless));
	endless[sizeof(endless) - 1] = '\0';
	assert_string_equal(nearest(endless), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_every_form, reset),
		cmocka_unit_test_setup(test_letters_together, reset),
		cmocka_unit_test_setup(test_lists_keep_the_order, reset),
		cmocka_unit_test_setup(test_dashes, reset),
		cmocka_unit_test_setup(test_help, reset),
		cmocka_unit_test_setup(test_refusals, reset),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_seconds),
		cmocka_unit_test(test_suggestions),
	};

	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	reset(NULL);
	return failed;
}
