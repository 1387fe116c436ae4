#include "question_options.h"

#include <errno.h>
#include <stdlib.h>

#define KEYS_MAX (1u << 20)

static struct error *read_number(const char *option, const char *text, uint64_t most,
				 uint64_t *number)
{
	char *end;

	if (!text)
		return NULL;
	errno = 0;
	*number = strtoull(text, &end, 10);
	if (errno || *end || end == text || *text < '0' || *text > '9' || !*number ||
	    *number > most)
		return error_new(ERROR_USAGE, "%s: '%s' is not a number of rows", option, text);
	return NULL;
}

struct error *question_options_read(struct question_args *args, struct question *ret_question)
{
	struct error *error = read_number("--top", args->top_text, UINT64_MAX, &args->top);

	if (!args->keys)
		args->keys = QUESTION_KEYS_USUAL;
	args->hist |= args->linear;
	if (!error)
		error = read_number("--keys", args->keys_text, KEYS_MAX, &args->keys);
	return error ? error : question_parse(args->by, args->of, ret_question);
}
