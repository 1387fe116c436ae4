/* Text of tables: numbers, padding, quotes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../src/options/table_text.h"
#include "control/base/error.h"

static struct strbuf buf;

static void assert_text(const char *expected)
{
	assert_false(buf.failed);
	assert_string_equal(buf.text, expected);
	strbuf_free(&buf);
}

static void test_numbers(void **state)
{
	text_unsigned(&buf, 0);
	text_add(&buf, " ");
	text_unsigned(&buf, UINT64_MAX);
	text_add(&buf, " ");
	text_signed(&buf, INT64_MIN);
	text_add(&buf, " ");
	text_signed(&buf, INT64_MAX);
	text_add(&buf, " ");
	text_signed(&buf, -1);
	assert_text("0 18446744073709551615 -9223372036854775808 9223372036854775807 -1");
}

static void test_padding(void **state)
{
	text_padded(&buf, 42, 9);
	text_add(&buf, " ");
	text_padded(&buf, 0, 2);
	text_add(&buf, " ");
	text_padded(&buf, 12345, 3);
	assert_text("000000042 00 12345");
}

static void test_bases(void **state)
{
	static const unsigned int bases[] = { 16, 8, 2 };

	for (size_t i = 0; i < 3; i++) {
		text_based(&buf, 0, bases[i]);
		text_add(&buf, " ");
		text_based(&buf, 0x1f, bases[i]);
		text_add(&buf, " ");
	}
	text_based(&buf, UINT64_MAX, 2);
	assert_text("0x0 0x1f 0 037 0b0 0b11111 "
		    "0b1111111111111111111111111111111111111111111111111111111111111111");
}

static void test_quotes(void **state)
{
	static const struct {
		const char *bytes;
		size_t length;
		const char *c, *json;
	} cases[] = {
		{ "", 0, "\"\"", "\"\"" },
		{ "plain", 5, "\"plain\"", "\"plain\"" },
		{ "a\"b\\c", 5, "\"a\\\"b\\\\c\"", "\"a\\\"b\\\\c\"" },
		{ "\n\t\r\b\f", 5, "\"\\n\\t\\r\\b\\f\"", "\"\\n\\t\\r\\b\\f\"" },
		{ "\0\x1b\x7f", 3, "\"\\x00\\x1b\\x7f\"", "\"\\u0000\\u001b\\u007f\"" },
		{ "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 9,
		  "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"",
		  "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"" },
		{ "\xc2\x9b", 2, "\"\\xc2\\x9b\"", "\"\\u009b\"" }, /* a terminal's CSI */
		{ "\xe2\x80\xae", 3, "\"\\xe2\\x80\\xae\"", "\"\\u202e\"" }, /* right to left */
		{ "\xf3\xa0\x80\x81", 4, "\"\\xf3\\xa0\\x80\\x81\"", "\"\\udb40\\udc01\"" },
		{ "\xff\xfe", 2, "\"\\xff\\xfe\"", "\"\\ufffd\\ufffd\"" },
		{ "\xc0\xaf", 2, "\"\\xc0\\xaf\"", "\"\\ufffd\\ufffd\"" }, /* longer than need be */
		{ "\xed\xa0\x80", 3, "\"\\xed\\xa0\\x80\"",
		  "\"\\ufffd\\ufffd\\ufffd\"" }, /* surrogate */
		{ "\xf4\x90\x80\x80", 4, "\"\\xf4\\x90\\x80\\x80\"",
		  "\"\\ufffd\\ufffd\\ufffd\\ufffd\"" },
		{ "x\xe2\x82", 3, "\"x\\xe2\\x82\"", "\"x\\ufffd\\ufffd\"" }, /* cut off */
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		/* Of its exact size, so that reading beyond it is seen. */
		char *bytes = test_malloc(cases[i].length ? cases[i].length : 1);

		memcpy(bytes, cases[i].bytes, cases[i].length);
		quote_c(&buf, bytes, cases[i].length);
		assert_text(cases[i].c);
		quote_json(&buf, bytes, cases[i].length);
		assert_text(cases[i].json);
		test_free(bytes);
	}
}

