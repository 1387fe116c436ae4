#include "profile.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "control/base/cleanup.h"

#define SIZE_MOST (1 << 20) /* no profile is that long */

/* The options point into these. */
static VEC(char *) kept;

static char *trim(char *text)
{
	size_t length;

	while (isspace((unsigned char)*text))
		text++;
	length = strlen(text);
	while (length && isspace((unsigned char)text[length - 1]))
		text[--length] = '\0';
	return text;
}

/* "min-duration = 1ms" to "--min-duration=1ms". */
static struct error *make_word(char *line, char **ret_word)
{
	char *equals = strchr(line, '=');
	const char *value = NULL;

	if (equals) {
		*equals = '\0';
		value = trim(equals + 1);
	}
	const char *name = trim(line);
	if (!*name || name[strcspn(name, " \t")])
		return error_new(ERROR_USAGE, "'%s' is not NAME or NAME = VALUE", name);
	if (name[0] == '-')
		return error_new(ERROR_USAGE, "'%s': give the long name without dashes", name);
	if (!strcmp(name, "profile") || !strcmp(name, "help"))
		return error_new(ERROR_USAGE, "'%s' is for the command line", name);
	if (asprintf(ret_word, "--%s%s%s", name, value ? "=" : "", value ? value : "") < 0)
		return error_new(ERROR_FAILED, "out of memory");
	return NULL;
}

static struct error *set_option(char *line, const struct option_spec *options)
{
	_cleanup_(words_free) struct words words = { 0 };
	char *word = NULL;
	struct error *error = make_word(line, &word);

	if (error)
		return error;
	if (!vec_push(&kept, word)) {
		free(word);
		return error_new(ERROR_FAILED, "out of memory");
	}
	char *arguments[] = { word, NULL };
	return options_parse(options, false, 1, arguments, &words);
}

static struct error *check_file(FILE *file, const char *path)
{
	struct stat st;

	if (fstat(fileno(file), &st))
		return error_errno(errno, "cannot read %s", path);
	if (S_ISDIR(st.st_mode))
		return error_new(ERROR_USAGE, "%s is a directory (give a file)", path);
	if (st.st_size > SIZE_MOST)
		return error_new(ERROR_USAGE, "%s is no profile: it has more than 1 MiB", path);
	return NULL;
}

struct error *profile_parse(FILE *file, const char *path, const struct option_spec *options)
{
	_cleanup_free_ char *line = NULL;
	size_t room = 0;
	ssize_t length;

	struct error *error = check_file(file, path);
	for (unsigned number = 1; !error && (length = getline(&line, &room, file)) >= 0; number++) {
		bool has_zero = memchr(line, '\0', (size_t)length);
		char *text = trim(line);

		if (has_zero)
			error = error_new(ERROR_USAGE, "%s:%u: a byte 0 in the line", path, number);
		else if (*text && *text != '#')
			error = error_wrap(set_option(text, options), "%s:%u", path, number);
	}
	if (!error && ferror(file))
		error = error_errno(errno, "cannot read %s", path);
	return error;
}

struct error *profile_read(const char *path, const struct option_spec *options)
{
	_cleanup_fclose_ FILE *file = fopen(path, "re");

	return file ? profile_parse(file, path, options) :
		      error_errno(errno, "cannot read %s", path);
}
