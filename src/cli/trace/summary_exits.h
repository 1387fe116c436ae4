/*
 * summary_exits.h - the summary's columns for functions whose exits were recorded.
 */
#ifndef DYNTRACE_SUMMARY_EXITS_H
#define DYNTRACE_SUMMARY_EXITS_H

#include "control/session/session.h"

/* Print on stderr, after the columns of every tracepoint, without a newline. */
void summary_exits_head(void);
void summary_exits_row(const struct tracepoint_info *row);

/* Prints the functions whose exits were not traced, with reasons, and the number of calls without
 * an exit. */
void summary_exits_rest(const struct session *session);

/* Formats 0 ns to 999 ns, 1.00 us to 999 us, ...; text has room for 16 bytes. */
void summary_exits_time(uint64_t ns, char *text);

#endif
