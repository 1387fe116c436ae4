#include "count_tracer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "control/record/histogram.h"
#include "demotion.h"

bool count_tracer_create(struct session *session)
{
	session->count = calloc(1, sizeof(*session->count));
	return session->count != NULL;
}

void count_tracer_free(struct session *session)
{
	if (session->count) {
		counts_free(&session->count->counts);
		count_rows_free(&session->count->past);
	}
	free(session->count);
}

void count_tracer_free_use(struct tracepoint *tracepoint)
{
	free(tracepoint->count);
}

bool count_tracer_copy(const struct tracepoint *from, struct tracepoint *to)
{
	if (!from->count)
		return true;
	assert(!to->count);
	to->count = calloc(1, sizeof(*to->count));
	if (to->count)
		*to->count = *from->count;
	return to->count != NULL;
}

/* Only the tracer count measures calls; tracers that call functions count just their hits. */
static bool has_times(const struct tracepoint *tracepoint)
{
	return tracepoint->tracer->kind == TRACER_COUNT && tracepoint->probe.event.exit;
}

void count_tracer_cells(const struct session *session, const struct tracepoint_list *list,
			size_t *ret_plain, size_t *ret_timed, uint64_t *ret_keyed)
{
	*ret_plain = *ret_timed = *ret_keyed = 0;
	for (size_t i = 0; i < list->count; i++) {
		const struct tracepoint *tracepoint = list->items[i];
		const struct tracer *tracer = tracepoint_placed_tracer(tracepoint);

		if (!tracepoint->demotion && demotion_is_wanted(session, tracepoint))
			*ret_plain += demotion_is_judged(tracepoint) ? 2 : 1;
		if (!tracer || tracer->uses_pool || tracepoint->count)
			continue;
		struct count_keys keys = count_keys_of(tracepoint);
		if (keys.capacity)
			*ret_keyed += count_keys_bytes(&keys) + 2 * DT_PAGE; /* aligned */
		else
			*(has_times(tracepoint) ? ret_timed : ret_plain) += 1;
	}
}

struct error *count_tracer_map(struct session *session, const struct tracepoint_list *list,
			       struct stop *stop)
{
	size_t plain, timed;
	uint64_t keyed;

	count_tracer_cells(session, list, &plain, &timed, &keyed);
	return counts_map(&session->count->counts, stop, session->agent, plain, timed, keyed);
}

/* ---- notes for the next controller ----------------------------------------------------------- */

/* Notes the cell for the controller that takes over if this one is killed. */
static void note(struct session *session, struct tracepoint *tracepoint)
{
	struct dt_control *control = session->agent->control;
	struct count_use *use = tracepoint->count;
	const struct tramp_count *count = &tracepoint->probe.event.count;
	uint32_t index = use->noted ? use->noted - 1 : session->count->free_note;

	while (!use->noted && index < control->counted_count && control->counted[index].name)
		index++;
	if (index >= DT_COUNTED_MAX)
		return; /* not noted: its count would begin anew after a takeover */
	assert(index <= control->counted_count); /* no gap that a takeover would read */
	bool has_keys = use->keys.capacity;
	control->counted[index] =
		(struct dt_counted){ .cell = has_keys ? count->keys.table.v : count->cell.v,
				     .row_shift = count->row_shift,
				     .row_mask = count->row_mask,
				     .form = has_keys		 ? DT_COUNTED_KEYS :
					     use->cell.has_times ? DT_COUNTED_TIMES :
								   DT_COUNTED_HITS,
				     .id = tracepoint->probe.event.id };
	__atomic_store_n(&control->counted[index].name, dt_name_hash(tracepoint->name),
			 __ATOMIC_RELEASE);
	if (index >= control->counted_count)
		control->counted_count = index + 1;
	if (!use->noted)
		session->count->free_note = index + 1;
	use->noted = index + 1;
}

void count_tracer_unnote(struct session *session, struct tracepoint *tracepoint)
{
	struct count_use *use = tracepoint->count;

	if (!use || !use->noted)
		return;
	uint32_t index = use->noted - 1;
	assert(index < DT_COUNTED_MAX);
	__atomic_store_n(&session->agent->control->counted[index].name, 0, __ATOMIC_RELEASE);
	if (index < session->count->free_note)
		session->count->free_note = index;
	use->noted = 0;
}

/* ---- hits ------------------------------------------------------------------------------------ */

