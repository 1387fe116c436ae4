/*
 * count_tracer.h - tracepoints whose hits are counted in the target: tracepoints of the tracer
 * count, and of the tracers that call functions.
 */
#ifndef DYNTRACE_COUNT_TRACER_H
#define DYNTRACE_COUNT_TRACER_H

#include "control/session/state/session_state.h"
#include "control/stop/stop.h"
#include "count_keys.h"
#include "count_rows.h"
#include "counts.h"

struct count_tracer {
	struct counts counts;
	uint32_t free_note; /* all entries of dt_control.counted below this index are used */
	struct count_rows past; /* of exec sessions that are over: counts by key */
};

/* The cell of one tracepoint. */
struct count_use {
	struct counts_cell cell;
	struct count_keys keys;
	uint32_t noted; /* index + 1 of dt_control.counted; 0: none */
};

bool count_tracer_create(struct session *session);
void count_tracer_free(struct session *session);
void count_tracer_free_use(struct tracepoint *tracepoint);
/* Lets `to` go on counting in the cell of `from`. False: out of memory. */
bool count_tracer_copy(const struct tracepoint *from, struct tracepoint *to);

/* Numbers of cells that the list's tracepoints need and don't have yet: without times, and with;
 * and the bytes for those with keys. */
void count_tracer_cells(const struct session *session, const struct tracepoint_list *list,
			size_t *ret_plain, size_t *ret_timed, uint64_t *ret_keyed);
/* Maps memory for these cells by way of a held thread. */
struct error *count_tracer_map(struct session *session, const struct tracepoint_list *list,
			       struct stop *stop);
/* Gives the trampoline its cell, and notes the cell for the next controller. */
struct error *count_tracer_prepare(struct session *session, struct tracepoint *tracepoint);
/* Removes that note. */
void count_tracer_unnote(struct session *session, struct tracepoint *tracepoint);

/* False: the tracepoint has no cell. */
bool count_tracer_read(const struct session *session, const struct tracepoint *tracepoint,
		       struct counts_sum *ret_sum);
/* The durations in ns. False: it has none, or out of memory. */
bool count_tracer_durations(const struct session *session, const struct tracepoint *tracepoint,
			    struct distribution *ret_durations);
/* Converts the sum's times to ns. */
void count_tracer_times(const struct session *session, const struct counts_sum *sum,
			struct tracepoint_times *ret_times);

#endif
