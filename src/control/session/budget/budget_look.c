/*
 * budget_look.c - what hits have cost since the last look, and how often each tracepoint is hit.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "budget_state.h"
#include "control/tracers/count/count_tracer.h"
#include "control/tracers/count/demotion.h"

/* This share of its CPU time is the target's own at least: hits may cost less than by estimate. */
#define OWN_LEAST 0.05
#define SHORT_NS 100.0 /* a call that takes longer tells more */
#define WORTH_MAX 100.0

/* CPU time of a process so far, in ns; 0: it is gone. */
static uint64_t cpu_time(pid_t pid)
{
	struct timespec time;
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &time))
		return 0;
	return (uint64_t)time.tv_sec * 1000000000ULL + (uint64_t)time.tv_nsec;
}

/* Before hits are read: notes the CPU times. False: out of memory. */
bool budget_look_begin(struct session *session, struct budget *budget)
{
	size_t count = session->processes.count;

	if (count > budget->cpu_count) {
		struct budget_cpu *cpu = reallocarray(budget->cpu, count, sizeof(*cpu));

		if (!cpu)
			return false;
		memset(cpu + budget->cpu_count, 0, (count - budget->cpu_count) * sizeof(*cpu));
		budget->cpu = cpu;
		budget->cpu_count = count;
	}
	for (size_t i = 0; i < count; i++) {
		budget->cpu[i].before = budget->cpu[i].now;
		budget->cpu[i].now = cpu_time(session->processes.items[i]);
	}
	return true;
}

/* After hits were read: CPU time from the begin of the look before to now. All new hits fall
 * into it, however long we waited for a processor in between: rates are never too high. */
static uint64_t spent(const struct session *session, const struct budget *budget, uint64_t ns)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < budget->cpu_count; i++) {
		uint64_t now = cpu_time(session->processes.items[i]);

		if (!now && budget->cpu[i].before)
			sum += ns; /* it has ended meanwhile: nobody knows how much it used */
		else if (budget->cpu[i].before && now > budget->cpu[i].before)
			sum += now - budget->cpu[i].before;
	}
	return sum;
}

/* Hits that were recorded, or counted by the tracer itself. */
static uint64_t recorded_hits(const struct session *session, struct tracepoint *tracepoint)
{
	const struct event_type *type = &session->types->items[tracepoint->probe.event.id];
	struct demotion *demotion = tracepoint->demotion;
	const struct counts *counts = &session->count->counts;

	if (!tracepoint->count)
		return type->hits + type->lost;
	if (tracepoint->count->cell.has_times && !demotion->is_touched)
		demotion->is_touched = counts_are_touched(counts, &tracepoint->count->cell);
	if (tracepoint->count->cell.has_times && !demotion->is_touched)
		return 0;
	return counts_hits(counts, &tracepoint->count->cell);
}

static double worth_of(const struct session *session, const struct tracepoint *tracepoint)
{
	const struct distribution *times =
		latency_durations(&session->latency, tracepoint->probe.event.id);
	double mean = times && times->count ? (double)times->sum / (double)times->count : 0;
	double worth = mean / SHORT_NS;
	return worth < 1 ? 1 : worth > WORTH_MAX ? WORTH_MAX : worth;
}

/* Notes the tracepoint's hits since the last look; returns how often its function was called. While
 * it is off or out, nobody counts: the function itself is in the way of others' trampolines, in
 * caches and predictors, as if it were called as often as before. */
static uint64_t see(const struct session *session, const struct budget *budget,
		    struct tracepoint *tracepoint)
{
	struct demotion *demotion = tracepoint->demotion;
	uint64_t recorded = recorded_hits(session, tracepoint) - demotion->recorded;
	uint64_t counted = demotion_hits(session, tracepoint) - demotion->counted;
	uint64_t judged = demotion_judged(session, tracepoint) - demotion->judged;

	demotion->recorded += recorded;
	demotion->counted += counted;
	demotion->judged += judged;
	demotion->new_recorded = recorded;
	demotion->new_counted = counted;
	demotion->new_judged = judged;
	demotion->hits = (demotion->is_judged ? judged : recorded) + counted;
	if (tracepoint->level == SWITCH_OFF && (!budget->peeks || demotion->is_out))
		return (uint64_t)(demotion->rate * budget->own / 1e9);
	return demotion->hits;
}

struct hit_cost budget_hit_cost(const struct session *session, const struct tracepoint *tracepoint)
{
	struct hit_cost cost = hit_cost_of(tracepoint, session->spread);
	double scale = budget_scale_now(&session->budget->scale);

	return (struct hit_cost){ .recorded = cost.recorded * scale,
				  .counted = cost.counted * scale,
				  .off = cost.off * scale,
				  .judged = cost.judged * scale };
}

/* The cost of these hits, in ns. */
static double cost_of(const struct session *session, const struct tracepoint *tracepoint)
{
	const struct demotion *demotion = tracepoint->demotion;
	struct hit_cost cost = budget_hit_cost(session, tracepoint);

	return (double)demotion->new_recorded * cost.recorded +
	       (double)demotion->new_judged * cost.judged +
	       (double)demotion->new_counted * cost.counted;
}

/* The cost of a hit at SWITCH_ON: a filter lets some through, as many as lately. */
static double cost_on(struct demotion *demotion, const struct hit_cost *cost)
{
	if (!demotion->is_judged)
		return cost->recorded;
	if (demotion->new_judged)
		demotion->passed = (double)demotion->new_recorded / (double)demotion->new_judged;
	return cost->judged + demotion->passed * cost->recorded;
}