static void test_plain(void **state)
{
	static const char hostile[] = "a\x1b]0;x\a\n\xe2\x80\xae\xc2\x85\\b \xc3\xa9\xff";

	quote_plain(&buf, hostile, strlen(hostile));
	assert_string_equal(buf.text, "a\\x1b]0;x\\x07\\n\\xe2\\x80\\xae\\xc2\\x85\\b \xc3\xa9\\xff");
	struct strbuf again = { 0 };
	quote_plain(&again, buf.text, buf.length); /* stays as it is */
	assert_string_equal(again.text, buf.text);
	strbuf_free(&again);
	strbuf_free(&buf);
	quote_lines(&buf, "one\x1b\n two\n");
	assert_text("one\\x1b\n two\n");
}

/* Whatever the bytes are: no byte of the result acts on a terminal. */
static void test_any_bytes(void **state)
{
	uint32_t random = 1;

	for (unsigned i = 0; i < 100000; i++) {
		char bytes[8];

		for (size_t j = 0; j < sizeof(bytes); j++) {
			random = random * 1103515245 + 12345;
			bytes[j] = (char)(random >> 16);
		}
		buf.length = 0;
		quote_plain(&buf, bytes, sizeof(bytes));
		for (size_t j = 0; j < buf.length; j++) {
			unsigned char byte = (unsigned char)buf.text[j];

			assert_true(byte >= 0x20 && byte != 0x7f);
			assert_false(byte == 0xc2 && (unsigned char)buf.text[j + 1] < 0xa0);
		}
	}
	strbuf_free(&buf);
}

/* quote_format does what printf does, except for strings that aren't printable. */
#define SAME(...)                                                     \
	do {                                                          \
		char *expected_;                                      \
		assert_true(asprintf(&expected_, __VA_ARGS__) >= 0);  \
		quote_format(&buf, __VA_ARGS__);                      \
		assert_string_equal(buf.text, expected_);             \
		strbuf_free(&buf);                                    \
		free(expected_);                                      \
	} while (0)

static void test_format(void **state)
{
	SAME("nothing to do");
	SAME("100%% %s", "text");
	SAME("%d %i %u %x %X %o", -1, INT32_MIN, UINT32_MAX, 0xabcu, 0xabcu, 8u);
	SAME("%ld %lu %lx", -1L, UINT64_MAX, 255UL);
	SAME("%lld %llu %llx", (long long)INT64_MIN, (unsigned long long)UINT64_MAX, 255ULL);
	SAME("%zu %zx %zd %hhu %hd %hx", SIZE_MAX, (size_t)16, (ssize_t)-3, 255, -2, 0xffff);
	SAME("%5d|%-5d|%05d|%+d|% d|%#x|%.3d|%5.3d", 1, 2, 3, 4, 5, 6u, 7, 8);
	SAME("%012llx %7llu %*d %-*d", 255ULL, 3ULL, 6, 1, 6, 2);
	SAME("%f %.1f %.0f %g %.*g %9.4f%% %e", 1.5, 2.25, 3.5, 0.1, 17, 0.1, 99.5, 1e9);
	SAME("%10s|%-10s|%.2s|%.*s|%*s|%-*s|%c", "a", "b", "cde", 1, "xyz", 4, "q", 4, "r", 'z');
	quote_format(&buf, "%s\n%-4s|%c|%.*s", "a\nb", "\xc3\xa9", '\a', 2, "\x1b[31m");
	assert_text("a\\nb\n\xc3\xa9   |\\x07|\\x1b[");
}

static void test_errors(void **state)
{
	struct error *error = error_new(ERROR_FAILED, "'%s': no\n  %s", "a\x1b[2J\nb", "c");

	error = error_wrap(error, "%s", "d\n");
	assert_string_equal(error_text(error), "d\\n: 'a\\x1b[2J\\nb': no\n  c");
	struct error *other = error_repeat(error_kind(error), error_text(error));
	assert_string_equal(error_text(other), error_text(error));
	error_free(other);
	error_free(error);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_padding),
		cmocka_unit_test(test_bases),
		cmocka_unit_test(test_quotes),
		cmocka_unit_test(test_plain),
		cmocka_unit_test(test_any_bytes),
		cmocka_unit_test(test_format),
		cmocka_unit_test(test_errors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
