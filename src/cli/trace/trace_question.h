/*
 * trace_question.h - the answer of `trace --tracer count` to --by and --of: one row per key.
 */
#ifndef DYNTRACE_TRACE_QUESTION_H
#define DYNTRACE_TRACE_QUESTION_H

#include "control/session/session.h"
#include "trace_args.h"

/* Reads the options' texts, and refuses wrong combinations. */
struct error *trace_question_check(void);
/* Are there keys or a value? */
bool trace_question_asked(void);
/* Prints the table: text on standard error, JSON and CSV on standard output. `resets`: counts
 * begin at 0 again. */
void trace_question_print(struct session *session, bool resets);

#endif
