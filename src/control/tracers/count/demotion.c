#include "demotion.h"

#include <assert.h>
#include <stdlib.h>

#include "count_tracer.h"

bool demotion_is_wanted(const struct session *session, const struct tracepoint *tracepoint)
{
	const struct tracer *tracer = tracepoint_placed_tracer(tracepoint);
	const struct tracepoint_spec *spec = &tracepoint->request->spec;

	return session->options.overhead > 0 && tracer && !spec->by && !spec->of &&
	       (tracer->kind == TRACER_CTF || tracer->kind == TRACER_COUNT);
}

bool demotion_is_judged(const struct tracepoint *tracepoint)
{
	const struct tracepoint_spec *spec = &tracepoint->request->spec;

	return spec->filter || spec->every || spec->first || spec->rate;
}

struct error *demotion_prepare(struct session *session, struct tracepoint *tracepoint)
{
	struct counts *counts = &session->count->counts;
	struct tramp_event *event = &tracepoint->probe.event;
	struct tramp_count ignored;

	if (!demotion_is_wanted(session, tracepoint))
		return NULL;
	if (!tracepoint->demotion) {
		struct demotion *demotion = calloc(1, sizeof(*demotion));

		if (!demotion || !counts_take(counts, false, &demotion->cell, &ignored) ||
		    (demotion_is_judged(tracepoint) &&
		     !counts_take(counts, false, &demotion->judged_cell, &ignored))) {
			free(demotion);
			return error_new(ERROR_FAILED, "out of memory for counters");
		}
		demotion->is_judged = demotion_is_judged(tracepoint);
		tracepoint->demotion = demotion;
	}
	event->demoted = counts_way(counts, &tracepoint->demotion->cell);
	event->demoted.own_only = !session->options.follow_fork;
	if (tracepoint->demotion->is_judged) {
		event->judged = counts_way(counts, &tracepoint->demotion->judged_cell);
		event->judged.own_only = event->demoted.own_only;
	}
	return NULL;
}

void demotion_free(struct tracepoint *tracepoint)
{
	free(tracepoint->demotion);
	tracepoint->demotion = NULL;
}

uint64_t demotion_hits(const struct session *session, const struct tracepoint *tracepoint)
{
	const struct demotion *demotion = tracepoint->demotion;

	return demotion ? counts_hits(&session->count->counts, &demotion->cell) : 0;
}

uint64_t demotion_judged(const struct session *session, const struct tracepoint *tracepoint)
{
	const struct demotion *demotion = tracepoint->demotion;

	return demotion && demotion->is_judged ?
		       counts_hits(&session->count->counts, &demotion->judged_cell) :
		       0;
}

uint64_t demotion_off_ns(const struct tracepoint *tracepoint, uint64_t now)
{
	const struct demotion *demotion = tracepoint->demotion;

	if (!demotion)
		return 0;
	assert(demotion->off_since <= now);
	return demotion->off_ns + (demotion->off_since ? now - demotion->off_since : 0);
}
