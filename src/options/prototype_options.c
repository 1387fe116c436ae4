#include "prototype_options.h"

#include <errno.h>
#include <stdio.h>

#include "control/prototypes/prototypes.h"

const char *const floats_choices[] = { "none", "float", "double", NULL };

uint8_t floats_size(int choice)
{
	return choice == 2 ? sizeof(double) : choice == 1 ? sizeof(float) : 0;
}

#define FILE_MAX (4u << 20)

static struct error *read_file(const char *path, struct strbuf *text)
{
	FILE *file = fopen(path, "re");
	char bytes[4096];
	size_t count;

	if (!file)
		return error_errno(errno, "cannot open it");
	while ((count = fread(bytes, 1, sizeof(bytes), file)) > 0 && text->length < FILE_MAX)
		strbuf_add(text, bytes, count);
	int number = ferror(file) ? errno : 0;
	fclose(file);
	if (number)
		return error_errno(number, "cannot read it");
	if (text->length >= FILE_MAX)
		return error_new(ERROR_USAGE, "too large (at most 4M)");
	return text->failed ? error_new(ERROR_FAILED, "out of memory") : NULL;
}

struct error *prototype_options_read(const char *file, char **ret_text)
{
	struct strbuf text = { 0 }, line = { 0 };
	struct error *error = file ? read_file(file, &text) : NULL;

	if (!error && file)
		error = prototypes_shorten(text.text ? text.text : "", &line);
	strbuf_free(&text);
	if (error) {
		strbuf_free(&line);
		return error_wrap(error, "--prototypes: %s", file);
	}
	*ret_text = line.text;
	return NULL;
}
