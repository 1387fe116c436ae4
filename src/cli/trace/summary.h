/*
 * summary.h - the table at the end of `dyntrace trace`, on stderr.
 */
#ifndef DYNTRACE_SUMMARY_H
#define DYNTRACE_SUMMARY_H

#include "control/session/session.h"

/* Prints the tracepoints, most hits first (the first 40, or all_rows), then what could not be
 * traced, the totals and the trace's directory. */
void summary_print(const struct session *session, const struct session_summary *summary,
		   const char *directory, bool all_rows);

#endif