/* Adds what nobody counts: hits while the tracepoint is off. */
static void guess_unseen(struct tracepoint *tracepoint, double off_cost, double own)
{
	struct demotion *demotion = tracepoint->demotion;
	double hits = demotion->rate * own / 1e9;

	demotion->unseen += hits;
	if (!demotion->is_out)
		demotion->cost += hits * off_cost;
}

/* Computes the rate of these hits, and its peaks; `own`: the target's own CPU time meanwhile. */
static void rate(const struct session *session, const struct budget *budget,
		 struct tracepoint *tracepoint, double own, struct budget_item *item)
{
	struct demotion *demotion = tracepoint->demotion;
	struct hit_cost cost = budget_hit_cost(session, tracepoint);

	demotion->cost += cost_of(session, tracepoint) / budget_scale_now(&budget->scale);
	if (tracepoint->level != SWITCH_OFF || (budget->peeks && !demotion->is_out))
		demotion->rate = (double)demotion->hits * 1e9 / own;
	else
		guess_unseen(tracepoint, cost.off / budget_scale_now(&budget->scale), own);
	if (budget->new_peaks) {
		demotion->peak_before = demotion->peak;
		demotion->peak = 0;
	}
	if (demotion->peak < demotion->rate)
		demotion->peak = demotion->rate;
	*item = (struct budget_item){ .level = tracepoint->level,
				      .rate = demotion->rate,
				      /* what is off can be taken out */
				      .cost = { cost_on(demotion, &cost), cost.counted, 0 },
				      .worth = worth_of(session, tracepoint),
				      .is_fixed = demotion->is_out,
				      .has_counted = demotion->is_judged ||
						     cost.counted < cost.recorded };
}

static bool make_room(struct budget *budget, size_t count)
{
	if (count <= budget->room)
		return true;
	void *items = reallocarray(budget->items, count, sizeof(*budget->items));
	budget->items = items ? items : budget->items;
	void *list = reallocarray(budget->tracepoints, count, sizeof(*budget->tracepoints));
	budget->tracepoints = list ? list : budget->tracepoints;
	void *hits = reallocarray(budget->hits, count, sizeof(*budget->hits));
	budget->hits = hits ? hits : budget->hits;
	void *paces = reallocarray(budget->paces, count, sizeof(*budget->paces));
	budget->paces = paces ? paces : budget->paces;
	if (!items || !list || !hits || !paces)
		return false;
	budget->room = count;
	return true;
}

static bool is_ever_hit(const struct demotion *demotion)
{
	return demotion->recorded || demotion->counted || demotion->judged;
}

/* Lists what costs something and can be demoted, and notes its hits. False: out of memory. */
static bool list(struct session *session, struct budget *budget)
{
	uint64_t sum = 0;

	budget->count = 0;
	if (!make_room(budget, session->tracepoints.count))
		return false;
	for (size_t i = 0; i < session->tracepoints.count; i++) {
		struct tracepoint *tracepoint = session->tracepoints.items[i];

		if (!tracepoint->demotion || !tracepoint->has_type || tracepoint->waits ||
		    (!tracepoint->probe.site && !tracepoint->demotion->is_out))
			continue;
		budget->hits[budget->count] = see(session, budget, tracepoint);
		if (!is_ever_hit(tracepoint->demotion))
			continue;
		sum += budget->hits[budget->count];
		budget->tracepoints[budget->count++] = tracepoint;
	}
	session->spread = 0;
	for (size_t i = 0; i < budget->count; i++)
		hit_cost_spread_add(&session->spread, budget->hits[i], sum);
	return true;
}

/* Is the tracepoint's trampoline run, and nobody counts? */
static bool is_unseen(const struct budget *budget, const struct tracepoint *tracepoint)
{
	return tracepoint->level == SWITCH_OFF && !budget->peeks && !tracepoint->demotion->is_out;
}

double budget_off_cost(const struct session *session, const struct budget *budget)
{
	double sum = 0;

	for (size_t i = 0; i < budget->count; i++) {
		const struct tracepoint *tracepoint = budget->tracepoints[i];

		if (tracepoint->level == SWITCH_OFF && !tracepoint->demotion->is_out)
			sum += tracepoint->demotion->rate *
			       budget_hit_cost(session, tracepoint).off;
	}
	return sum;
}

static void note_busy(struct budget *budget, double processors)
{
	if (budget->new_peaks) {
		budget->busy_before = budget->busy;
		budget->busy = 0;
	}
	if (budget->busy < processors)
		budget->busy = processors;
}

bool budget_look(struct session *session, struct budget *budget, uint64_t ns)
{
	double cost = 0, unseen = 0, idle = BUDGET_IDLE_CPU * (double)ns;

	if (!list(session, budget))
		return false;
	for (size_t i = 0; i < budget->count; i++) {
		const struct tracepoint *tracepoint = budget->tracepoints[i];

		cost += cost_of(session, tracepoint);
		if (is_unseen(budget, tracepoint))
			unseen += tracepoint->demotion->rate / 1e9 *
				  budget_hit_cost(session, tracepoint).off;
	}
	/* the more the target gets done, the more hits nobody sees */
	double cpu = (double)spent(session, budget, ns), own = (cpu - cost) / (1 + unseen);
	own = own > OWN_LEAST * cpu ? own : OWN_LEAST * cpu;
	budget->look = (struct budget_span){ cpu, (cost + unseen * own) /
						  budget_scale_now(&budget->scale) };
	note_busy(budget, cpu / (double)ns);
	own = own > idle ? own : idle;
	budget->own = own;
	for (size_t i = 0; i < budget->count; i++)
		rate(session, budget, budget->tracepoints[i], own, &budget->items[i]);
	return true;
}
