#include "budget.h"

#include <assert.h>
#include <stdlib.h>

#include "budget_state.h"
#include "control/base/now.h"
#include "control/session/state/switches.h"
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

static void change_level(struct session *session, struct budget *budget,
			 struct tracepoint *tracepoint, enum tramp_switch to, uint64_t now)
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

/* Changes levels to those of the items. */
static void apply(struct session *session, struct budget *budget, uint64_t now)
{
	bool any = false;

	for (size_t i = 0; i < budget->count; i++) {
		if (budget->tracepoints[i]->level == budget->items[i].level)
			continue;
		change_level(session, budget, budget->tracepoints[i], budget->items[i].level, now);
		any = true;
	}
	if (any) {
		budget->changed = now;
		budget_measure_change(session, budget, now);
	}
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

/* The cost of all hits, in ns per second. */
static double sum_costs(const struct session *session, const struct budget *budget)
{
	return budget_choice_cost(budget->items, budget->count) + budget_off_cost(session, budget);
}

static void lower(struct session *session, struct budget *budget, double limit, uint64_t now)
{
	if (!budget_choice_lower(budget->items, budget->count, limit))
		return;
	apply(session, budget, now);
	double cost = sum_costs(session, budget);
	budget_out_take(session, budget, cost - limit, now);
}

static void raise_levels(struct session *session, struct budget *budget, double limit, uint64_t now)
{
	budget_out_back(session, budget, limit - sum_costs(session, budget), now);
	if (now < budget->changed + RAISE_PAUSE_NS)
		return;
	set_peaks(budget);
	if (budget_choice_raise(budget->items, budget->count, limit))
		apply(session, budget, now);
}

static void decide(struct session *session, struct budget *budget, uint64_t now)
{
	double cost = sum_costs(session, budget);
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
	if (!budget_look_begin(session, budget))
		return;
	/* all hits up to now, not only those of full chunks */
	if (session->reader)
		error_free(reader_flush(session->reader));
	uint64_t before = budget->looked;
	budget->looked = now;
	budget->new_peaks = now >= budget->peaks_since + PEAK_NS;
	if (budget->new_peaks)
		budget->peaks_since = now;
	if (!budget_look(session, budget, ns))
		return;
	if (before) { /* nobody knows how long the first hits took */
		bool peeked = budget->peeks;

		budget_measure_look(session, budget, now);
		budget_measure_sample(session, budget, now);
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
	free(budget->paces);
	cpu_samples_free(budget->samples);
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
	budget_scale_init(&session->budget->scale);
	hit_cost_calibrate();
	session_invite(session, &guest);
	return NULL;
}
