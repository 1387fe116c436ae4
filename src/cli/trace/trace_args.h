/*
 * trace_args.h - what `dyntrace trace` was asked for: its options, and what fits together.
 *
 * One of it, filled in by options_parse with trace_options, and made good by trace_args_check.
 */
#ifndef DYNTRACE_TRACE_ARGS_H
#define DYNTRACE_TRACE_ARGS_H

#include "control/event/tracer.h"
#include "options/options.h"

#define CONTEXTS_MAX 64

struct trace_args {
	const char *command;
	const char *target;
	const char *output;
	struct option_values what;
	struct option_values contexts;
	const char *context_types[CONTEXTS_MAX];
	const char *filter;
	uint64_t string_max;
	uint64_t every, first;
	const char *rate_text;
	uint64_t rate;
	uint64_t buffer_size;
	double seconds;
	int mode; /* enum session_mode */
	bool print;
	bool no_follow_fork;
	bool follow_exec;
	bool exit;
	bool wait;
	bool all_rows, quiet;
	const char *tracer_text;
	char *tracer_name;
	const char *tracer_argument;
	char *function; /* of the tracer call */
	const struct tracer *tracer;
	const char *name;
	const char *explain;
};

extern struct trace_args trace_args;
extern const struct option_spec trace_options[];

/* Reads what options_parse leaves as text, and tells what doesn't fit. */
struct error *trace_args_check(const struct words *words);
/* Callers are in libraries, too: their tables must be there. */
bool trace_args_need_libraries(void);

#endif
