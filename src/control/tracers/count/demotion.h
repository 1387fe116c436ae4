/*
 * demotion.h - tracepoints that may be counted instead of recorded, while they cost too much: the
 * cell in which the target counts them then (struct tramp_event.demoted).
 *
 * session/budget decides which tracepoints are demoted, and when.
 */
#ifndef DYNTRACE_DEMOTION_H
#define DYNTRACE_DEMOTION_H

#include "control/session/state/session_state.h"
#include "counts.h"

/* One tracepoint's. All but the cell is kept by session/budget. */
struct demotion {
	struct counts_cell cell;
	struct counts_cell judged_cell; /* of tramp_event.judged, if is_judged */
	bool is_judged;
	uint64_t recorded, counted, judged; /* hits at the last look */
	uint64_t new_recorded, new_counted, new_judged; /* in the time before the last look */
	uint64_t hits; /* all of that time, also those that a filter left out */
	double cost; /* ns: of all hits until the last look, as timed (session.cost_scale) */
	double unseen; /* hits while it was off, by estimate */
	double passed; /* the share of hits that a filter let through */
	double rate; /* the hits per second of CPU time that the target used for itself */
	double peak, peak_before; /* the highest rates of the last seconds */
	uint64_t span_hits, hits_before; /* of budget_measure.c: since the last change; before it */
	uint64_t off_since, off_ns; /* of CLOCK_MONOTONIC; time without any count, before that */
	uint64_t steps; /* changes of its level */
	bool is_out; /* taken out of the code, while it is off */
	uint64_t out_since;
	bool is_touched; /* its other cell (count_use) is in use: reading it costs no memory */
	bool is_named; /* in the enumeration of the trace's steps */
};

/* May the tracepoint be demoted? Not if hits are counted by key: a demoted one has none. */
bool demotion_is_wanted(const struct session *session, const struct tracepoint *tracepoint);
/* Is every hit counted before a filter or a limit leaves some out? What these cost would not be
 * known. */
bool demotion_is_judged(const struct tracepoint *tracepoint);
/* After count_tracer_map: takes a cell, and gives the trampoline its way to it. */
struct error *demotion_prepare(struct session *session, struct tracepoint *tracepoint);
void demotion_free(struct tracepoint *tracepoint);

/* Hits that were only counted. 0 without a demotion. */
uint64_t demotion_hits(const struct session *session, const struct tracepoint *tracepoint);
/* Hits that a filter or a limit was asked about. 0 without them. */
uint64_t demotion_judged(const struct session *session, const struct tracepoint *tracepoint);
/* Time without any count until `now`. */
uint64_t demotion_off_ns(const struct tracepoint *tracepoint, uint64_t now);

#endif
