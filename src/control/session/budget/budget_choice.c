#include "budget_choice.h"

#include <assert.h>
#include <stdlib.h>

#include "control/base/cleanup.h"

#define COUNT_WORTH 8 /* of an exact count, compared with the recording */

/* A change of one item's level. */
struct step {
	size_t item;
	enum tramp_switch from, to;
	double change; /* of the cost, without its sign */
	double score; /* the change for what is lost or won */
};

double budget_choice_cost(const struct budget_item *items, size_t count)
{
	double sum = 0;

	for (size_t i = 0; i < count; i++)
		sum += items[i].rate * items[i].cost[items[i].level];
	return sum;
}

static struct step make_step(const struct budget_item *items, size_t item, enum tramp_switch from,
			     enum tramp_switch to)
{
	const struct budget_item *it = &items[item];
	double change = it->rate * (it->cost[from] - it->cost[to]);
	double lost = (from == SWITCH_ON ? it->worth : 0) + (to == SWITCH_OFF ? COUNT_WORTH : 0);

	change = change < 0 ? -change : change;
	return (struct step){ item, from, to, change, change / lost };
}

/* All steps down from there; a tracepoint's own steps are in their order, by their scores. */
static size_t list_down(const struct budget_item *items, size_t count, struct step *steps)
{
	size_t used = 0;

	for (size_t i = 0; i < count; i++) {
		enum tramp_switch level = items[i].level;

		if (items[i].is_fixed)
			continue;
		if (level == SWITCH_ON && items[i].has_counted) {
			steps[used++] = make_step(items, i, SWITCH_ON, SWITCH_COUNTED);
			level = SWITCH_COUNTED;
		}
		if (level == SWITCH_OFF)
			continue;
		steps[used] = make_step(items, i, level, SWITCH_OFF);
		if (level != items[i].level && steps[used].score > steps[used - 1].score)
			steps[used].score = steps[used - 1].score;
		used++;
	}
	return used;
}

static int by_score_down(const void *a, const void *b)
{
	const struct step *x = a, *y = b;

	if (x->score != y->score)
		return x->score > y->score ? -1 : 1;
	if (x->item != y->item)
		return x->item < y->item ? -1 : 1;
	return (int)x->to - (int)y->to;
}

bool budget_choice_lower(struct budget_item *items, size_t count, double limit)
{
	_cleanup_free_ struct step *steps = calloc(2 * count + 1, sizeof(*steps));
	double cost = budget_choice_cost(items, count);

	if (!steps)
		return false;
	size_t used = list_down(items, count, steps);
	qsort(steps, used, sizeof(*steps), by_score_down);
	for (size_t i = 0; i < used && cost > limit && steps[i].change > 0; i++) {
		assert(items[steps[i].item].level == steps[i].from);
		items[steps[i].item].level = steps[i].to;
		cost -= steps[i].change;
	}
	return true;
}

static int by_score_up(const void *a, const void *b)
{
	return by_score_down(b, a);
}

bool budget_choice_raise(struct budget_item *items, size_t count, double limit)
{
	_cleanup_free_ struct step *steps = calloc(count + 1, sizeof(*steps));
	double cost = budget_choice_cost(items, count);
	size_t used = 0;

	if (!steps)
		return false;
	for (size_t i = 0; i < count; i++) {
		enum tramp_switch level = items[i].level;

		if (level != SWITCH_ON && !items[i].is_fixed)
			steps[used++] = make_step(items, i, level,
						  level == SWITCH_OFF && items[i].has_counted ?
							  SWITCH_COUNTED :
							  SWITCH_ON);
	}
	qsort(steps, used, sizeof(*steps), by_score_up);
	for (size_t i = 0; i < used && cost + steps[i].change <= limit; i++) {
		items[steps[i].item].level = steps[i].to;
		cost += steps[i].change;
	}
	return true;
}
