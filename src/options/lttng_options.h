/*
 * lttng_options.h - the options that say what LTTng is to know of events
 * (control/event/lttng_identity.h), one table for all commands that take them.
 *
 *	static struct lttng_args args;
 *	static const struct option_spec options[] = { LTTNG_OPTIONS(args), ..., { 0 } };
 */
#ifndef DYNTRACE_LTTNG_OPTIONS_H
#define DYNTRACE_LTTNG_OPTIONS_H

#include "options.h"

struct lttng_args {
	bool typed;
	const char *loglevel;
	struct option_values nowrite;
};

#define LTTNG_LEVEL_OPTION(args, text)                                                             \
	{ 0, "loglevel", "LEVEL", text, .string = &(args).loglevel }
#define LTTNG_NOWRITE_OPTION(args)                                                                 \
	{ 0, "nowrite", "FIELD",                                                                   \
	  "with the tracer lttng: LTTng's filters may use this field, but it isn't recorded "      \
	  "(repeatable)",                                                                          \
	  .list = &(args).nowrite }
#define LTTNG_OPTIONS(args)                                                                        \
	{ 0, "typed", NULL,                                                                        \
	  "with the tracer lttng: an event dyntrace:NAME with all values for each place, NAME "    \
	  "made from it (as -n NAME, for globs too)",                                              \
	  .flag = &(args).typed },                                                                 \
	LTTNG_LEVEL_OPTION(args, "with the tracer lttng: the events' log level, such as info or "  \
				 "debug_line"),                                                    \
	LTTNG_NOWRITE_OPTION(args)

/* The argument of the tracer lttng: `argument` (NULL: none) and these options; NULL if there are
 * none. The caller frees it. ERROR_USAGE: options for another tracer (NULL: ctf), or an unknown
 * level. */
struct error *lttng_options_argument(const struct lttng_args *args, const char *tracer,
				     const char *argument, char **ret_argument);

#endif
