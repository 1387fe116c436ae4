/*
 * budget_measure.c - what the target gets done before and after a change of levels, from which
 * budget_scale.h tells what hits really cost here.
 *
 * A span is a time without changes. The first look after a change is left out, as levels change
 * while hits are read. So are those in which tracepoints that are off are counted for a moment.
 *
 * Samples of where the CPU time goes tell without a change of levels.
 */
#include "budget_state.h"
#include "control/base/cleanup.h"
#include "control/tracers/count/demotion.h"

#define MS 1e6
#define BEFORE_NS (3 * MS) /* of the target's CPU time: a span that tells something */
#define AFTER_NS (10 * MS)
#define RECENT_NS (200 * MS) /* what is older than that is worth half */
#define FORGET_NS 3000000000ULL /* by the clock, for a comparison */
#define SAMPLES_NS 1000000000ULL
#define SAMPLES_FIRST 10 /* looks with samples, one after the other */

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

static void compare(struct session *session, struct budget *budget)
{
	for (size_t i = 0; i < budget->count; i++) {
		const struct demotion *demotion = budget->tracepoints[i]->demotion;

		budget->paces[i] = (struct budget_pace){ .before = demotion->hits_before,
							 .after = demotion->span_hits };
	}
	budget_scale_compare(&budget->scale, budget->paces, budget->count, budget->span_before,
			     budget->span);
	session->cost_measured = budget->scale.is_measured;
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

static bool is_ours(const void *context, uint64_t address)
{
	const struct agent *agent = context;
	const struct dt_control *control = agent->control;

	if (address - agent->control_at.v < AGENT_WHOLE_SIZE ||
	    address - control->stubs < (uint64_t)control->stub_count * DT_STUB_SIZE)
		return true;
	for (uint32_t i = 0; i < control->window_count && i < DT_WINDOWS_MAX; i++) {
		const struct dt_window *window = &control->windows[i];

		if (address - window->address < (uint64_t)window->pages * DT_PAGE)
			return true;
	}
	return false;
}

/* From this look to the next one, once per second, and more often until the first result: a thread
 * that sleeps and wakes often pays for being sampled. Where it isn't allowed, never again. */
static void begin_samples(struct session *session, struct budget *budget, uint64_t now)
{
	bool is_first = budget->sampled < SAMPLES_FIRST && !budget->scale.sampled;

	if (budget->no_samples || now < budget->samples_at)
		return;
	struct error *error = cpu_samples_begin(session->processes.items, session->processes.count,
						&budget->samples);
	budget->no_samples = error != NULL;
	error_free(error);
	budget->sampled++;
	budget->samples_at = is_first ? now : now + SAMPLES_NS;
}

void budget_measure_sample(struct session *session, struct budget *budget, uint64_t now)
{
	struct cpu_samples_sum sum = { 0 };

	if (budget->samples)
		sum = cpu_samples_read(budget->samples, is_ours, session->agent);
	cpu_samples_free(take_ptr(&budget->samples));
	struct budget_sample sample = { cpu_samples_share(&sum), sum.inside };
	budget_scale_spend(&budget->scale, &budget->look, sum.cpu_ns ? &sample : NULL);
	session->cost_scale = budget_scale_so_far(&budget->scale);
	begin_samples(session, budget, now);
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
