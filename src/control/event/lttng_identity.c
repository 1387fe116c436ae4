#include "lttng_identity.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "control/base/strbuf.h"

#define LEVEL_PREFIX "TRACE_"
#define LEVEL_WORD "loglevel="
#define NOWRITE_WORD "nowrite="

/* By number, as in lttng/tracepoint.h. */
static const char *const levels[] = {
	"EMERG",	 "ALERT",	"CRIT",		  "ERR",	 "WARNING",
	"NOTICE",	 "INFO",	"DEBUG_SYSTEM",	  "DEBUG_PROGRAM", "DEBUG_PROCESS",
	"DEBUG_MODULE",	 "DEBUG_UNIT",	"DEBUG_FUNCTION", "DEBUG_LINE",	 "DEBUG",
};
#define LEVELS (sizeof(levels) / sizeof(levels[0]))

static bool find_level(const char *name, size_t length, int *ret_level)
{
	size_t prefix = strlen(LEVEL_PREFIX);

	if (length > prefix && !strncasecmp(name, LEVEL_PREFIX, prefix)) {
		name += prefix;
		length -= prefix;
	}
	for (size_t i = 0; i < LEVELS; i++) {
		if (strlen(levels[i]) == length && !strncasecmp(levels[i], name, length)) {
			*ret_level = (int)i;
			return true;
		}
	}
	return false;
}

static struct error *unknown_level(const char *name, size_t length)
{
	struct strbuf names = { 0 };

	for (size_t i = 0; i < LEVELS; i++) {
		strbuf_printf(&names, "%s", i ? ", " : "");
		for (const char *c = levels[i]; *c; c++)
			strbuf_printf(&names, "%c", tolower((unsigned char)*c));
	}
	struct error *error = error_new(ERROR_USAGE, "unknown log level '%.*s' (available: %s)",
					(int)length, name, names.text ? names.text : "info");
	strbuf_free(&names);
	return error;
}

struct error *lttng_identity_level(const char *name, int *ret_level)
{
	return find_level(name, strlen(name), ret_level) ? NULL :
							   unknown_level(name, strlen(name));
}

static bool begins(const char *word, size_t length, const char *with)
{
	return length > strlen(with) && !strncmp(word, with, strlen(with));
}

static bool is_word(const char *word, size_t length, const char *name)
{
	return length == strlen(name) && !strncmp(word, name, length);
}

static struct error *read_word(const char *word, size_t length, struct lttng_identity *identity)
{
	size_t level = strlen(LEVEL_WORD);

	if (is_word(word, length, "typed"))
		identity->typed = true;
	else if (is_word(word, length, "enabled"))
		identity->enabled = true;
	else if (begins(word, length, LEVEL_WORD))
		return find_level(word + level, length - level, &identity->loglevel) ?
			       NULL :
			       unknown_level(word + level, length - level);
	else if (!begins(word, length, NOWRITE_WORD))
		return error_new(ERROR_USAGE,
				 "tracer 'lttng': unknown word '%.*s' (known: typed, loglevel=LEVEL, "
				 "nowrite=FIELD)",
				 (int)length, word);
	return NULL;
}

struct error *lttng_identity_parse(const char *argument, struct lttng_identity *ret_identity)
{
	struct lttng_identity identity = { .loglevel = LTTNG_NO_LEVEL, .text = argument };
	struct error *error = NULL;

	for (const char *word = argument; word && !error;) {
		size_t length = strcspn(word, ",");

		error = read_word(word, length, &identity);
		word = word[length] ? word + length + 1 : NULL;
	}
	if (!error)
		*ret_identity = identity;
	return error;
}

const char *lttng_identity_next_hidden(const struct lttng_identity *identity, const char *at,
				       size_t *ret_length)
{
	const char *word = at ? at + strcspn(at, ",") : identity->text;

	while (word && *word) {
		word += *word == ',';
		size_t length = strcspn(word, ",");

		if (begins(word, length, NOWRITE_WORD)) {
			*ret_length = length - strlen(NOWRITE_WORD);
			return word + strlen(NOWRITE_WORD);
		}
		word += length;
	}
	return NULL;
}

bool lttng_identity_hides(const struct lttng_identity *identity, const char *field)
{
	size_t length;

	for (const char *at = NULL;
	     (at = lttng_identity_next_hidden(identity, at, &length)) != NULL;) {
		if (strlen(field) == length && !strncmp(at, field, length))
			return true;
	}
	return false;
}

size_t lttng_identity_provider(const char *name)
{
	size_t length = strcspn(name, ":");

	return name[length] && name[length + 1] && name[length + 1] != ':' ? length : 0;
}
