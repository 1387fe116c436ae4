#include "exits_slots.h"

#include <assert.h>
#include <stdlib.h>

#include "control/base/cleanup.h"
#include "exits.h"
#include "control/session/state/session_state.h"

#define TAIL_CALLS 64 /* at most so many stubs share one stack word */

void exits_slots_free(struct exits_slots *slots)
{
	free(slots->items);
}

taddr exits_slots_at(const struct exits_slots *slots, uint32_t index)
{
	assert(index < DT_STUBS_MAX);
	return taddr_add(slots->session->exits->returns,
			 (int64_t)(offsetof(struct dt_returns, slots) +
				   index * sizeof(struct dt_return_slot)));
}

struct error *exits_slots_read(struct exits_slots *slots)
{
	taddr returns = slots->session->exits->returns;
	uint64_t stray = 0;

	assert(returns.v);
	struct error *error =
		mem_read(slots->proc, taddr_add(returns, offsetof(struct dt_returns, used)),
			 &slots->count, sizeof(slots->count));

	if (!error)
		error = mem_read(slots->proc,
				 taddr_add(returns, offsetof(struct dt_returns, stray)), &stray,
				 sizeof(stray));
	slots->stray = stray != 0;
	if (slots->count > DT_STUBS_MAX)
		slots->count = DT_STUBS_MAX;
	free(slots->items);
	slots->items = calloc(slots->count + 1, sizeof(*slots->items));
	if (!error && !slots->items)
		error = error_new(ERROR_FAILED, "out of memory");
	return error ? error
		     : mem_read(slots->proc, exits_slots_at(slots, 0), slots->items,
				slots->count * sizeof(*slots->items));
}

struct error *exits_slots_write(const struct exits_slots *slots, uint32_t index)
{
	assert(index && index < slots->count);
	return mem_write(slots->proc, exits_slots_at(slots, index), &slots->items[index],
			 sizeof(slots->items[index]));
}

uint32_t exits_slots_stub(const struct exits_slots *slots, uint64_t word)
{
	uint64_t offset = word - slots->session->agent->control->stubs;

	return offset < (uint64_t)slots->count * DT_STUB_SIZE ? (uint32_t)(offset >> DT_STUB_SHIFT)
							      : 0;
}

bool exits_slots_is_late(const struct dt_return_slot *slot)
{
	return slot->length == DT_RETURN_LATE;
}

uint64_t exits_slots_place(const struct exits_slots *slots, uint32_t index)
{
	const struct dt_return_slot *slot = &slots->items[index];
	uint64_t place = slot->sp & ~DT_RETURN_MARKS, end = 0;

	if (!exits_slots_is_late(slot) || !slot->tail)
		return place;
	_cleanup_error_ struct error *unreadable = mem_read(
		slots->proc, taddr_of(place + DT_GO_STACK_END), &end, sizeof(end)); /* R11 */

	return unreadable ? 0 : dt_go_place(end, slot->tail);
}

bool exits_slots_is_inside(const struct exits_slots *slots, uint32_t index)
{
	const struct dt_return_slot *slot = &slots->items[index];
	uint64_t word = 0;
	_cleanup_error_ struct error *unreadable =
		mem_read(slots->proc, taddr_of(exits_slots_place(slots, index)), &word,
			 sizeof(word));

	assert(exits_slots_is_late(slot)); /* R9 */
	return !unreadable && word == slot->ra;
}

/* Ends the call; `counter` of its tracepoint gets one more. */
static bool end_call(struct exits_slots *slots, uint32_t index, uint32_t *counter)
{
	struct dt_return_slot *slot = &slots->items[index];

	if (!(slot->sp & DT_RETURN_INHERITED) && slot->id < DT_EVENTS_MAX)
		__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
	slot->sp = 0;
	slot->use = -1;
	if (!exits_slots_is_late(slot))
		slot->length |= DT_RETURN_VANISHED;
	struct error *error = exits_slots_write(slots, index);
	error_free(error);
	return !error;
}

static struct dt_tally *tally_of(const struct exits_slots *slots, uint32_t index)
{
	uint32_t id = slots->items[index].id;

	return &slots->session->agent->pool->tallies[id < DT_EVENTS_MAX ? id : 0];
}

void exits_slots_give_up(struct exits_slots *slots, uint32_t index)
{
	end_call(slots, index, &tally_of(slots, index)->missed);
}

/* (R2) Judges as retslot_is_gone in the agent does. */
bool exits_slots_is_gone(const struct exits_slots *slots, uint32_t index)
{
	uint64_t place = exits_slots_place(slots, index), word = 0;
	_cleanup_error_ struct error *unreadable =
		mem_read(slots->proc, taddr_of(place), &word, sizeof(word));

	if (unreadable)
		return true;
	if (exits_slots_is_late(&slots->items[index]) && word == slots->items[index].ra)
		return false;
	for (unsigned i = 0; i < TAIL_CALLS && word != index; i++) {
		uint32_t other = exits_slots_stub(slots, word);

		if (other == index)
			return false;
		if (!other || exits_slots_place(slots, other) != place)
			return true;
		word = slots->items[other].ra;
	}
	return false;
}

bool exits_slots_forget_vanished(struct exits_slots *slots, uint32_t index)
{
	struct dt_return_slot *slot = &slots->items[index];

	assert(index && index < slots->count);
	if (!slot->sp || slot->sp & DT_RETURN_BUSY || !exits_slots_is_gone(slots, index))
		return false;
	return end_call(slots, index, &tally_of(slots, index)->unwound);
}
