/*
 * summary.h - the table that a trace ends with, on stderr.
 */
#ifndef DYNTRACE_SUMMARY_H
#define DYNTRACE_SUMMARY_H

#include "control/session/session.h"

/* Tracepoints that were hit, most hits first (those with most hits, unless all are wanted), then
 * the totals and where the trace is. */
void summary_print(const struct session *session, const struct session_summary *summary,
		   const char *directory, bool all_rows);

#endif
