/*
 * budget_choice.h - which tracepoints are recorded, counted or off, so that all hits together cost
 * no more than a limit.
 *
 * A step down saves cost and loses what the tracepoint tells. Steps that save most for what they
 * lose come first: calls that are frequent and short. Counting goes last: a tracepoint that is off
 * has no exact count any more.
 *
 * Pure.
 */
#ifndef DYNTRACE_BUDGET_CHOICE_H
#define DYNTRACE_BUDGET_CHOICE_H

#include <stddef.h>

#include "control/event/tramp_event.h"

struct budget_item {
	enum tramp_switch level;
	double rate; /* hits per second */
	double cost[3]; /* ns per hit, by level; falling */
	double worth; /* of recording one call, compared with a short one's: 1 or more */
	bool is_fixed; /* its level isn't changed here */
	bool has_counted; /* SWITCH_COUNTED saves something: else the next step is off */
};

/* The cost of all hits, in ns per second. */
double budget_choice_cost(const struct budget_item *items, size_t count);
/* Lowers levels until the cost is at most `limit`, or all are off. False: out of memory. */
bool budget_choice_lower(struct budget_item *items, size_t count, double limit);
/* Raises levels as long as the cost stays within `limit`, what costs least first; what is off only
 * to counted. False: out of memory. */
bool budget_choice_raise(struct budget_item *items, size_t count, double limit);

#endif
