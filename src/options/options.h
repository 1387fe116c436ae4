/*
 * options.h - a command's options as a table.
 *
 *	static struct {
 *		bool exit;
 *		const char *output;
 *		struct option_values what;
 *		uint64_t buffer_size;
 *		double seconds;
 *	} args = { .buffer_size = 64 << 20 };
 *
 *	static const struct option_spec trace_options[] = {
 *		{ 'p', NULL, "TARGET", "the process to trace", .string = &args.target },
 *		{ 0, "probe", "LOC", "a bare probe there", .list = &args.what, .tag = WHAT_PROBE },
 *		{ 0, "function", "LOC", "an entry", .list = &args.what, .tag = WHAT_FUNCTION },
 *		{ 'e', "exit", NULL, "entry and exit", .flag = &args.exit },
 *		{ 'o', "output", "DIR", "where the trace goes", .string = &args.output },
 *		{ 0, "buffer-size", "SIZE", "memory for events (64M)", .size = &args.buffer_size },
 *		{ 0, "for", "SECONDS", "stop after that time", .seconds = &args.seconds },
 *		{ 0 },
 *	};
 *
 * Each row names exactly one destination, and that says what the option is; the compiler checks its
 * type. A destination keeps its value when the option isn't given; of several, the last one
 * counts, except for lists, which keep all of them in the order of the command line, also across
 * options that share one list. -h and --help are understood everywhere.
 *
 * Understood: -e, -o DIR, -oDIR, -eo DIR, --output DIR, --output=DIR, and options after words. A
 * word is what isn't an option ("-" is one). What is behind "--" is never an option.
 *
 * Pure: reads argv, whose strings the results point into; prints nothing. Every error is
 * ERROR_USAGE.
 */
#ifndef DYNTRACE_OPTIONS_H
#define DYNTRACE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "control/base/error.h"
#include "control/base/vec.h"

struct option_spec;

struct option_value {
	const struct option_spec *option; /* which one it was; option->tag to tell them apart */
	const char *text; /* its argument; NULL: the option takes none */
};

struct option_values {
	struct option_value *items;
	size_t count;
	size_t room;
};

struct option_spec {
	char letter; /* 0: none */
	const char *name; /* NULL: none */
	const char *argument; /* what help calls it; NULL: takes none */
	const char *help; /* wrapped where it is shown; \n counts as a space */
	bool *flag; /* set to true */
	const char **string;
	struct option_values *list; /* appended to; free with vec_free */
	uint64_t *size; /* bytes: "4096", "64M", "1G"; K, M, G, T are powers of 1024 */
	double *seconds; /* "2", "0.5"; above 0, finite */
	int *choice; /* index in choices */
	const char *const *choices; /* ends with NULL */
	struct error *(*handle)(const char *text); /* anything else */
	int tag; /* the command's own */
};

/* A row that is no option: a heading for those behind it. */
#define OPTION_GROUP(text) { .help = (text) }

static inline bool option_ends_table(const struct option_spec *option)
{
	return !option->letter && !option->name && !option->help;
}

static inline bool option_is_group(const struct option_spec *option)
{
	return !option->letter && !option->name && option->help;
}

struct words {
	char **items; /* the words that aren't options */
	size_t count;
	size_t room;
	char **rest; /* what was behind "--", ends with NULL; NULL: there was no "--" */
	bool help; /* -h or --help: nothing behind it was looked at */
};

/*
 * Parses argv[0..argc), which ends with NULL and begins behind the command's name. `keep_rest`:
 * what is behind "--" is a command of its own and goes to ret_words->rest, else it counts as words.
 */
struct error *options_parse(const struct option_spec *options, bool keep_rest, int argc,
			    char **argv, struct words *ret_words);
void words_free(struct words *words);

/* "64M" to bytes, "0.5" to seconds, for arguments that aren't options. */
struct error *options_size(const char *text, uint64_t *ret_size);
struct error *options_seconds(const char *text, double *ret_seconds);

#endif
