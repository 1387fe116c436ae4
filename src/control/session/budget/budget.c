#include "budget.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "budget_state.h"
#include "control/base/cleanup.h"
#include "control/base/now.h"
#include "control/session/state/switches.h"
#include "control/tracers/count/count_tracer.h"
#include "control/tracers/count/demotion.h"
#include "control/tracers/count/hit_cost.h"

#define MS 1000000ULL
#define LOOK_NS (50 * MS)
#define PEEK_NS (10 * MS) /* how long those that are off are counted, to know their rates */
#define PEEK_PAUSE_NS (1000 * MS)
#define RAISE_PAUSE_NS (500 * MS) /* after any change of levels */
#define PEAK_NS (1000 * MS) /* a peak counts for one to two of these */
/* Levels are lowered to the first share of the budget, and raised up to the second, by peaks. */
#define LOWER_TO 0.65
#define RAISE_TO 0.5
#define IDLE_CPU 0.1 /* processors: a target that uses less counts as if it used so much */
/* This share of its CPU time is the target's own at least: hits may cost less than by estimate. */
#define OWN_LEAST 0.2
#define SHORT_NS 100.0 /* a call that takes longer tells more */
#define WORTH_MAX 100.0

/* ---- what is seen ---------------------------------------------------------------------------- */

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
static bool begin_look(struct session *session, struct budget *budget)
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
	struct tracepoint_times times = { 0 };

	latency_times(&session->latency, tracepoint->probe.event.id, &times);
	double mean = times.calls ? (double)times.durations / (double)times.calls : 0;
	double worth = mean / SHORT_NS;
	return worth < 1 ? 1 : worth > WORTH_MAX ? WORTH_MAX : worth;
}

/* Notes the tracepoint's hits since the last look; returns their number. While it is off, and in
 * the code, its trampoline is in the way of others as if it were hit as often as before. */
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
	if (tracepoint->level == SWITCH_OFF && !budget->peeks && !demotion->is_out)
		return (uint64_t)(demotion->rate * budget->own / 1e9);
	return demotion->hits;
}

/* What these hits have cost, in ns. */
static double cost_of(const struct session *session, const struct tracepoint *tracepoint)
{
	const struct demotion *demotion = tracepoint->demotion;
	struct hit_cost cost = hit_cost_of(tracepoint, session->spread);

	return (double)demotion->new_recorded * cost.recorded +
	       (double)demotion->new_judged * cost.judged +
	       (double)demotion->new_counted * cost.counted;
}

/* What a hit costs at SWITCH_ON: a filter lets some through, as many as lately. */
static double cost_on(struct demotion *demotion, const struct hit_cost *cost)
{
	if (!demotion->is_judged)
		return cost->recorded;
	if (demotion->new_judged)
		demotion->passed = (double)demotion->new_recorded / (double)demotion->new_judged;
	return cost->judged + demotion->passed * cost->recorded;
}

/* Adds what nobody counts: hits while the tracepoint is off. */
static void guess_unseen(struct tracepoint *tracepoint, const struct hit_cost *cost, double own)
{
	struct demotion *demotion = tracepoint->demotion;
	double hits = demotion->rate * own / 1e9;

	demotion->unseen += hits;
	if (!demotion->is_out)
		demotion->cost += hits * cost->off;
}

/* Computes the rate of these hits, and its peaks; `own`: the target's own CPU time meanwhile. */
static void rate(const struct session *session, const struct budget *budget,
		 struct tracepoint *tracepoint, double own, struct budget_item *item)
{
	struct demotion *demotion = tracepoint->demotion;
	struct hit_cost cost = hit_cost_of(tracepoint, session->spread);

	demotion->cost += cost_of(session, tracepoint);
	if (tracepoint->level != SWITCH_OFF || (budget->peeks && !demotion->is_out))
		demotion->rate = (double)demotion->hits * 1e9 / own;
	else
		guess_unseen(tracepoint, &cost, own);
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
	if (!items || !list || !hits)
		return false;
	budget->room = count;
	return true;
}

/* Lists what can be demoted, and notes its hits. False: out of memory. */
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
		sum += budget->hits[budget->count];
		budget->tracepoints[budget->count++] = tracepoint;
	}
	session->spread = 0;
	for (size_t i = 0; i < budget->count; i++)
		hit_cost_spread_add(&session->spread, budget->hits[i], sum);
	return true;
}

/* Computes what the hits of the last `ns` have cost, and rates. False: out of memory. */
static bool look(struct session *session, struct budget *budget, uint64_t ns)
{
	double cost = 0, idle = IDLE_CPU * (double)ns;

	if (!list(session, budget))
		return false;
	for (size_t i = 0; i < budget->count; i++)
		cost += cost_of(session, budget->tracepoints[i]);
	double cpu = (double)spent(session, budget, ns), own = cpu - cost;
	own = own > OWN_LEAST * cpu ? own : OWN_LEAST * cpu;
	own = own > idle ? own : idle;
	budget->own = own;
	budget->cpu_share = own / (double)ns;
	for (size_t i = 0; i < budget->count; i++)
		rate(session, budget, budget->tracepoints[i], own, &budget->items[i]);
	return true;
}

/* The cost of the hits of tracepoints that are off, and still in the code, in ns per second. */
static double off_cost(const struct session *session, const struct budget *budget)
{
	double sum = 0;

	for (size_t i = 0; i < budget->count; i++) {
		const struct demotion *demotion = budget->tracepoints[i]->demotion;

		if (budget->tracepoints[i]->level == SWITCH_OFF && !demotion->is_out)
			sum += demotion->rate *
			       hit_cost_of(budget->tracepoints[i], session->spread).off;
	}
	return sum;
}

