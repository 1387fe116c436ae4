/*
 * budget_out.c - tracepoints that cost too much even while they are off: the jump to the trampoline
 * and back takes some ns in a program with thousands of them. They are taken out of the code, many
 * in one stop, and put back when the target uses less CPU time, or later and later to try.
 */
#include <assert.h>
#include <stdlib.h>

#include "budget_state.h"
#include "control/base/cleanup.h"
#include "control/session/change.h"
#include "control/session/place.h"
#include "control/tracers/count/demotion.h"

#define SECOND 1000000000ULL
#define OUT_PAUSE_NS (SECOND / 5) /* from one stop to the next */
#define FIRST_NS (10 * SECOND) /* until they are tried again; doubles */
#define LAST_NS (160 * SECOND)
#define SOONEST_NS (3 * SECOND) /* if the target uses half as much CPU time by then */

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
		budget->out_cpu = budget->cpu_share;
		budget->back_pause = budget->back_pause ? budget->back_pause : FIRST_NS;
		budget->back_at = now + budget->back_pause;
	}
	for (size_t i = 0; i < count; i++)
		list.items[i]->demotion->is_out = !list.items[i]->probe.site;
	vec_free(&list);
}

void budget_out_back(struct session *session, struct budget *budget, uint64_t now)
{
	bool is_calmer = budget->cpu_share < budget->out_cpu / 2 &&
			 now >= budget->out_at + SOONEST_NS;
	struct tracepoint_list list = { 0 };

	if (!budget->out_at || (now < budget->back_at && !is_calmer))
		return;
	budget_out_list(session, true, &list);
	if (list.count) {
		_cleanup_error_ struct error *error = place_list(session, &list, NULL);

		if (error)
			error_free(change_release(session, &list));
		budget_measure_change(session, budget, now);
		budget->back_pause = is_calmer				? FIRST_NS :
				     budget->back_pause * 2 < LAST_NS ? budget->back_pause * 2 :
									LAST_NS;
		budget->back_at = now + budget->back_pause;
	}
	for (size_t i = 0; i < list.count; i++)
		list.items[i]->demotion->is_out = !list.items[i]->probe.site;
	vec_free(&list);
}
