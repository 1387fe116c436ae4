/*
 * exits_open.c - calls inside a function whose exit decides whether they are recorded (R10).
 *
 * Such a call has no event yet. If it never returns, it is recorded at the end, if by its duration
 * so far the filter would have it. A process may end at any moment, and its return slots with it:
 * so the slots are read from time to time, without a stop, and what was seen last counts if no pair
 * of the call is read afterwards. Every word of the slots is the target's.
 *
 * A call that the filter didn't want when it was seen last may have returned since, and have left
 * no trace of that. If the process has ended meanwhile, such a call is in no count.
 */
#include <string.h>
#include <x86intrin.h>

#include "control/base/cleanup.h"
#include "control/record/open_calls.h"
#include "control/session/state/session_state.h"
#include "exits.h"
#include "exits_slots.h"
#include "shared/arithmetic.h"

#define LOOK_NS 250000000u
#define LOOK_MAX 2048u /* calls per look, of which each takes some system calls */
#define STACK 8u

/* ---- the filter, so far ---------------------------------------------------------------------- */

struct judging {
	uint64_t duration; /* ns, so far */
	uint64_t kept[DT_KEPT_MAX];
	uint64_t stack[STACK];
	size_t top;
	bool unknown; /* the result isn't there yet */
};

static uint64_t pop(struct judging *j)
{
	j->unknown |= !j->top;
	return j->top ? j->stack[--j->top] : 0;
}

static void push(struct judging *j, uint64_t value)
{
	j->unknown |= j->top >= STACK;
	if (j->top < STACK)
		j->stack[j->top++] = value;
}

/* Returns the number of operations to skip. */
static size_t judge_op(struct judging *j, const struct dt_op *op)
{
	uint64_t x, y;

	if (op->code == DT_OP_CONST) {
		memcpy(&x, op + 1, sizeof(x));
		push(j, x);
		return 1;
	}
	if (op->code == DT_OP_SKIP || op->code == DT_OP_SKIP_ZERO)
		return op->code == DT_OP_SKIP || !pop(j) ? op->c : 0;
	if (op->code == DT_OP_REG && op->a == DT_REG_DURATION) {
		push(j, j->duration);
	} else if (op->code == DT_OP_KEPT && op->a < DT_KEPT_MAX) {
		push(j, j->kept[op->a]);
	} else if (op->code == DT_OP_OFFSET) {
		push(j, pop(j) + (uint64_t)(int32_t)op->c);
	} else if (op->code == DT_OP_BITS) {
		push(j, dt_bits(pop(j), op->a, op->b, op->c));
	} else if (dt_is_changing(op->code)) {
		push(j, dt_change(op, pop(j)));
	} else if (dt_is_combining(op->code)) {
		y = pop(j), x = pop(j);
		push(j, dt_combine(op->code, x, y, &j->unknown));
	} else {
		j->unknown = true;
	}
	return 0;
}

static bool judge(struct judging *j, const struct value_ops *filter)
{
	for (size_t i = 0; i < filter->count && !j->unknown; i++)
		i += judge_op(j, &filter->items[i]);
	return pop(j) && !j->unknown;
}

/* An executed program's session has no reader of its own (F1). */
static struct reader *reader_of(const struct session *session)
{
	return session->parent ? session->parent->reader : session->reader;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static taddr beside(const struct exits_slots *slots, size_t offset, uint32_t index)
{
	return taddr_add(slots->session->exits->returns,
			 (int64_t)(offset + index * sizeof(struct dt_return_slot)));
}

static const struct tracepoint *find_tracepoint(const struct session *session, uint32_t id)
{
	for (size_t i = 0; i < session->tracepoints.count; i++) {
		const struct tracepoint *tracepoint = session->tracepoints.items[i];

		if (tracepoint->has_type && tracepoint->probe.event.id == id)
			return tramp_is_paired(&tracepoint->probe.event) ? tracepoint : NULL;
	}
	return NULL;
}

/* Would the filter record the call if it returned now, whatever it returned? */
static bool is_wanted(const struct exits_slots *slots, uint32_t index,
		      const struct tracepoint *tracepoint)
{
	const struct tramp_event *exit = tracepoint->probe.event.at_exit;
	uint64_t start = slots->items[index].start, now = __rdtsc();
	double ns = (double)(now > start ? now - start : 0) * 1e9;
	struct judging j = { .duration =
				     (uint64_t)(ns / (double)slots->session->clock.frequency) };

	if (!exit || !exit->filter)
		return false; /* the agent would judge it, with the result */
	_cleanup_error_ struct error *unread =
		mem_read(slots->proc, beside(slots, offsetof(struct dt_returns, kept), index),
			 j.kept, sizeof(j.kept));
	return !unread && judge(&j, exit->filter);
}

/* The record of the thread that took the stub. */
static struct error *find_thread(const struct exits_slots *slots, uint32_t index, uint32_t *ret)
{
	const struct agent *agent = slots->session->agent;
	struct dt_slot slot = { 0 };
	int64_t at = (int64_t)offsetof(struct dt_state, slots) + slots->items[index].thread * 8LL;
	struct error *error = mem_read(slots->proc, taddr_add(agent->state_at, at), &slot,
				       sizeof(slot));