/* ---- what is done ---------------------------------------------------------------------------- */

static void change(struct session *session, struct budget *budget, struct tracepoint *tracepoint,
		   enum tramp_switch to, uint64_t now)
{
	struct demotion *demotion = tracepoint->demotion;

	if (tracepoint->level == SWITCH_OFF) {
		demotion->off_ns += now - demotion->off_since;
		demotion->off_since = 0;
	}
	if (to == SWITCH_OFF)
		demotion->off_since = now;
	tracepoint->level = to;
	demotion->steps++;
	switches_write(session, tracepoint); /* U11 */
	vec_push(&budget->steps, ((struct tracepoint_step){ tracepoint, to }));
}

/* Changes levels to those of the items. True: some changed. */
static bool apply(struct session *session, struct budget *budget, uint64_t now)
{
	bool any = false;

	for (size_t i = 0; i < budget->count; i++) {
		if (budget->tracepoints[i]->level == budget->items[i].level)
			continue;
		change(session, budget, budget->tracepoints[i], budget->items[i].level, now);
		any = true;
	}
	return any;
}

static void set_peaks(struct budget *budget)
{
	for (size_t i = 0; i < budget->count; i++) {
		const struct demotion *demotion = budget->tracepoints[i]->demotion;

		budget->items[i].rate = demotion->peak > demotion->peak_before ?
						demotion->peak :
						demotion->peak_before;
	}
}

static void lower(struct session *session, struct budget *budget, double limit, uint64_t now)
{
	if (!budget_choice_lower(budget->items, budget->count, limit))
		return;
	if (apply(session, budget, now))
		budget->changed = now;
	double cost = budget_choice_cost(budget->items, budget->count) + off_cost(session, budget);
	budget_out_take(session, budget, cost - limit, now);
}

static void raise_levels(struct session *session, struct budget *budget, double limit, uint64_t now)
{
	budget_out_back(session, budget, now);
	if (now < budget->changed + RAISE_PAUSE_NS)
		return;
	set_peaks(budget);
	if (budget_choice_raise(budget->items, budget->count, limit) &&
	    apply(session, budget, now))
		budget->changed = now;
}

static void decide(struct session *session, struct budget *budget, uint64_t now)
{
	double cost = budget_choice_cost(budget->items, budget->count) + off_cost(session, budget);
	double limit = session->options.overhead * 1e9;

	session->overhead = cost / 1e9;
	if (cost > limit)
		lower(session, budget, LOWER_TO * limit, now);
	else
		raise_levels(session, budget, RAISE_TO * limit, now);
}

/* Counts hits of tracepoints that are off, for a moment: else nobody knew when they can come
 * back. */
static void peek(struct session *session, struct budget *budget, bool begin, uint64_t now)
{
	budget->peeks = false;
	for (size_t i = 0; i < session->tracepoints.count && !session->stopped; i++) {
		struct tracepoint *tracepoint = session->tracepoints.items[i];

		if (tracepoint->level != SWITCH_OFF || !tracepoint->demotion ||
		    tracepoint->demotion->is_out || tracepoint->is_off)
			continue;
		if (begin)
			switches_write_probe(session, &tracepoint->probe, SWITCH_COUNTED);
		else
			switches_write(session, tracepoint);
		budget->peeks |= begin;
	}
	if (begin)
		budget->peeked = now;
}

static void step(struct session *session, uint64_t now)
{
	struct budget *budget = session->budget;
	uint64_t ns = now - budget->looked;

	if (!session->begun || !budget || session->stopped || !session->agent)
		return;
	if (budget->looked && ns < (budget->peeks ? PEEK_NS : LOOK_NS))
		return;
	if (!begin_look(session, budget))
		return;
	/* all hits up to now, not only those of full chunks */
	if (session->reader)
		error_free(reader_flush(session->reader));
	uint64_t before = budget->looked;
	budget->looked = now;
	budget->new_peaks = now >= budget->peaks_since + PEAK_NS;
	if (budget->new_peaks)
		budget->peaks_since = now;
	if (before && look(session, budget, ns)) {
		bool peeked = budget->peeks;

		decide(session, budget, now);
		if (peeked)
			peek(session, budget, false, now);
		error_free(budget_steps_write(session, budget));
	}
	if (now >= budget->peeked + PEEK_PAUSE_NS)
		peek(session, budget, true, now);
	session->step_by = now + (budget->peeks ? PEEK_NS : LOOK_NS);
}

static void free_budget(struct session *session)
{
	struct budget *budget = session->budget;

	if (!budget)
		return;
	free(budget->cpu);
	free(budget->items);
	free(budget->tracepoints);
	free(budget->hits);
	vec_free(&budget->steps);
	free(budget);
	session->budget = NULL;
}

static const struct session_guest guest = { .step = step, .free = free_budget };

struct error *budget_enable(struct session *session)
{
	assert(session->options.overhead > 0 && !session->budget);
	session->budget = calloc(1, sizeof(*session->budget));
	if (!session->budget || !vec_push(&session->processes, session->proc->pid))
		return error_new(ERROR_FAILED, "out of memory");
	hit_cost_calibrate();
	session_invite(session, &guest);
	return NULL;
}
