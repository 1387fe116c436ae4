/*
 * arrival_index.h - a request's tracepoints, by place and by name.
 *
 * A glob that waits for a library meets tens of thousands of places in it, and the session has as
 * many tracepoints: each place is looked up here instead of in all of them (H38). Valid as long as
 * the session's list of tracepoints doesn't change.
 */
#ifndef DYNTRACE_ARRIVAL_INDEX_H
#define DYNTRACE_ARRIVAL_INDEX_H

#include "session_state.h"

struct waiting {
	struct tracepoint *tracepoint;
	size_t at; /* in the session's list */
	bool is_taken;
};

struct arrival_index {
	bool is_glob;
	VEC(uint64_t) placed; /* addresses, sorted */
	VEC(struct waiting) waiting; /* sorted by name, those for any place first; then by `at` */
	size_t nameless; /* that many are for any place */
};

/* Fails only if memory is short. The caller frees in any case. */
struct error *arrival_index_make(const struct session *session, const struct request *request,
				 struct arrival_index *ret_index);
void arrival_index_free(struct arrival_index *index);

/* Has the request a tracepoint at this place? */
bool arrival_index_has(const struct arrival_index *index, const struct place *place);

/* Takes the first tracepoint that waits for this place, or for any; no other place gets it. NULL:
 * none waits. */
struct tracepoint *arrival_index_take(struct arrival_index *index, const struct place *place);

#endif
