/*
 * question.h - the words of a question to calls: --by KEY[,KEY] and --of VALUE.
 *
 * One grammar for the tracer count, for `report` and for whatever else groups calls. KEY is one of
 * function, ret, $tid, $pid, $comm, $cpu, caller, backtrace[:N], or a field or expression; VALUE
 * is duration, self, ret, or a numeric field or expression. The words $ret and $duration are ret
 * and duration.
 *
 * (O4) A key is taken when the call begins, except ret; a value when it ends.
 * (O5) A row's total of durations is the time during which at least one call of that row was on
 *      the thread's stack, as O1 has it for functions.
 * (O6) Keys beyond the limit, and calls whose key is unknown, have rows of their own: the sums of
 *      all rows are those of all calls.
 *
 * Pure.
 */
#ifndef DYNTRACE_QUESTION_H
#define DYNTRACE_QUESTION_H

#include <stdbool.h>
#include <stddef.h>

#include "control/base/error.h"

#define QUESTION_KEYS_MAX 8
#define QUESTION_FRAMES_MAX 127
#define QUESTION_KEYS_USUAL 4096 /* rows: --keys */

enum question_kind {
	QUESTION_EXPRESSION, /* a field is the shortest one */
	QUESTION_FUNCTION,
	QUESTION_RET,
	QUESTION_DURATION,
	QUESTION_SELF,
	QUESTION_TID,
	QUESTION_PID,
	QUESTION_COMM,
	QUESTION_CPU,
	QUESTION_CALLER,
	QUESTION_BACKTRACE,
};

struct question_word {
	enum question_kind kind;
	char *text; /* as the user wrote it: the column's title */
	unsigned frames; /* of a backtrace; 0: all that are recorded */
};

struct question {
	struct question_word keys[QUESTION_KEYS_MAX];
	size_t key_count;
	struct question_word value; /* text NULL: not asked for */
};

/* Reads the texts of both options, of which either may be NULL. ERROR_USAGE: not understood.
 * Expressions are only taken apart here: what they mean depends on the function. */
struct error *question_parse(const char *by, const char *of, struct question *ret_question);
void question_free(struct question *question);

#endif
