/*
 * summary_exits.h - the summary's columns for functions whose exits were recorded.
 */
#ifndef DYNTRACE_SUMMARY_EXITS_H
#define DYNTRACE_SUMMARY_EXITS_H

#include "control/session/session.h"

/* On stderr, behind the columns that every tracepoint has, without the end of the line. */
void summary_exits_head(void);
void summary_exits_row(const struct tracepoint_info *row);

/* Functions whose exits could not be recorded, with the reasons, and how many calls have no
 * exit. */
void summary_exits_rest(const struct session *session);

/* 0 ns to 999 ns, 1.00 us to 999 us, ...; text has room for 16 bytes. */
void summary_exits_time(uint64_t ns, char *text);

#endif
