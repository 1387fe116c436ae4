/*
 * top_rows.h - the numbers of `top`: one row per function, or per key, with what changed since the
 * last look.
 */
#ifndef DYNTRACE_TOP_ROWS_H
#define DYNTRACE_TOP_ROWS_H

#include "control/base/vec.h"
#include "control/record/distribution.h"
#include "control/session/session.h"
#include "options/calls_table.h"

#define TOP_HISTORY 8

struct top_row {
	char *name; /* of the function, or the keys; owned */
	bool is_off; /* the tracepoint is switched off */
	bool is_counted; /* --overhead: its calls have no durations now */
	bool has_times;
	uint64_t hits;
	int64_t total, self; /* since the beginning, in ns */
	int64_t mean, p50, p99, max;
	/* of the last interval */
	double rate; /* hits per second */
	double total_share, self_share; /* of one thread's time */
	float history[TOP_HISTORY]; /* rates, the newest last */
};

struct top_rows {
	VEC(struct top_row) items; /* by name */
	uint64_t read_ns; /* when; 0: not yet */
	double overhead; /* session_overhead */
	uint64_t hits;
	double rate;
	size_t functions; /* all, also those without hits */
	bool is_time; /* values are times */
};

/* Reads all rows with hits, and compares them with those of the last call. */
struct error *top_rows_read(struct session *session, bool by_key, struct top_rows *rows);
/* The values of one row; false: the row is gone. */
bool top_rows_values(struct session *session, bool by_key, const char *name,
		     struct distribution *ret_values);
void top_rows_free(struct top_rows *rows);

#endif
