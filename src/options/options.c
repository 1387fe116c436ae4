#include "options.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "control/base/strbuf.h"
#include "suggest.h"

static const char help_name[] = "help";
static const char help_letter = 'h';

/* The parser's position in argv. */
struct cursor {
	const struct option_spec *options;
	char **argv;
	int argc;
	int next; /* index after the current argument */
};

struct error *options_size(const char *text, uint64_t *ret_size)
{
	static const char units[] = "KMGT";
	char *end;

	errno = 0;
	unsigned long long value = strtoull(text, &end, 0);
	if (!isdigit((unsigned char)*text) || errno)
		return error_new(ERROR_USAGE, "'%s' is not a size (4096, 64M, 1G)", text);

	const char *unit = *end ? strchr(units, toupper((unsigned char)*end)) : NULL;
	int shift = unit ? 10 * (int)(unit - units + 1) : 0;
	if (unit)
		end++;
	if (*end)
		return error_new(ERROR_USAGE, "'%s' is not a size (4096, 64M, 1G)", text);
	if (shift && value >> (64 - shift))
		return error_new(ERROR_USAGE, "'%s' is too large", text);
	*ret_size = (uint64_t)value << shift;
	return NULL;
}

struct error *options_seconds(const char *text, double *ret_seconds)
{
	static const struct {
		const char *name;
		double seconds;
	} units[] = { { "", 1 },     { "s", 1 },   { "ms", 1e-3 }, { "us", 1e-6 },
		      { "ns", 1e-9 }, { "m", 60 }, { "min", 60 },  { "h", 3600 } };
	char *end;
	double value = strtod(text, &end);

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]) && end != text; i++) {
		if (strcmp(end, units[i].name) || !isfinite(value) || value <= 0)
			continue;
		*ret_seconds = value * units[i].seconds;
		return NULL;
	}
	return error_new(ERROR_USAGE, "'%s' is not a time (2, 0.5, 200ms, 10s, 5m)", text);
}

struct error *options_rate(const char *text, uint64_t *ret_rate)
{
	char *end;

	errno = 0;
	unsigned long long value = strtoull(text, &end, 10);
	if (!isdigit((unsigned char)*text) || errno || (*end && strcmp(end, "/s")) || !value)
		return error_new(ERROR_USAGE, "'%s' is not a rate (100/s)", text);
	*ret_rate = value;
	return NULL;
}

static struct error *unknown_choice(const struct option_spec *option, const char *text)
{
	_cleanup_(strbuf_free) struct strbuf list = { 0 };

	for (int i = 0; option->choices[i]; i++)
		strbuf_printf(&list, "%s%s", i ? ", " : "", option->choices[i]);
	return error_new(ERROR_USAGE, "unknown value '%s' (one of %s)", text,
			 list.text ? list.text : option->argument);
}

static struct error *set_choice(const struct option_spec *option, const char *text)
{
	struct suggestion near = { .typed = text };

	for (int i = 0; option->choices[i]; i++) {
		if (!strcmp(option->choices[i], text)) {
			*option->choice = i;
			return NULL;
		}
		suggest_offer(&near, option->choices[i]);
	}
	if (near.best)
		return error_new(ERROR_USAGE, "unknown value '%s' (did you mean '%s'?)", text,
				 near.best);
	return unknown_choice(option, text);
}

static struct error *set_list(const struct option_spec *option, const char *text)
{
	if (!vec_push(option->list, (struct option_value){ option, text }))
		return error_new(ERROR_FAILED, "out of memory");
	return NULL;
}

/* Numbers of which 0 stands for "not given". */
static struct error *set_size(const struct option_spec *option, const char *text)
{
	bool is_size = option->argument && strcmp(option->argument, "SIZE") == 0;
	struct error *error = NULL;

	if (is_size || isdigit((unsigned char)text[0]))
		error = options_size(text, option->size);
	else
		error = error_new(ERROR_USAGE, "'%s' is not a number", text);
	if (error || *option->size || option->may_be_zero)
		return error;
	return error_new(ERROR_USAGE, "'%s' is too small (leave the option out for its default)",
			 text);
}

static struct error *set_value(const struct option_spec *option, const char *text)
{
	if (option->list)
		return set_list(option, text);
	if (option->flag)
		*option->flag = true;
	if (option->string)
		*option->string = text;
	if (option->size)
		return set_size(option, text);
	if (option->seconds)
		return options_seconds(text, option->seconds);
	if (option->choice)
		return set_choice(option, text);
	if (option->handle)
		return option->handle(text);
	return NULL;
}

