/*
 * budget_out.c - tracepoints that cost too much even while they are off: the jump to the trampoline
 * and back takes some ns in a program with thousands of them. They are taken out of the code, many
 * in one stop, and put back when what they would cost fits again: the target uses less CPU time, or
 * may do other things by now. What is known of their hits is worth half after some seconds.
 */
#include <stdlib.h>

#include "budget_state.h"
#include "control/base/cleanup.h"
#include "control/session/change.h"
#include "control/session/place.h"
#include "control/tracers/count/demotion.h"

#define SECOND 1000000000ULL
#define OUT_PAUSE_NS (SECOND / 5) /* from one stop to the next */
#define BACK_PAUSE_NS (10 * SECOND) /* from putting some back to the next */
#define SOONEST_NS (3 * SECOND) /* after the last ones were taken out */
#define ASK_NS (SECOND / 2)
#define HALF_LIFE_NS (10 * SECOND) /* of rates that nobody sees */

static int by_rate(const void *a, const void *b)
{
	const struct tracepoint *x = *(struct tracepoint *const *)a,
				*y = *(struct tracepoint *const *)b;

	if (x->demotion->rate == y->demotion->rate)
		return 0;
	return x->demotion->rate < y->demotion->rate ? 1 : -1;
}

static int by_rate_up(const void *a, const void *b)
{
	return by_rate(b, a);
}

void budget_out_list(const struct session *session, bool is_out, struct tracepoint_list *ret_list)
{
	for (size_t i = 0; i < session->tracepoints.count; i++) {
		struct tracepoint *tracepoint = session->tracepoints.items[i];

		if (tracepoint->demotion && !tracepoint->waits && tracepoint->level == SWITCH_OFF &&
		    tracepoint->demotion->is_out == is_out)
			vec_push(ret_list, tracepoint);
	}
	if (ret_list->count)
		qsort(ret_list->items, ret_list->count, sizeof(*ret_list->items),
		      is_out ? by_rate_up : by_rate);
	ret_list->count = ret_list->count < BUDGET_OUT_MAX ? ret_list->count : BUDGET_OUT_MAX;
}

/* Which of them are out by now? */
static void note_out(const struct tracepoint_list *list, uint64_t now)
{
	for (size_t i = 0; i < list->count; i++) {
		struct demotion *demotion = list->items[i]->demotion;

		demotion->is_out = !list->items[i]->probe.site;
		demotion->out_since = now;
	}
}

void budget_out_take(struct session *session, struct budget *budget, double excess, uint64_t now)
{
	struct tracepoint_list list = { 0 };
	size_t count = 0;

	/* a daemon's commands expect that what is placed has a site */
	if (excess <= 0 || now < budget->out_at + OUT_PAUSE_NS || session->options.tracepoints_max)
		return;
	budget_out_list(session, false, &list);
	for (; count < list.count && excess > 0 && list.items[count]->demotion->rate > 0; count++)
		excess -= list.items[count]->demotion->rate *
			  budget_hit_cost(session, list.items[count]).off;
	list.count = count;
	if (count) {
		error_free(change_release(session, &list)); /* what it can't do stays off */
		budget_measure_change(session, budget, now);
		budget->out_at = now;
	}
	note_out(&list, now);
	vec_free(&list);
}

double budget_out_expected(const struct budget *budget, const struct demotion *demotion,
			   uint64_t now)
{
	double busy = budget->busy > budget->busy_before ? budget->busy : budget->busy_before;
	double rate = demotion->rate;

	for (uint64_t age = now - demotion->out_since; age >= HALF_LIFE_NS && rate > 0;
	     age -= HALF_LIFE_NS)
		rate /= 2;
	return busy < BUDGET_IDLE_CPU ? rate * busy / BUDGET_IDLE_CPU : rate;
}

/* Shortens the list to those whose hits would fit, while they are off. */
static void keep_fitting(const struct session *session, const struct budget *budget, double room,
			 uint64_t now, struct tracepoint_list *list)
{
	size_t count = 0;

	for (; count < list->count; count++) {
		struct tracepoint *tracepoint = list->items[count];

		room -= budget_out_expected(budget, tracepoint->demotion, now) *
			budget_hit_cost(session, tracepoint).off;
		if (room < 0)
			break;
	}
	list->count = count;
}

void budget_out_back(struct session *session, struct budget *budget, double room, uint64_t now)
{
	struct tracepoint_list list = { 0 };

	if (!budget->out_at || now < budget->out_at + SOONEST_NS || now < budget->back_at)
		return;
	budget->back_at = now + ASK_NS;
	budget_out_list(session, true, &list);
	keep_fitting(session, budget, room, now, &list);
	if (list.count) {
		_cleanup_error_ struct error *error = place_list(session, &list, NULL);

		if (error)
			error_free(change_release(session, &list));
		budget_measure_change(session, budget, now);
		budget->back_at = now + BACK_PAUSE_NS;
	}
	note_out(&list, now);
	vec_free(&list);
}
