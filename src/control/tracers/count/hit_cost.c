#include "hit_cost.h"

#include <math.h>
#include <x86intrin.h>

#include "control/base/now.h"
#include "control/trampoline/hit_timing.h"

#define ROUNDS 16
#define READINGS 256

/* Ratios to one reading of the clock. */
#define FIELD 0.05 /* each word of an event */
#define GATHERED 12.0 /* values that the agent gathers: follows pointers, copies strings */
#define FUNCTION 12.0 /* LTTng-UST's, or the user's own */
#define LINE 300.0 /* log --sync: a line that the hit's own thread writes */
/* Those of trampolines, where these can't be run: of redis, with all of its functions. */
static const struct hit_timing by_ratio = { .bare = 3.0, .pair = 5.4, .counted = 1.3, .off = 0.5 };

#define TIMED_WORDS 3.0 /* of the events that hit_timing.h records */
#define LEAST_NS 0.3 /* differences of two times may be anything */
#define SHARE 1000 /* a tracepoint with fewer of all hits is hit too seldom to count */

static struct hit_timing timings[HIT_TIMING_SPREADS];
static bool is_measured;

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

static double clock_ns(void)
{
	static double ns; /* measured at the first use */

	if (!ns)
		ns = measure_clock();
	return ns;
}

void hit_cost_calibrate(void)
{
	static bool is_tried;

	if (!is_tried)
		is_measured = hit_timing_measure(timings);
	is_tried = true;
}

static double between(double low, double high, double part)
{
	double value = low + (high - low) * part;

	return value > LEAST_NS ? value : LEAST_NS;
}

/* Between the two timings whose spreads are around this one. */
static struct hit_timing timing_of(size_t spread)
{
	double unit = clock_ns(), part = 0;
	size_t low = 0, high;

	if (!is_measured)
		return (struct hit_timing){ unit * by_ratio.bare, unit * by_ratio.pair,
					    unit * by_ratio.counted, unit * by_ratio.off };
	while (low + 1 < HIT_TIMING_SPREADS && hit_timing_spreads[low + 1] <= spread)
		low++;
	high = low + 1 < HIT_TIMING_SPREADS ? low + 1 : low;
	if (high != low && spread > hit_timing_spreads[low])
		part = (double)(spread - hit_timing_spreads[low]) /
		       (hit_timing_spreads[high] - hit_timing_spreads[low]);
	const struct hit_timing *a = &timings[low], *b = &timings[high];
	return (struct hit_timing){ .bare = between(a->bare, b->bare, part),
				    .pair = between(a->pair, b->pair, part),
				    .counted = between(a->counted, b->counted, part),
				    .off = between(a->off, b->off, part) };
}

static double words(const struct tramp_event *event)
{
	double more = event ? (double)event->size / 8 - TIMED_WORDS : 0;

	return more > 0 ? FIELD * more : 0;
}

static double recorded(const struct tracepoint *tracepoint, const struct hit_timing *timing)
{
	const struct tramp_event *event = &tracepoint->probe.event;
	double unit = clock_ns(), cost = event->exit ? timing->pair : timing->bare;

	if (tracepoint->tracer->loads)
		return unit * FUNCTION;
	if (tracepoint->tracer->kind == TRACER_SYNC)
		return unit * (event->exit ? 2 * LINE : LINE);
	if (!tracepoint->tracer->uses_pool)
		return event->exit ? timing->pair : timing->counted;
	cost += unit * (words(event) + (event->exit ? words(event->at_exit) : 0));
	if (event->program)
		cost += unit * GATHERED;
	if (event->exit && event->at_exit && event->at_exit->program)
		cost += unit * GATHERED;
	return cost;
}

struct hit_cost hit_cost_of(const struct tracepoint *tracepoint, size_t spread)
{
	struct hit_timing timing = timing_of(spread);
	struct hit_cost cost = { .off = timing.off };

	cost.counted = timing.counted > cost.off ? timing.counted : cost.off;
	cost.recorded = recorded(tracepoint, &timing);
	if (cost.recorded < cost.counted)
		cost.recorded = cost.counted;
	/* a filter saves and restores registers as a count does; that of an exit takes a stub */
	cost.judged = cost.counted +
		      (tramp_is_paired(&tracepoint->probe.event) ? timing.pair : timing.counted);
	return cost;
}

void hit_cost_spread_add(size_t *spread, uint64_t hits, uint64_t sum)
{
	*spread += hits && hits >= sum / SHARE;
}
