/*
 * lists.c - lists in an event: the elements of a container, or what may be behind a pointer.
 *
 * The container may be changing while it is read, by another thread, or hold nothing but old bytes.
 * So every element is read without a fault, the count in the event grows with each element that
 * could be read whole, and the first that couldn't ends the list. What is behind a pointer in an
 * element, and elements of a container in it, needn't be readable: these lists end themselves.
 */
#include "gather.h"

void lists_begin(struct gather *g, const struct dt_op *op, uint64_t count)
{
	struct gather_list *list = &g->lists[g->depth];
	bool failed = g->failed;

	gather_close(g, op->c);
	if (g->depth >= DT_LISTS_MAX || !gather_align(g, 4, 4)) {
		g->over = true;
		return;
	}
	list->count_at = g->at;
	*(uint32_t *)(g->event + g->at) = 0; /* memory of an image had other bytes */
	g->at += 4;
	if (!gather_align(g, op->a, 0)) {
		g->over = true;
		return;
	}
	list->left = failed ? 0 : count < op->b ? (uint32_t)count : op->b;
	list->number = 0;
	list->field = op->c;
	list->limit = 0;
	g->depth++;
}

static uint32_t leave(struct gather *g, uint32_t skip)
{
	g->depth--;
	return skip;
}

uint32_t lists_each(struct gather *g, const struct dt_op *op)
{
	struct gather_list *list;

	if (!g->depth) {
		g->over = true;
		return 0;
	}
	list = &g->lists[g->depth - 1];
	if (!list->limit)
		list->limit = g->at + op->b;
	if (!list->left || g->turns >= DT_LIST_TURNS_MAX)
		return leave(g, op->c + 1);
	g->turns++;
	g->locals[op->a % DT_LOCALS_MAX] = list->number;
	list->start = g->at;
	list->failed = false;
	return 0;
}

/* Bytes behind the last field are 0. */
static void take_back(struct gather *g, uint32_t start)
{
	while (g->at > start)
		g->event[--g->at] = 0;
}

uint32_t lists_next(struct gather *g, const struct dt_op *op)
{
	struct gather_list *list;

	if (!g->depth || !g->event) {
		g->over = true;
		return 0;
	}
	list = &g->lists[g->depth - 1];
	if (list->failed || g->failed || g->at > list->limit) {
		take_back(g, list->start);
		g->failed |= list->failed;
		leave(g, 0);
		gather_list_unreadable(g, list->field);
		return 0;
	}
	list->number++;
	list->left--;
	*(uint32_t *)(g->event + list->count_at) = list->number;
	return 0 - op->c - 1;
}
