/*
 * summary.h - the table at the end of `dyntrace trace`, on stderr.
 */
#ifndef DYNTRACE_SUMMARY_H
#define DYNTRACE_SUMMARY_H

#include "control/session/session.h"

struct summary_options {
	double overhead; /* the budget, a share; 0: none */
	bool all_rows; /* also tracepoints without hits, and more than 40 */
	bool is_wide; /* all columns */
	bool is_json; /* on one line per tracepoint, instead of text */
	const char *filters; /* the options that leave calls out; NULL: none */
};

/* Prints the table of tracepoints (options/calls_table.h), then what could not be traced, the
 * totals, the trace's directory and how to look at it. */
void summary_print(struct session *session, const struct session_summary *summary,
		   const char *directory, const struct summary_options *options);

/* Prints the summary of tracepoints of no session of ours; totals and time of `summary` are
 * used. */
void summary_print_infos(const struct tracepoint_info *infos, size_t count,
			 const struct session_summary *summary, const char *directory,
			 const struct summary_options *options);

#endif
