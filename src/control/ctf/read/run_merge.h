/*
 * run_merge.h - the events of one thread in the order of time.
 *
 * A thread's runs follow each other as a rule. Packets of calls that were recorded at their exit
 * (record/pairs.c) overlap with others: such runs are read side by side.
 *
 *	for (size_t run = 0; run < input->runs.count; run = merge.end) {
 *		run_merge_begin(&merge, input, run);
 *		while ((item = run_merge_next(&merge, &cursor)) < CURSOR_END)
 *			...
 *	}
 *	run_merge_free(&merge);
 */
#ifndef DYNTRACE_RUN_MERGE_H
#define DYNTRACE_RUN_MERGE_H

#include "trace_input.h"

/* A run that is being read. */
struct run_reading {
	struct packet_cursor cursor;
	enum cursor_item item; /* that the cursor has given last */
	uint64_t from; /* offset of the run in its file */
};

/* Zero it first. */
struct run_merge {
	const struct trace_input *input;
	size_t next, end; /* runs: the next one to open, and after the last that overlaps */
	VEC(struct run_reading *) readings; /* [0, open) are open, the others may be used again */
	size_t open;
	struct run_reading *given; /* its item was given, and is to be followed by its next */
	uint64_t done; /* bytes of runs that were read */
};

/* Begins with a run, and those of the same thread that overlap with it or with one another. */
void run_merge_begin(struct run_merge *merge, const struct trace_input *input, size_t run);
/* Gives the next item and its cursor. CURSOR_DAMAGED also if memory is short. */
enum cursor_item run_merge_next(struct run_merge *merge, struct packet_cursor **ret_cursor);
/* Bytes that were read since run_merge_begin, about. */
uint64_t run_merge_bytes(const struct run_merge *merge);
void run_merge_free(struct run_merge *merge);

#endif
