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
 *		{ 0, "probe", "LOC", "a bare probe", .list = &args.what, .tag = WHAT_PROBE },
 *		{ 0, "function", "LOC", "an entry", .list = &args.what, .tag = WHAT_FUNCTION },
 *		{ 'e', "exit", NULL, "entry and exit", .flag = &args.exit },
 *		{ 'o', "output", "DIR", "where the trace goes", .string = &args.output },
 *		{ 0, "buffer-size", "SIZE", "memory for events (64M)", .size = &args.buffer_size },
 *		{ 0, "for", "SECONDS", "stop after this time", .seconds = &args.seconds },
 *		{ 0 },
 *	};
 *
 * Each row sets exactly one destination, whose member gives the option its type; the compiler
 * checks it. A destination keeps its value if the option isn't given. A repeated option overwrites
 * its value, except in lists: these keep all values in the order of the command line, also across
 * options that share one list. -h and --help work everywhere.
 *
 * Accepted: -e, -o DIR, -oDIR, -eo DIR, --output DIR, --output=DIR, and options after words. A
 * word is an argument that isn't an option ("-" is a word). Arguments after "--" are never options.
 *
 * Pure: reads argv, whose strings the results point into; prints nothing. Every error but "out of
 * memory" is ERROR_USAGE.
 */
#ifndef DYNTRACE_OPTIONS_H
#define DYNTRACE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "control/base/error.h"
#include "control/base/vec.h"

struct option_spec;

struct option_value {
	const struct option_spec *option; /* the row; option->tag tells rows of one list apart */
	const char *text; /* the option's argument; NULL: it takes none */
};

struct option_values {
	struct option_value *items;
	size_t count;
	size_t room;
};

struct option_spec {
	char letter; /* 0: none */
	const char *name; /* NULL: none */
	const char *argument; /* its name in --help; NULL: takes none */
	const char *help; /* --help wraps it; \n counts as a space */
	bool *flag; /* set to true */
	const char **string;
	struct option_values *list; /* appended to; free with vec_free */
	uint64_t *size; /* bytes: "4096", "64M", "1G"; K, M, G, T are powers of 1024; above 0 */
	bool may_be_zero; /* the size */
	double *seconds; /* "2", "0.5", "200ms", "1m"; above 0, finite */
	int *choice; /* index in choices */
	const char *const *choices; /* ends with NULL */
	struct error *(*handle)(const char *text); /* any other kind of argument */
	int tag; /* for the command's own use */
	/* Not an option: a word that people type, and what they mean by it ("--for"). Only the
	 * error for an unknown option knows it. */
	const char *meant;
};

/* A heading for the rows below it. */
#define OPTION_GROUP(text) { .help = (text) }

static inline bool option_ends_table(const struct option_spec *option)
{
	return (!option->letter && !option->name && !option->help) || option->meant;
}

static inline bool option_is_group(const struct option_spec *option)
{
	return !option->letter && !option->name && option->help;
}

/* A word that people type for the option `meaning`. Stands at the end of a table. */
#define OPTION_MEANT(typed, meaning) { .name = (typed), .meant = (meaning) }

/* An option of `dyntrace trace` that this table hasn't, and why not. Stands at the end, too. */
#define OPTION_OF_TRACE(typed, why) { .name = (typed), .meant = "", .help = (why) }
#define OPTIONS_OF_TRACE                                                                           \
	OPTION_OF_TRACE("only-inside", "the reader of one trace of one's own does it"),            \
	OPTION_OF_TRACE("depth", "the reader of one trace of one's own does it"),                  \
	OPTION_OF_TRACE("for", "a tracepoint stays until it is removed"),                          \
	OPTION_OF_TRACE("print", "'dyntrace view -f' shows a trace as it grows"),                  \
	OPTION_OF_TRACE("follow-exec", "--wait traces programs of a name whenever they begin")

struct words {
	char **items; /* the arguments that aren't options */
	size_t count;
	size_t room;
	char **rest; /* the arguments after "--", ends with NULL; NULL: no "--" */
	bool help; /* -h or --help was given; the arguments after it were not parsed */
};

/*
 * Parses argv[0..argc), the arguments after the command's name; argv ends with NULL. `keep_rest`:
 * the arguments after "--" are a command and go to ret_words->rest; otherwise they are words.
 */
struct error *options_parse(const struct option_spec *options, bool keep_rest, int argc,
			    char **argv, struct words *ret_words);
void words_free(struct words *words);

/* "64M" to bytes, "0.5" or "500ms" to seconds, "100/s" to hits per second. */
struct error *options_size(const char *text, uint64_t *ret_size);
struct error *options_seconds(const char *text, double *ret_seconds);
struct error *options_rate(const char *text, uint64_t *ret_rate);

/* Tracer log, of trace and add: a bool. */
#define SYNC_OPTION(where)                                                                         \
	{ 0, "sync", NULL,                                                                         \
	  "with the tracer log: the hit's own thread writes the line to the program's standard\n"    \
	  "output (or FILE, which the program has open itself), so that it stands between the\n"     \
	  "program's own lines where it happened; costs some microseconds per hit (a write), and\n"  \
	  "up to 1 s where the output isn't read (then the line is left out and counted); without\n" \
	  "it dyntrace writes the lines, 10 to 30 ms later",                                         \
	  .flag = &(where) }

#endif