static bool take(struct counts *counts, const struct tracepoint *tracepoint, struct count_use *use)
{
	struct tramp_count ignored;

	use->keys = count_keys_of(tracepoint);
	if (!use->keys.capacity)
		return counts_take(counts, has_times(tracepoint), &use->cell, &ignored);
	if (!counts_take_bytes(counts, count_keys_bytes(&use->keys), &use->cell))
		return false;
	count_keys_start(counts, &use->keys, &use->cell);
	return true;
}

/* Gives a program that ends with DT_OP_KEY the address of its table. */
static void set_table(struct dt_program *program, taddr table)
{
	assert(program && program->op_count >= 2 &&
	       program->ops[program->op_count - 2].code == DT_OP_KEY);
	memcpy(&program->ops[program->op_count - 1], &table.v, sizeof(table.v));
}

/* The trampoline's way to the keys. */
static void set_keys(const struct counts *counts, struct tracepoint *tracepoint)
{
	struct values *values = &tracepoint->values;
	struct tramp_keys *keys = &tracepoint->probe.event.count.keys;
	const struct count_use *use = tracepoint->count;

	if (!use->keys.capacity)
		return;
	count_keys_way(counts, &use->cell, &use->keys, keys);
	keys->at_exit = values->keys_at_exit;
	keys->has_condition = values->key_condition;
	keys->native = values->native_key;
	set_table(values->keys_at_exit ? values->exit_program : values->program, keys->table);
}

struct error *count_tracer_prepare(struct session *session, struct tracepoint *tracepoint)
{
	struct tramp_event *event = &tracepoint->probe.event;
	struct counts *counts = &session->count->counts;

	assert(!tracepoint->tracer->uses_pool);
	if (!tracepoint->count) {
		struct count_use *use = calloc(1, sizeof(*use));

		if (!use || !take(counts, tracepoint, use)) {
			free(use);
			return error_new(ERROR_FAILED, "out of memory for counters");
		}
		tracepoint->count = use;
	}
	event->count = counts_way(counts, &tracepoint->count->cell);
	set_keys(counts, tracepoint);
	event->count.own_only = !session->options.follow_fork;
	note(session, tracepoint);
	return NULL;
}

bool count_tracer_read(const struct session *session, const struct tracepoint *tracepoint,
		       struct counts_sum *ret_sum)
{
	const struct count_use *use = tracepoint->count;

	if (use && use->keys.capacity)
		count_keys_sum(&session->count->counts, &use->cell, &use->keys, ret_sum);
	else if (use)
		counts_read(&session->count->counts, &use->cell, ret_sum);
	return use != NULL;
}

static uint64_t to_ns(const struct session *session, uint64_t cycles)
{
	uint64_t frequency = session->clock.frequency;

	return frequency ? (uint64_t)((unsigned __int128)cycles * 1000000000u / frequency) : 0;
}

void count_tracer_times(const struct session *session, const struct counts_sum *sum,
			struct tracepoint_times *ret_times)
{
	/* less than 0 if a call returned on another thread */
	uint64_t self = sum->durations > sum->inside ? sum->durations - sum->inside : 0;

	*ret_times = (struct tracepoint_times){ .calls = sum->exits,
						.total = to_ns(session, sum->total),
						.durations = to_ns(session, sum->durations),
						.self = to_ns(session, self),
						.self_known = true,
						.max = to_ns(session, sum->max),
						.p50 = to_ns(session, sum->p50),
						.p90 = to_ns(session, sum->p90),
						.p99 = to_ns(session, sum->p99) };
}

bool count_tracer_durations(const struct session *session, const struct tracepoint *tracepoint,
			    struct distribution *ret_durations)
{
	const struct count_use *use = tracepoint->count;
	struct distribution durations = { 0 };
	struct dt_cell *words;
	struct counts_sum sum;
	bool complete = true;

	if (!use || !use->cell.has_times || !(words = calloc(1, sizeof(*words))))
		return false;
	counts_gather(&session->count->counts, &use->cell, words);
	counts_sum_up(words, true, &sum);
	for (uint32_t i = 0; i < DT_BUCKETS && complete; i++) {
		uint64_t middle = to_ns(session, histogram_middle(i, DT_BUCKET_BITS));
		uint64_t times = words->buckets[i];

		complete = !times || distribution_add(&durations, (int64_t)middle, times);
	}
	free(words);
	durations.sum = (int64_t)to_ns(session, sum.durations);
	durations.max = (int64_t)to_ns(session, sum.max);
	if (!complete)
		distribution_free(&durations);
	else
		*ret_durations = durations;
	return complete;
}
