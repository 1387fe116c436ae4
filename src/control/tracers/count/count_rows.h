/*
 * count_rows.h - the rows of a session's counts by key: keys as text, values in ns or as they are.
 */
#ifndef DYNTRACE_COUNT_ROWS_H
#define DYNTRACE_COUNT_ROWS_H

#include "control/base/vec.h"
#include "control/event/question.h"
#include "control/record/distribution.h"

struct session;

struct count_row {
	char *names[QUESTION_KEYS_MAX]; /* one per key; owned */
	bool is_number[QUESTION_KEYS_MAX];
	bool is_other; /* all keys for which no room was left; no names */
	uint64_t hits;
	int64_t total; /* of durations: with a call of the row on the thread's stack (O5) */
	int64_t self; /* of durations */
	struct distribution values;
};

struct count_rows {
	VEC(struct count_row) rows; /* the row of other keys is the last, if it is there */
	bool has_values, is_time;
};

/* Reads all tracepoints that count by key. Rows of several tracepoints with the same keys become
 * one. `takes`: the counts begin at 0 again, and no hit is lost or counted twice. */
struct error *count_rows_read(const struct session *session, bool takes,
			      struct count_rows *ret_rows);
/* The rows of the session's tracepoint with this index; none, if it doesn't count by key. */
struct error *count_rows_read_one(const struct session *session, size_t index, bool takes,
				  struct count_rows *ret_rows);
/* Moves the rows of `from` to `to`; those with the same keys become one. After an error without
 * rows in `from` all rows are in `to`, some of the same keys apart. */
struct error *count_rows_add(struct count_rows *to, struct count_rows *from);
void count_rows_free(struct count_rows *rows);

#endif
