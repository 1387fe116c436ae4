/*
 * make_prototypes.c - run when dyntrace is built: make_prototypes PART... reads headers
 * that went through the preprocessor, and prints the prototypes of functions that are declared in
 * files whose path contains one of the PARTs. The output is what prototypes.c reads.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "c_declarations.h"

static char **parts;

static bool is_wanted(const struct c_function *function)
{
	size_t length = function->file ? strcspn(function->file, "\"") : 0;
	bool wanted = false;

	for (char **part = parts; *part && length; part++) {
		char path[4096];

		snprintf(path, sizeof(path), "%.*s", (int)length, function->file);
		wanted |= strstr(path, *part) != NULL;
	}
	return wanted && !function->is_static;
}

static bool print_one(void *context, const struct c_function *function)
{
	struct strbuf text = { 0 };

	(void)context;
	if (is_wanted(function) && c_function_is_plain(function)) {
		c_function_write(function, &text);
		puts(text.text ? text.text : "");
		strbuf_free(&text);
	}
	return true;
}

int main(int argc, char **argv)
{
	struct strbuf text = { 0 };
	char bytes[65536];
	size_t count;
	unsigned line;

	if (argc < 2)
		return 2;
	parts = argv + 1;
	while ((count = fread(bytes, 1, sizeof(bytes), stdin)) > 0)
		strbuf_add(&text, bytes, count);
	if (text.failed || !c_declarations_read(text.text ? text.text : "", print_one, NULL, &line))
		return 1;
	strbuf_free(&text);
	return 0;
}