/* Sets the option to `text`, or to the next argument (NULL). `typed` is for messages. */
static struct error *apply(struct cursor *at, const struct option_spec *option, const char *typed,
			   const char *text)
{
	if (!option->argument && text)
		return error_new(ERROR_USAGE, "option '%s' takes no value", typed);
	if (option->argument && !text) {
		if (at->next >= at->argc)
			return error_new(ERROR_USAGE, "option '%s' needs a value: %s", typed,
					 option->argument);
		text = at->argv[at->next++];
	}
	return error_wrap(set_value(option, text), "option '%s'", typed);
}

/* `typed` has the dashes, `name` doesn't. */
static struct error *unknown_option(const struct cursor *at, const char *typed, const char *name)
{
	const struct option_spec *option = at->options;
	struct suggestion near = { .typed = name };

	for (; !option_ends_table(option); option++)
		if (option->name)
			suggest_offer(&near, option->name);
	suggest_offer(&near, help_name);
	for (; option->meant; option++)
		if (!strcmp(option->name, name))
			return *option->meant ?
				       error_new(ERROR_USAGE,
						 "unknown option '%s' (did you mean '%s'?)", typed,
						 option->meant) :
				       error_new(ERROR_USAGE,
						 "'%s' is for 'dyntrace trace' alone (%s)", typed,
						 option->help);
	if (near.best)
		return error_new(ERROR_USAGE, "unknown option '%s' (did you mean '--%s'?)", typed,
				 near.best);
	return error_new(ERROR_USAGE, "unknown option '%s' (--help lists them)", typed);
}

static const struct option_spec *find_long(const struct cursor *at, const char *name, size_t length)
{
	for (const struct option_spec *option = at->options; !option_ends_table(option); option++)
		if (option->name && strlen(option->name) == length &&
		    !memcmp(option->name, name, length))
			return option;
	return NULL;
}

/* argument: "--name" or "--name=value". */
static struct error *parse_long(struct cursor *at, const char *argument)
{
	const char *equals = strchrnul(argument, '=');
	char *typed = strndupa(argument, (size_t)(equals - argument));
	const struct option_spec *option = find_long(at, typed + 2, strlen(typed + 2));

	if (!option)
		return unknown_option(at, typed, typed + 2);
	return apply(at, option, typed, *equals ? equals + 1 : NULL);
}

static const struct option_spec *find_letter(const struct cursor *at, char letter)
{
	for (const struct option_spec *option = at->options; !option_ends_table(option); option++)
		if (option->letter == letter)
			return option;
	return NULL;
}

/* argument: "-e", "-eq", "-oDIR", "-eoDIR". */
static struct error *parse_letters(struct cursor *at, const char *argument, bool *ret_help)
{
	for (const char *letter = argument + 1; *letter; letter++) {
		const struct option_spec *option = find_letter(at, *letter);
		char typed[] = { '-', *letter, '\0' };

		if (!option && *letter == help_letter) {
			*ret_help = true;
			return NULL;
		}
		if (!option && letter == argument + 1)
			return unknown_option(at, argument, argument + 1);
		if (!option)
			return unknown_option(at, typed, typed + 1);
		if (option->argument)
			return apply(at, option, typed, letter[1] ? letter + 1 : NULL);

		struct error *error = apply(at, option, typed, NULL);
		if (error)
			return error;
	}
	return NULL;
}

static struct error *parse_argument(struct cursor *at, char *argument, struct words *words)
{
	if (!strcmp(argument, "--help")) {
		words->help = true;
		return NULL;
	}
	if (!strncmp(argument, "--", 2))
		return parse_long(at, argument);
	if (argument[0] == '-' && argument[1])
		return parse_letters(at, argument, &words->help);
	if (!vec_push(words, argument))
		return error_new(ERROR_FAILED, "out of memory");
	return NULL;
}

static struct error *parse_rest(struct cursor *at, bool keep_rest, struct words *words)
{
	if (keep_rest) {
		words->rest = at->argv + at->next;
		return NULL;
	}
	while (at->next < at->argc)
		if (!vec_push(words, at->argv[at->next++]))
			return error_new(ERROR_FAILED, "out of memory");
	return NULL;
}

static struct error *parse_all(struct cursor *at, bool keep_rest, struct words *words)
{
	while (at->next < at->argc && !words->help) {
		char *argument = at->argv[at->next++];

		if (!strcmp(argument, "--"))
			return parse_rest(at, keep_rest, words);

		struct error *error = parse_argument(at, argument, words);
		if (error)
			return error;
	}
	return NULL;
}

struct error *options_parse(const struct option_spec *options, bool keep_rest, int argc,
			    char **argv, struct words *ret_words)
{
	struct cursor at = { options, argv, argc, 0 };
	struct words words = { 0 };
	struct error *error = parse_all(&at, keep_rest, &words);

	if (error) {
		words_free(&words);
		return error;
	}
	*ret_words = words;
	return NULL;
}

void words_free(struct words *words)
{
	vec_free(words);
}
