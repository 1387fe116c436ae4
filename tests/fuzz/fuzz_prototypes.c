/*
 * Prototypes: any text as C declarations. What is read can be written and read again, to the same
 * declarations.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "control/prototypes/prototypes.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct strbuf line = { 0 }, again = { 0 };
	char *text = strndup((const char *)bytes, size);
	struct error *error = text ? prototypes_shorten(text, &line) : NULL;

	if (text && !error && line.text) {
		error = prototypes_shorten(line.text, &again);
		if (error || strcmp(line.text, again.text) != 0)
			__builtin_trap();
	}
	error_free(error);
	strbuf_free(&line);
	strbuf_free(&again);
	free(text);
	return 0;
}
