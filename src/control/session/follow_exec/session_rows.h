/*
 * session_rows.h - counts by key of all processes of a session: of its target, of processes that
 * were joined, and of programs that were executed.
 */
#ifndef DYNTRACE_SESSION_ROWS_H
#define DYNTRACE_SESSION_ROWS_H

#include "control/tracers/count/count_rows.h"

/* Rows with the same keys become one. `takes`: as count_rows_read. */
struct error *session_rows(struct session *session, bool takes, struct count_rows *ret_rows);

#endif
