/*
 * budget_measure.c - what the target gets done before and after a change of levels, from which
 * budget_scale.h tells what hits really cost here.
 *
 * A span is a time without changes. The first look after a change is left out, as levels change
 * while hits are read. So are those in which tracepoints that are off are counted for a moment.
 */
#include "budget_state.h"
#include "control/tracers/count/demotion.h"

#define MS 1e6
#define BEFORE_NS (3 * MS) /* of the target's CPU time: a span that tells something */
#define AFTER_NS (10 * MS)
#define RECENT_NS (200 * MS) /* what is older than that is worth half */
#define FORGET_NS 3000000000ULL /* by the clock, for a comparison */

static void add_hits(const struct budget *budget)
{
	for (size_t i = 0; i < budget->count; i++) {
		struct demotion *demotion = budget->tracepoints[i]->demotion;

		if (budget->tracepoints[i]->level != SWITCH_OFF)
			demotion->span_hits += demotion->hits;
	}
}

static void halve(struct budget *budget)
{
	budget->span.cpu /= 2;
	budget->span.cost /= 2;
	for (size_t i = 0; i < budget->count; i++)
		budget->tracepoints[i]->demotion->span_hits /= 2;
}

/* The first measurement is that of all hits before, too. */
static void rescale_costs(const struct session *session, double by)
{
	for (size_t i = 0; i < session->tracepoints.count; i++) {
		if (session->tracepoints.items[i]->demotion)
			session->tracepoints.items[i]->demotion->cost *= by;
	}
}

static void compare(struct session *session, struct budget *budget)
{
	bool is_first = !budget->scale.is_measured;

	for (size_t i = 0; i < budget->count; i++) {
		const struct demotion *demotion = budget->tracepoints[i]->demotion;

		budget->paces[i] = (struct budget_pace){ .before = demotion->hits_before,
							 .after = demotion->span_hits };
	}
	if (budget_scale_compare(&budget->scale, budget->paces, budget->count, budget->span_before,
				 budget->span) &&
	    is_first)
		rescale_costs(session, budget->scale.scale);
}

void budget_measure_look(struct session *session, struct budget *budget, uint64_t now)
{
	budget_scale_age(&budget->scale, (double)(now - budget->measured) / 1e9);
	budget->measured = now;
	if (budget->peeks)
		return;
	if (budget->settles) {
		budget->settles = false;
		return;
	}
	budget->span.cpu += budget->look.cpu;
	budget->span.cost += budget->look.cost;
	add_hits(budget);
	if (budget->changed_at && budget->span.cpu >= AFTER_NS) {
		if (now < budget->changed_at + FORGET_NS)
			compare(session, budget);
		budget->changed_at = 0;
	}
	if (budget->span.cpu >= RECENT_NS)
		halve(budget);
}

void budget_measure_change(const struct session *session, struct budget *budget, uint64_t now)
{
	bool begins = budget->span.cpu >= BEFORE_NS &&
		      (!budget->changed_at || now >= budget->changed_at + FORGET_NS);

	if (begins) {
		budget->changed_at = now;
		budget->span_before = budget->span;
	}
	for (size_t i = 0; i < session->tracepoints.count; i++) {
		struct demotion *demotion = session->tracepoints.items[i]->demotion;

		if (demotion && begins)
			demotion->hits_before = demotion->span_hits;
		if (demotion)
			demotion->span_hits = 0;
	}
	budget->span = (struct budget_span){ 0 };
	budget->settles = true;
}
