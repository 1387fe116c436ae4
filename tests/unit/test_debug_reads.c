/*
 * Reads of debug information fail, one after the other: what is found is right, or nothing is.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "control/base/cleanup.h"
#include "control/base/vec.h"
#include "control/dwarf/debug.h"

#define READS_MAX 100

static volatile int sink;
static unsigned reads, failing; /* counted from 1 */

/* Both can be called from elsewhere: then nothing but their names tells them apart. */
void twice_inlined(int n);
void one_caller(void);

inline __attribute__((always_inline)) void twice_inlined(int n)
{
	sink += n * sink;
}

__attribute__((noinline)) void one_caller(void)
{
	twice_inlined(3);
}

__attribute__((noinline)) static void other_caller(void)
{
	sink++;
	twice_inlined(5);
}

/* In front of libc's. */
ssize_t pread(int fd, void *to, size_t size, off_t from)
{
	if (++reads == failing) {
		errno = EIO;
		return -1;
	}
	return syscall(SYS_pread64, fd, to, size, from);
}

/* A function without inlined copies has none, whatever its name seems to be. */
static void check_plain(struct debug *debug)
{
	extern const char __executable_start;
	uint64_t address = (uint64_t)(uintptr_t)one_caller - (uint64_t)&__executable_start;
	struct debug_addresses copies = { 0 };
	struct debug_function function;

	if (debug_function_at(debug, address, &function))
		debug_find_inlined(debug, &function, "one_caller", &copies);
	assert_int_equal(copies.count, 0);
}

/* The copies of the inlined function; 0: it wasn't found. */
static size_t find(unsigned fails, uint64_t addresses[2])
{
	_cleanup_close_ int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct debug_addresses copies = { 0 };
	struct debug *debug = NULL;
	size_t count;

	reads = 0;
	failing = fails;
	error_free(debug_open(fd, "/proc/self/exe", &debug));
	if (debug) {
		debug_find_inlined(debug, NULL, "twice_inlined", &copies);
		check_plain(debug);
	}
	failing = 0;
	count = copies.count;
	for (size_t i = 0; i < count && i < 2; i++)
		addresses[i] = copies.items[i].address;
	vec_free(&copies);
	debug_close(debug);
	return count;
}

static void test_each_read_fails(void **unused)
{
	uint64_t expected[2], found[2];
	unsigned count, right = 0;

	(void)unused;
	one_caller();
	other_caller();
	assert_int_equal(find(0, expected), 2);
	count = reads;
	assert_in_range(count, 5, READS_MAX);
	for (unsigned i = 1; i <= count; i++) {
		size_t copies = find(i, found);

		if (!copies)
			continue;
		assert_int_equal(copies, 2);
		assert_memory_equal(found, expected, sizeof(found));
		right++;
	}
	assert_true(right > 0); /* libdw reads itself what was refused once */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_read_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
