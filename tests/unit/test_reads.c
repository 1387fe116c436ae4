/*
 * The routines that copy texts for trampolines (shared/reads.h): what they write, and when they
 * leave a text to the agent.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "shared/layout.h"

void dt_read_text(void);
void dt_read_bytes(void);

static uint64_t pages[DT_PAGES];
static char image[512] __attribute__((aligned(16)));

static void know(const void *at)
{
	uint64_t page = (uint64_t)at / DT_PAGE;

	pages[page % DT_PAGES] = (page + 1) * DT_PAGE;
}

/* As a trampoline: the bytes that were written from `offset` on; -1: gave up. */
static long read_by(void (*routine)(void), const char *from, uint64_t length, uint32_t most,
		    size_t offset)
{
	uint64_t rsi = length, rdi = most;
	bool done;

	memset(image, '#', sizeof(image));
	/* no call comes between these and their use */
	register const char *r10 __asm__("r10") = from;
	register char *r9 __asm__("r9") = image + offset;
	__asm__ volatile("leaq -256(%%rsp), %%rsp\n\tcall *%6\n\tleaq 256(%%rsp), %%rsp"
			 : "=@ccc"(done), "+r"(r10), "+r"(r9), "+S"(rsi), "+D"(rdi)
			 : "b"(pages), "d"(routine)
			 : "rax", "rcx", "r8", "r11", "memory");
	return done ? r9 - image - (long)offset : -1;
}

static void test_no_string(void **state)
{
	for (unsigned known = 0; known < 2; known++) {
		for (size_t offset = 0; offset < 16; offset++) {
			assert_int_equal(read_by(dt_read_text, NULL, 0, 255, offset), 7);
			assert_string_equal(image + offset, "(null)");
			assert_int_equal(image[offset + 7], '#');
			assert_int_equal(read_by(dt_read_bytes, NULL, 5, 255, offset), 7);
			assert_string_equal(image + offset, "(null)");
			/* also where a string would be too long */
			assert_int_equal(read_by(dt_read_bytes, NULL, ~0ULL, 255, offset), 7);
			assert_int_equal(read_by(dt_read_bytes, NULL, 0, 255, offset), 1);
			assert_string_equal(image + offset, "");
		}
		pages[0] = DT_PAGE; /* somebody has read from there */
	}
	pages[0] = 0;
}

static void test_strings(void **state)
{
	static const char text[DT_PAGE] __attribute__((aligned(4096))) = "twenty bytes of text";

	assert_int_equal(read_by(dt_read_text, text, 0, 255, 3), -1); /* the page isn't known */
	know(text);
	assert_int_equal(read_by(dt_read_text, text, 0, 255, 3), 21);
	assert_string_equal(image + 3, text);
	assert_int_equal(read_by(dt_read_text, text, 0, 20, 0), 21);
	assert_int_equal(read_by(dt_read_text, text, 0, 19, 0), -1); /* too long */
	assert_int_equal(read_by(dt_read_bytes, text, 6, 255, 1), 7);
	assert_string_equal(image + 1, "twenty");
	assert_int_equal(read_by(dt_read_bytes, text, 6, 5, 1), -1);
	assert_int_equal(read_by(dt_read_bytes, text, (1ULL << 32) + 6, 255, 1), -1);
	assert_int_equal(read_by(dt_read_bytes, text, 1ULL << 32, 255, 1), -1);
	assert_int_equal(read_by(dt_read_bytes, text, 21, 255, 1), -1); /* a NUL inside */
	assert_int_equal(read_by(dt_read_bytes, "", 0, 255, 1), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_string),
		cmocka_unit_test(test_strings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
