#include "old_counts.h"

#include <assert.h>
#include <stdlib.h>

#include "shared/sorted.h"
#include "control/exits/exits.h"
#include "control/session/state/session_state.h"
#include "control/tracers/count/count_tracer.h"

static void free_item(struct old_counts_item *item)
{
	free(item->words);
	old_keys_free(&item->keys);
}

static struct error *read_cell(struct session *dead, const struct dt_counted *from,
			       struct old_counts_item *item)
{
	item->words = calloc(1, item->has_times ? sizeof(*item->words) : sizeof(item->words->hits));
	return item->words ? counts_collect(dead->proc, from, item->words) :
			     error_new(ERROR_FAILED, "out of memory");
}

static struct error *read_one(struct session *dead, const struct dt_counted *noted,
			      struct old_counts *old_counts)
{
	/* The target can write the note: one look at it. */
	const struct dt_counted from = *noted;
	struct old_counts_item item = { .name = from.name,
					.has_times = from.form == DT_COUNTED_TIMES };
	struct error *error;

	if (from.form == DT_COUNTED_KEYS)
		error = old_keys_collect(dead->proc, &from, &item.keys);
	else
		error = read_cell(dead, &from, &item);
	if (from.form != DT_COUNTED_HITS && from.id < DT_EVENTS_MAX && dead->exits->unwound) {
		item.missed = dead->agent->pool->tallies[from.id].missed;
		item.unwound = (uint64_t)dead->agent->pool->tallies[from.id].unwound +
			       dead->exits->unwound[from.id];
	}
	if (!error && !vec_push(old_counts, item))
		error = error_new(ERROR_FAILED, "out of memory");
	if (error)
		free_item(&item);
	return error;
}

struct error *old_counts_read(struct session *dead, struct old_counts *old_counts)
{
	const struct dt_control *control = dead->agent->control;
	struct error *error = NULL;

	for (uint32_t i = 0; i < control->counted_count && i < DT_COUNTED_MAX && !error; i++) {
		if (control->counted[i].name)
			error = read_one(dead, &control->counted[i], old_counts);
	}
	return error;
}

static int by_name(const void *a, const void *b)
{
	uint64_t x = ((const struct old_counts_item *)a)->name,
		 y = ((const struct old_counts_item *)b)->name;

	return (x > y) - (x < y);
}

/* A controller killed during a takeover may leave two entries per name. */
static void give_one(struct session *session, struct tracepoint *tracepoint)
{
	const struct old_counts *old_counts = session->old_counts;
	uint64_t name = dt_name_hash(tracepoint->name);

	assert(tracepoint->count && session->count);
	size_t first = sorted_count(old_counts->count, i, old_counts->items[i].name < name);

	for (size_t i = first; i < old_counts->count && old_counts->items[i].name == name; i++) {
		const struct old_counts_item *item = &old_counts->items[i];
		struct counts_cell cell = tracepoint->count->cell;

		cell.has_times &= item->has_times;
		if (tracepoint->count->keys.capacity)
			old_keys_add(&session->count->counts, &cell, &tracepoint->count->keys,
				     &item->keys);
		else if (item->words)
			counts_add(&session->count->counts, &cell, item->words);
		tracepoint->past.missed += item->missed;
		tracepoint->past.unwound += item->unwound;
	}
}

void old_counts_give(struct session *session)
{
	struct old_counts *old_counts = session->old_counts;

	assert(old_counts);
	if (old_counts->count)
		qsort(old_counts->items, old_counts->count, sizeof(*old_counts->items), by_name);
	for (size_t i = 0; i < session->tracepoints.count && old_counts->count; i++) {
		if (session->tracepoints.items[i]->count)
			give_one(session, session->tracepoints.items[i]);
	}
	old_counts_free(old_counts);
}

void old_counts_move(struct old_counts *from, struct old_counts *to)
{
	if (vec_reserve(to, from->count)) {
		for (size_t i = 0; i < from->count; i++)
			to->items[to->count++] = from->items[i];
		from->count = 0;
	}
	old_counts_free(from);
}

void old_counts_free(struct old_counts *old_counts)
{
	for (size_t i = 0; i < old_counts->count; i++)
		free_item(&old_counts->items[i]);
	vec_free(old_counts);
}

bool old_counts_create(struct session *session)
{
	if (!session->old_counts)
		session->old_counts = calloc(1, sizeof(*session->old_counts));
	return session->old_counts != NULL;
}

void old_counts_destroy(struct session *session)
{
	if (session->old_counts)
		old_counts_free(session->old_counts);
	free(session->old_counts);
}
