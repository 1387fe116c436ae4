/*
 * exits_settle.c - leave a process whose calls are inside traced functions.
 *
 * No further call takes a stub, since the text is restored. Most calls return within a moment. For
 * the others exits_settle stops all threads and judges each slot in use as retslot.c does (R2): if
 * the stack still holds the stub's address, the return address goes back there, as if we had never
 * been here; if not, the frame vanished (longjmp, an exception, the end of a thread).
 *
 * A frame that vanished could come back, if the program keeps copies of stacks (H8). So if frames
 * have vanished, all writable memory is searched for the addresses of their stubs: only if none is
 * found may the stubs go. Memory below a thread's stack pointer is unused and isn't searched.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "control/base/cleanup.h"
#include "control/proc/patience.h"
#include "exits_slots.h"
#include "exits.h"
#include "control/session/state/session_state.h"

#define SETTLE_MS 1000
#define SETTLE_STEP_MS 5
#define SETTLE_BUSY_MS 2500
#define SETTLE_PATIENT_MS 100
#define SETTLE_PAUSE_MS 256
#define SEARCH_MAX (1ULL << 30) /* bytes; if the process has more, the stubs stay */
#define SEARCH_STEP (1u << 20)
#define RED_ZONE 128

static size_t slots_in_use(const struct exits_slots *slots)
{
	size_t count = 0;

	/* calls with late stubs: nobody sees them return any more */
	for (uint32_t i = 1; i < slots->count; i++)
		count += slots->items[i].sp != 0 && !exits_slots_is_late(&slots->items[i]);
	return count;
}

static void nap(unsigned ms)
{
	struct timespec time = { .tv_nsec = ms * 1000000L };

	assert(ms < 1000);
	nanosleep(&time, NULL);
}

static struct error *wait_for_calls(struct exits_slots *slots)
{
	struct error *error = exits_slots_read(slots);

	for (unsigned ms = 0; !error && ms < SETTLE_MS && slots_in_use(slots);
	     ms += SETTLE_STEP_MS) {
		nap(SETTLE_STEP_MS);
		error = exits_slots_read(slots);
	}
	return error;
}

/* ---- verdicts, all threads stopped ----------------------------------------------------------- */

/* An inherited call belongs to the parent process, which counts it. */
static void end_call(struct dt_return_slot *slot, uint32_t *counters)
{
	if (!(slot->sp & DT_RETURN_INHERITED) && slot->id < DT_EVENTS_MAX)
		counters[slot->id]++;
	slot->sp = 0;
}

/* Ends the calls of all stubs that share the stack word; the word becomes the address that the last
 * of these stubs returns to. */
static struct error *put_back(struct exits_slots *slots, uint64_t sp, uint64_t word)
{
	uint32_t index;

	while ((index = exits_slots_stub(slots, word)) &&
	       exits_slots_place(slots, index) == sp) {
		exits_open_note(slots, index);
		end_call(&slots->items[index], slots->session->exits->inside);
		word = slots->items[index].ra;
	}
	return mem_write(slots->proc, taddr_of(sp), &word, sizeof(word));
}

static struct error *judge_all(struct exits_slots *slots, bool *ret_vanished)
{
	struct error *error = NULL;

	for (uint32_t i = 1; i < slots->count && !error; i++) {
		struct dt_return_slot *slot = &slots->items[i];
		uint64_t word = 0;

		if (!slot->sp)
			continue;
		if (exits_slots_is_late(slot) && exits_slots_is_inside(slots, i)) {
			exits_open_note(slots, i);
			end_call(slot, slots->session->exits->inside);
			continue;
		}
		_cleanup_error_ struct error *reading = mem_read(
			slots->proc, taddr_of(exits_slots_place(slots, i)), &word, sizeof(word));
		uint32_t top = reading ? 0 : exits_slots_stub(slots, word);
		if (top && exits_slots_place(slots, top) == exits_slots_place(slots, i))
			error = put_back(slots, exits_slots_place(slots, i), word);
		if (slot->sp) {
			end_call(slot, slots->session->exits->unwound);
			if (exits_slots_is_late(slot))
				continue;
			slot->length |= DT_RETURN_VANISHED;
			*ret_vanished = true;
		}
	}
	/* A second try must find no slot in use. */
	return error ? error
		     : mem_write(slots->proc, exits_slots_at(slots, 0), slots->items,
				 slots->count * sizeof(*slots->items));
}

/* Has the exit begun? Then the stub has put its index in place of its address. */
static bool is_leaving(const struct exits_slots *slots, uint32_t index)
{
	uint64_t word = 0;
	_cleanup_error_ struct error *error =
		mem_read(slots->proc, taddr_of(exits_slots_place(slots, index)), &word,
			 sizeof(word));

	return !error && word == index;
}

/* Is a thread taking a stub or giving one back, maybe below a signal's handler (R12)? A word that
 * is still an index after a while is a number of the program's own, where a frame has vanished. */
static struct error *find_busy(const struct exits_slots *slots, struct stop *stop, bool patient,
			       bool *ret_busy)
{
	struct patch_range range = exits_range(slots->session);

	for (uint32_t i = 1; i < slots->count; i++) {
		uint64_t sp = slots->items[i].sp;

		*ret_busy = sp & DT_RETURN_BUSY || (sp && patient && is_leaving(slots, i));
		if (*ret_busy)
			return NULL;
	}
	return patch_find_threads(slots->proc, stop, &range, 1, ret_busy);
}

/* ---- search for addresses of stubs ----------------------------------------------------------- */

