/*
 * trace_args.h - the options of `dyntrace trace`, and which of them fit together.
 *
 * options_parse fills in the one struct trace_args by trace_options; trace_args_check completes it.
 */
#ifndef DYNTRACE_TRACE_ARGS_H
#define DYNTRACE_TRACE_ARGS_H

#include "control/event/tracer.h"
#include "options/limit_options.h"
#include "options/lttng_options.h"
#include "options/options.h"
#include "options/question_options.h"
#include "summary.h"

#define CONTEXTS_MAX 64

struct trace_args {
	const char *command;
	struct option_values targets;
	bool children;
	const char *output;
	struct option_values what;
	struct option_values contexts;
	const char *context_types[CONTEXTS_MAX];
	const char *filter; /* from trace_args_check on whole_filter */
	const char *min_duration;
	char *whole_filter; /* with --min-duration */
	uint64_t string_max, deref;
	uint64_t every, first;
	const char *rate_text;
	uint64_t rate;
	uint64_t buffer_size;
	struct limit_args limit_args;
	const char *only_inside; /* a LOC */
	const char *depth_text;
	uint64_t depth; /* with depth_text */
	const char *overhead_text;
	double overhead; /* a share; 0: no budget */
	const char *snapshot_when, *on_snapshot;
	double snapshot_every; /* s */
	struct writer_limits limits;
	double seconds;
	int mode; /* enum session_mode */
	bool print;
	const char *print_to;
	bool no_follow_fork;
	bool follow_exec;
	bool follow_daemons;
	bool no_suspend;
	bool exit;
	bool wait;
	struct summary_options summary;
	bool quiet;
	const char *tracer_text;
	char *tracer_name;
	const char *tracer_argument;
	const char *prototypes_file;
	int floats; /* floats_size */
	bool sync; /* --tracer log: lines at the hit */
	char *prototypes; /* owned: their text */
	struct lttng_args lttng;
	char *identity; /* owned: argument of the tracer lttng */
	char *function; /* owned: the tracer's argument, with an absolute path */
	const struct tracer *tracer;
	struct question_args question;
	double each;
	bool reset, csv;
	const char *name;
	const char *explain;
};

extern struct trace_args trace_args;
extern const struct option_spec trace_options[];

/* Parses the options that options_parse leaves as text, and refuses wrong combinations. */
struct error *trace_args_check(const struct words *words);
/* True with -t backtrace: callers are in libraries, whose unwind tables must be loaded. */
bool trace_args_need_libraries(void);

#endif
