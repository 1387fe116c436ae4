#include "hit_cost.h"

#include <math.h>
#include <x86intrin.h>

#include "control/base/now.h"

#define ROUNDS 16
#define READINGS 256

/* Ratios to one reading of the clock, in real programs. */
#define BARE 3.0
#define FIELD 0.05 /* each word of an event */
#define GATHERED 12.0 /* values that the agent gathers: follows pointers, copies strings */
#define PAIR 5.4 /* entry and exit */
#define FUNCTION 12.0 /* LTTng-UST's, or the user's own */
#define LINE 300.0 /* log --sync: a line that the hit's own thread writes */
#define COUNTED 1.3
#define COUNTED_PAIR 5.0

/* The shortest of some tries: others had the processor in the longer ones. */
static double measure_clock(void)
{
	double least = INFINITY;

	for (int i = 0; i < ROUNDS; i++) {
		uint64_t begin = now_ns();

		for (int j = 0; j < READINGS; j++)
			__rdtsc();
		double each = (double)(now_ns() - begin) / READINGS;
		least = each < least ? each : least;
	}
	return least;
}

double hit_cost_clock_ns(void)
{
	static double ns; /* measured at the first use */

	if (!ns)
		ns = measure_clock();
	return ns;
}

static double words(const struct tramp_event *event)
{
	return event ? FIELD * (double)event->size / 8 : 0;
}

static double recorded(const struct tracepoint *tracepoint)
{
	const struct tramp_event *event = &tracepoint->probe.event;
	double cost = event->exit ? PAIR : BARE;

	if (tracepoint->tracer->loads)
		return FUNCTION;
	if (tracepoint->tracer->kind == TRACER_SYNC)
		return event->exit ? 2 * LINE : LINE;
	if (!tracepoint->tracer->uses_pool)
		return event->exit ? COUNTED_PAIR : COUNTED;
	cost += words(event) + (event->exit ? words(event->at_exit) : 0);
	if (event->program)
		cost += GATHERED;
	if (event->exit && event->at_exit && event->at_exit->program)
		cost += GATHERED;
	return cost;
}

struct hit_cost hit_cost_of(const struct tracepoint *tracepoint)
{
	double unit = hit_cost_clock_ns();

	return (struct hit_cost){ .recorded = unit * recorded(tracepoint),
				  .counted = unit * COUNTED,
				  .off = unit * HIT_COST_OFF };
}

double hit_cost_at(const struct hit_cost *cost, enum tramp_switch level)
{
	return level == SWITCH_ON	 ? cost->recorded :
	       level == SWITCH_COUNTED ? cost->counted :
					 cost->off;
}