	*ret = slot.thread;
	return error;
}

static struct error *note_call(const struct exits_slots *slots, uint32_t index,
			       const struct tracepoint *tracepoint)
{
	const struct tramp_event *entry = &tracepoint->probe.event;
	uint64_t values[DT_EVENT_SIZE_MAX / 8 + 2] = { 0 };
	struct dt_return_times times = { 0 };
	size_t size = entry->program ? entry->size : entry->size + 8;
	uint32_t thread = 0;
	struct error *error = find_thread(slots, index, &thread);

	if (!error)
		error = mem_read(slots->proc,
				 beside(slots, offsetof(struct dt_returns, times), index), &times,
				 sizeof(times));
	if (!error && times.values)
		error = mem_read(slots->proc, taddr_of(times.values), values, size);
	if (error)
		return error;
	if (entry->program && (values[1] < 16 || values[1] > size))
		return NULL; /* they weren't gathered */
	open_calls_note(reader_of(slots->session), slots->session->exits, thread, entry->id,
			slots->items[index].start, values + 2,
			(entry->program ? values[1] : size) - 16);
	return NULL;
}

void exits_open_note(const struct exits_slots *slots, uint32_t index)
{
	const struct dt_return_slot *slot = &slots->items[index];
	const struct tracepoint *tracepoint =
		slot->sp && !(slot->sp & DT_RETURN_MARKS) && reader_of(slots->session) ?
			find_tracepoint(slots->session, slot->id) :
			NULL;

	if (tracepoint && is_wanted(slots, index, tracepoint))
		error_free(note_call(slots, index, tracepoint));
}

/* Calls of pairs that exits_open_look has counted as inside: they will be counted anew. */
static void uncount(struct session *session)
{
	for (size_t i = 0; i < session->tracepoints.count; i++) {
		const struct tracepoint *tracepoint = session->tracepoints.items[i];

		if (tracepoint->has_type && tramp_is_paired(&tracepoint->probe.event))
			session->exits->inside[tracepoint->probe.event.id] = 0;
	}
}

/* A call that has just begun may have the clock of the call before it. */
static bool is_steady(const struct exits_slots *slots, uint32_t index)
{
	const struct dt_return_slot *seen = &slots->items[index];
	struct dt_return_slot now = { 0 };
	_cleanup_error_ struct error *unread =
		mem_read(slots->proc, exits_slots_at(slots, index), &now, sizeof(now));

	return !unread && now.sp == seen->sp && now.start == seen->start && now.id == seen->id;
}

static bool has_pairs(const struct session *session)
{
	for (size_t i = 0; i < session->tracepoints.count; i++) {
		if (tramp_is_paired(&session->tracepoints.items[i]->probe.event))
			return true;
	}
	return false;
}

void exits_open_settle(struct session *session, const struct proc *proc)
{
	if (reader_of(session) && !session->exits->settles) {
		/* a target that has ended before its children settles nothing: what was seen last
		 * of it counts */
		if (proc == session->proc)
			open_calls_forget(reader_of(session), session->exits);
		uncount(session);
	}
	session->exits->settles = true;
}

void exits_open_end(struct session *session)
{
	if (session->exits->inside && !session->exits->settles)
		uncount(session);
}

void exits_open_look(struct session *session, uint64_t now_ns)
{
	_cleanup_(exits_slots_free) struct exits_slots slots = { .session = session,
								 .proc = session->proc };

	if (!session->exits->ready || !reader_of(session) || now_ns < session->exits->next_look ||
	    !has_pairs(session))
		return;
	session->exits->next_look = now_ns + LOOK_NS;
	_cleanup_error_ struct error *unread = exits_slots_read(&slots);
	if (unread)
		return; /* it has ended, perhaps: what was seen last remains */
	open_calls_forget(reader_of(session), session->exits);
	uncount(session);
	for (uint32_t i = 1, looks = 0; i < slots.count; i++) {
		const struct dt_return_slot *slot = &slots.items[i];

		if (!slot->sp || slot->sp & DT_RETURN_INHERITED ||
		    !find_tracepoint(session, slot->id))
			continue;
		session->exits->inside[slot->id]++;
		if (looks++ < LOOK_MAX && is_steady(&slots, i) && !exits_slots_is_gone(&slots, i))
			exits_open_note(&slots, i);
	}
}