struct search {
	const struct exits_slots *slots;
	const struct stop *stop;
	uint64_t *buffer;
	uint64_t left; /* bytes of SEARCH_MAX */
	bool found;
};

/* The start of used memory in the mapping: the lowest stack pointer in it, if any. */
static uint64_t search_start(const struct search *search, const struct mapping *mapping)
{
	uint64_t start = mapping->end.v;
	bool is_stack = false;

	for (size_t i = 0; i < stop_thread_count(search->stop); i++) {
		taddr rsp = stop_thread_rsp(search->stop, i);

		if (!taddr_within(rsp, mapping->start, mapping->end))
			continue;
		is_stack = true;
		if (rsp.v - RED_ZONE < start)
			start = rsp.v - RED_ZONE;
	}
	return is_stack && start > mapping->start.v ? start & ~7ULL : mapping->start.v;
}

/* False: not all of it can be read, and none was searched. */
static bool search_bytes(struct search *search, uint64_t at, uint64_t size)
{
	const struct exits_slots *slots = search->slots;

	assert(size <= SEARCH_STEP);
	_cleanup_error_ struct error *error =
		mem_read(slots->proc, taddr_of(at), search->buffer, size);
	for (uint64_t i = 0; !error && i < size / 8; i++) {
		uint32_t stub = exits_slots_stub(slots, search->buffer[i]);

		if (stub && (slots->stray || slots->items[stub].length & DT_RETURN_VANISHED))
			search->found = true;
	}
	return !error;
}

static bool is_ours(const struct exits_slots *slots, const struct mapping *mapping)
{
	const struct agent *agent = slots->session->agent;

	return taddr_equal(mapping->start, slots->session->exits->returns) ||
	       taddr_equal(mapping->start, agent->state_at) ||
	       taddr_equal(mapping->start, agent->pool_at) ||
	       (mapping->inode == agent->code_inode && mapping->device == agent->code_device);
}

/* Searches a mapping in steps; a page that can't be read is skipped (behind the end of a file). */
static void search_mapping(struct search *search, const struct mapping *mapping)
{
	uint64_t at = search_start(search, mapping);

	if (!(mapping->prot & PROT_WRITE) || is_ours(search->slots, mapping))
		return;
	for (; at < mapping->end.v && !search->found; at += SEARCH_STEP) {
		uint64_t size =
			mapping->end.v - at < SEARCH_STEP ? mapping->end.v - at : SEARCH_STEP;

		if (search->left < size)
			search->found = true; /* unknown: assume one */
		search->left -= size;
		bool whole = search->found || search_bytes(search, at, size);
		for (uint64_t page = at; !whole && page < at + size; page += DT_PAGE)
			search_bytes(search, page,
				     at + size - page < DT_PAGE ? at + size - page : DT_PAGE);
	}
}

static struct error *search_all(const struct exits_slots *slots, const struct stop *stop,
				bool *ret_found)
{
	_cleanup_(maps_free) struct maps maps = { 0 };
	_cleanup_free_ uint64_t *buffer = malloc(SEARCH_STEP);
	struct search search = { slots, stop, buffer, SEARCH_MAX, false };
	struct error *error = maps_read(slots->proc, &maps);

	if (!error && !buffer)
		error = error_new(ERROR_FAILED, "out of memory");
	for (size_t i = 0; !error && i < maps.count && !search.found; i++)
		search_mapping(&search, &maps.items[i]);
	*ret_found = search.found;
	return error;
}

/* ---- settling -------------------------------------------------------------------------------- */

static bool ever_vanished(const struct session *session)
{
	const struct dt_pool *pool = session->agent->pool;

	for (size_t i = 0; i < session->types->count; i++) {
		if (pool->tallies[i].unwound)
			return true;
	}
	return false;
}

static struct error *settle_stopped(struct exits_slots *slots, bool patient, bool *ret_done,
				    bool *ret_clean)
{
	_cleanup_(cleanup_stop) struct stop *stop = NULL;
	struct error *error = stop_all(slots->proc, STOP_TIMEOUT_MS, &stop);
	bool vanished = ever_vanished(slots->session), found = false, busy = true;

	if (!error)
		error = exits_slots_read(slots);
	if (!error)
		error = find_busy(slots, stop, patient, &busy);
	*ret_done = !error && !busy;
	if (!*ret_done)
		return error;
	exits_open_settle(slots->session, slots->proc);
	error = judge_all(slots, &vanished);
	if (!error && (vanished || slots->stray))
		error = search_all(slots, stop, &found);
	*ret_clean = !found;
	return error;
}

struct error *exits_settle(struct session *session, struct proc *proc, bool *ret_clean)
{
	_cleanup_(exits_slots_free) struct exits_slots slots = { .session = session, .proc = proc };
	bool done = false;

	*ret_clean = true;
	if (!session->exits->returns.v)
		return NULL;
	struct error *error = wait_for_calls(&slots);
	_cleanup_(patience_free) struct patience patience;

	patience_begin(&patience, proc, SETTLE_BUSY_MS, PATIENCE_MOST_MS);
	/* pauses grow, for threads that wait for a busy processor */
	for (unsigned waited = 0, ms = 1; !error && !done && !patience_ends(&patience, proc);
	     waited += ms, ms = ms < SETTLE_PAUSE_MS ? 2 * ms : ms) {
		error = settle_stopped(&slots, waited < SETTLE_PATIENT_MS, &done, ret_clean);
		if (!error && !done)
			nap(ms);
	}
	if (!error && !done)
		error = error_new(ERROR_FAILED,
				  "a thread stays in the code that records exits");
	return error;
}
