/*
 * The text that the agent makes of numbers and strings (target/lines) is what dyntrace itself makes
 * of them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "control/base/quote.h"
#include "control/lines/event_line.h"
#include "agent_text.h"

static uint64_t seed = 88172645463325252;

static uint64_t random_word(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static unsigned shorter;

static void check_real(uint64_t bits, uint32_t size)
{
	struct event_line line = { 0 };
	char text[64];

	if (size == 4)
		bits &= UINT32_MAX;
	event_line_float(&line, bits, size);
	text[agent_text_of_real(bits, size, text, sizeof(text) - 1)] = '\0';
	/* printf rounds to the nearest text of so many digits, which at a power of two may not read
	 * back although another one does: then the agent's is shorter. */
	if (strcmp(text, line.text.text)) {
		assert_true(strlen(text) < strlen(line.text.text));
		assert_true(size == 4 ? strtof(text, NULL) == strtof(line.text.text, NULL) :
					strtod(text, NULL) == strtod(line.text.text, NULL));
		shorter++;
	}
	strbuf_free(&line.text);
}

static void test_reals(void **unused)
{
	(void)unused;
	static const double known[] = { 0, 1, 0.1, 1e15, 1e16, 1e17, 1e22, 1e23, 5e-324, 1e-5, 1e-4,
					9007199254740993.0, 2.2250738585072014e-308, 1e100,
					1.7976931348623157e308, 123456.7, 0.3, 2.0 / 3 };
	uint64_t bits;

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		float single = (float)known[i];

		memcpy(&bits, &known[i], sizeof(bits));
		check_real(bits, 8);
		check_real(bits | 1ULL << 63, 8);
		bits = 0;
		memcpy(&bits, &single, sizeof(single));
		check_real(bits, 4);
	}
	for (unsigned exponent = 0; exponent < 0x7ff; exponent++) { /* edges: a power of two */
		check_real((uint64_t)exponent << 52, 8);
		check_real(((uint64_t)exponent << 52) + 1, 8);
		check_real(((uint64_t)(exponent + 1) << 52) - 1, 8);
	}
	for (unsigned exponent = 0; exponent < 0xff; exponent++)
		check_real((uint64_t)exponent << 23, 4);
	check_real(0x7ffULL << 52, 8);
	check_real(0xfffULL << 52, 8);
	check_real((0x7ffULL << 52) + 1, 8);
	assert_true(shorter < 100); /* of 7,000 edges */
	shorter = 0;
	for (int i = 0; i < 20000; i++) {
		check_real(random_word(), 8);
		check_real(random_word(), 4);
	}
	assert_int_equal(shorter, 0);
}

static void check_string(const char *bytes, size_t length)
{
	struct strbuf expected = { 0 };
	char text[1024];

	quote_c(&expected, bytes, length);
	size_t made = agent_text_of_string(bytes, length, text, sizeof(text));
	assert_int_equal(made, expected.length);
	assert_memory_equal(text, expected.text, made);
	strbuf_free(&expected);
}

static void test_strings(void **unused)
{
	(void)unused;
	static const char pieces[] = "ab\"\\\n\t\r\b\f\x01\x7f\xc3\xa9\xe2\x80\xae\xf0\x9f\x98\x80"
				     "\xff\xed\xa0\x80\xf4\x90\xc0\xef\xbb\xbf\xf3\xa0\x80\x81";
	char bytes[40];

	check_string("", 0);
	check_string(pieces, sizeof(pieces) - 1);
	for (int i = 0; i < 50000; i++) {
		size_t length = random_word() % sizeof(bytes);

		for (size_t j = 0; j < length; j++)
			bytes[j] = random_word() % 4 ?
					   pieces[random_word() % (sizeof(pieces) - 1)] :
					   (char)(random_word() % 255 + 1);
		check_string(bytes, length);
	}
}

static void test_cut(void **unused)
{
	(void)unused;
	char text[8];

	/* pieces are whole: no half of a character, and nothing after the first that didn't fit */
	assert_int_equal(agent_text_of_string("abcde\xc3\xa9", 7, text, 7), 6);
	assert_memory_equal(text, "\"abcde", 6);
	assert_int_equal(agent_text_of_real(0x3fb999999999999aULL, 8, text, 2), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_reals),
					    cmocka_unit_test(test_strings),
					    cmocka_unit_test(test_cut) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
