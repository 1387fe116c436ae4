/*
 * gdb_values.c - print a file with @NAME@ replaced by offsets of the shared layout. The build runs
 * it, so that the script for gdb always fits the agent.
 */
#include <stdio.h>
#include <string.h>

#include "../src/shared/frame.h"
#include "../src/shared/returns.h"

static const struct {
	const char *name;
	size_t value;
} values[] = {
	{ "@RETURNS@", offsetof(struct dt_control, returns) },
	{ "@STUBS@", offsetof(struct dt_control, stubs) },
	{ "@STUB_COUNT@", offsetof(struct dt_control, stub_count) },
	{ "@SLOTS@", offsetof(struct dt_returns, slots) },
	{ "@SLOT_SIZE@", sizeof(struct dt_return_slot) },
	{ "@STUB_SIZE@", DT_STUB_SIZE },
	{ "@STUB_LANDING@", DT_STUB_LANDING },
	{ "@FRAME_CHECK@", DT_FRAME_CHECK },
	{ "@FRAME_RETURNS@", DT_FRAME_RETURNS },
	{ "@FRAME_KEPT@", DT_FRAME_KEPT },
};

/* Prints the text up to the next name, and its value; gives the rest. NULL: no name was left. */
static const char *print_to_name(const char *text)
{
	const char *at = strchr(text, '@');

	for (; at; at = strchr(at + 1, '@')) {
		for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
			size_t length = strlen(values[i].name);

			if (strncmp(at, values[i].name, length))
				continue;
			printf("%.*s%zu", (int)(at - text), text, values[i].value);
			return at + length;
		}
	}
	fputs(text, stdout);
	return NULL;
}

int main(int argc, char **argv)
{
	FILE *file = argc > 1 ? fopen(argv[1], "r") : NULL;
	char line[512];

	if (!file)
		return 1;
	while (fgets(line, sizeof(line), file)) {
		for (const char *rest = line; rest;)
			rest = print_to_name(rest);
	}
	fclose(file);
	return 0;
}
