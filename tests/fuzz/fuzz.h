/*
 * fuzz.h - the entry function that each fuzzer defines, and the few words that all need.
 */
#ifndef DYNTRACE_TESTS_FUZZ_H
#define DYNTRACE_TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* What must hold, whatever the input. */
#define REQUIRE(what) ((what) ? (void)0 : fuzz_fail(__FILE__, __LINE__, #what))

static inline void fuzz_fail(const char *file, int line, const char *what)
{
	fprintf(stderr, "%s:%d: not so: %s\n", file, line, what);
	abort();
}

/* The input that isn't used yet. */
struct fuzz_input {
	const uint8_t *bytes;
	size_t size;
};

/* Takes up to `size` bytes; gives how many it were. */
static inline size_t fuzz_take(struct fuzz_input *input, void *to, size_t size)
{
	if (size > input->size)
		size = input->size;
	if (size)
		memcpy(to, input->bytes, size);
	input->bytes += size;
	input->size -= size;
	return size;
}

/* The next byte; 0 at the end. */
static inline uint8_t fuzz_byte(struct fuzz_input *input)
{
	uint8_t byte = 0;

	fuzz_take(input, &byte, 1);
	return byte;
}

/* The rest as a string of exactly its length, so that ASan sees what is read beyond. Caller
 * frees. */
static inline char *fuzz_text(const struct fuzz_input *input)
{
	char *text = malloc(input->size + 1);

	REQUIRE(text);
	if (input->size)
		memcpy(text, input->bytes, input->size);
	text[input->size] = '\0';
	return text;
}

#endif
