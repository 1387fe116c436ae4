/* Text of tables: numbers, padding, quotes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "../../src/options/table_text.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_padding),
		cmocka_unit_test(test_bases),
		cmocka_unit_test(test_quotes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
