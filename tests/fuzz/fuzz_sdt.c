/*
 * Arguments of static markers: any text. Parsed values are within the bounds of their types, and
 * the walk ends.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "control/elf/sdt.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void require(bool holds)
{
	if (!holds)
		__builtin_trap();
}

static bool find(void *context, const char *name, uint64_t *ret_address)
{
	(void)context;
	*ret_address = 0x1000;
	return strchr("st", name[0]) != NULL;
}

static void check(const struct sdt_argument *a)
{
	if (a->kind == SDT_UNKNOWN)
		return;
	require(a->size == 1 || a->size == 2 || a->size == 4 || a->size == 8);
	require(a->reg < 16 && a->shift <= 1);
	require(a->base < 16 || a->base == SDT_NO_REGISTER);
	require(a->index < 16 || a->index == SDT_NO_REGISTER);
	require(a->scale == 1 || a->scale == 2 || a->scale == 4 || a->scale == 8);
	require(!a->shift || (a->kind == SDT_REGISTER && a->size == 1));
	require(!a->is_float || (a->size >= 4 && !a->is_signed));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct sdt_symbols symbols = { find, NULL };
	struct sdt_argument argument;
	char *text = malloc(size + 1);
	const char *rest = text;

	require(text != NULL);
	memcpy(text, bytes, size);
	text[size] = '\0';
	for (size_t length = strlen(rest); sdt_next_argument(&rest, &symbols, &argument);
	     length = strlen(rest)) {
		check(&argument);
		require(strlen(rest) < length);
	}
	free(text);
	return 0;
}
