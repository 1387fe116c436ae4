#include "old_counts.h"

#include <stdlib.h>

#include "shared/sorted.h"
#include "control/session/internal.h"

/* ---- for who comes after us ------------------------------------------------------------------ */

void legacy_note(struct session *session, struct tracepoint *tracepoint)
{
	struct dt_control *control = session->agent->control;
	const struct tramp_count *count = &tracepoint->probe.event.count;
	uint32_t index = tracepoint->counted ? tracepoint->counted - 1 : session->free_counted;

	while (!tracepoint->counted && index < control->counted_count &&
	       control->counted[index].name)
		index++;
	if (index >= DT_COUNTED_MAX)
		return; /* its count would begin anew: the daemon takes no more than these */
	control->counted[index] = (struct dt_counted){ .cell = count->cell.v,
						       .row_shift = count->row_shift,
						       .row_mask = count->row_mask,
						       .has_times = tracepoint->cell.has_times,
						       .id = tracepoint->probe.event.id };
	__atomic_store_n(&control->counted[index].name, dt_name_hash(tracepoint->name),
			 __ATOMIC_RELEASE);
	if (index >= control->counted_count)
		control->counted_count = index + 1;
	if (!tracepoint->counted)
		session->free_counted = index + 1;
	tracepoint->counted = index + 1;
}

void legacy_unnote(struct session *session, struct tracepoint *tracepoint)
{
	uint32_t index = tracepoint->counted - 1;

	if (!tracepoint->counted)
		return;
	__atomic_store_n(&session->agent->control->counted[index].name, 0, __ATOMIC_RELEASE);
	if (index < session->free_counted)
		session->free_counted = index;
	tracepoint->counted = 0;
}

/* ---- of who was before us -------------------------------------------------------------------- */

static struct error *read_one(struct session *dead, const struct dt_counted *noted,
			      struct legacy *legacy)
{
	struct legacy_item item = { .name = noted->name, .has_times = noted->has_times };
	struct error *error;

	item.words = calloc(1, item.has_times ? sizeof(*item.words) : sizeof(item.words->hits));
	if (!item.words)
		return error_new(ERROR_FAILED, "out of memory");
	error = counts_collect(dead->proc, noted, item.words);
	if (item.has_times && noted->id < DT_EVENTS_MAX && dead->exits.unwound) {
		item.missed = dead->agent->pool->tallies[noted->id].missed;
		item.unwound = (uint64_t)dead->agent->pool->tallies[noted->id].unwound +
			       dead->exits.unwound[noted->id];
	}
	if (!error && !vec_push(legacy, item))
		error = error_new(ERROR_FAILED, "out of memory");
	if (error)
		free(item.words);
	return error;
}

struct error *legacy_read(struct session *dead, struct legacy *legacy)
{
	const struct dt_control *control = dead->agent->control;
	struct error *error = NULL;

	for (uint32_t i = 0; i < control->counted_count && i < DT_COUNTED_MAX && !error; i++) {
		if (control->counted[i].name)
			error = read_one(dead, &control->counted[i], legacy);
	}
	return error;
}

static int by_name(const void *a, const void *b)
{
	uint64_t x = ((const struct legacy_item *)a)->name,
		 y = ((const struct legacy_item *)b)->name;

	return (x > y) - (x < y);
}

/* One that was killed while it took over from another has left two of a name. */
static void give_one(struct session *session, struct tracepoint *tracepoint)
{
	const struct legacy *legacy = &session->legacy;
	uint64_t name = dt_name_hash(tracepoint->name);
	size_t first = sorted_count(legacy->count, i, legacy->items[i].name < name);

	for (size_t i = first; i < legacy->count && legacy->items[i].name == name; i++) {
		const struct legacy_item *item = &legacy->items[i];
		struct counts_cell cell = tracepoint->cell;

		cell.has_times &= item->has_times;
		counts_add(&session->tracing.counts, &cell, item->words);
		tracepoint->past.missed += item->missed;
		tracepoint->past.unwound += item->unwound;
	}
}

void legacy_give(struct session *session)
{
	struct legacy *legacy = &session->legacy;

	if (legacy->count)
		qsort(legacy->items, legacy->count, sizeof(*legacy->items), by_name);
	for (size_t i = 0; i < session->tracepoints.count && legacy->count; i++) {
		if (session->tracepoints.items[i]->has_cell)
			give_one(session, session->tracepoints.items[i]);
	}
	legacy_free(legacy);
}

void legacy_move(struct legacy *from, struct legacy *to)
{
	if (vec_reserve(to, from->count)) {
		for (size_t i = 0; i < from->count; i++)
			to->items[to->count++] = from->items[i];
		from->count = 0;
	}
	legacy_free(from);
}

void legacy_free(struct legacy *legacy)
{
	for (size_t i = 0; i < legacy->count; i++)
		free(legacy->items[i].words);
	vec_free(legacy);
}
