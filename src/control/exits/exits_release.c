/*
 * exits_release.c - redirect return stubs away from code that is to be freed, while recording goes
 * on.
 *
 * A stub is bound for life to a return address (R1), and to the code of its tracepoint: the
 * function's body after the recording, and the code that records the exit. When that code is
 * garbage, exits_release judges the stubs of each process that has the code, with all its threads
 * stopped:
 *
 *	the tracepoint has new code	the stub leads there from now on
 *	it is gone, the stub is free	no thread takes the stub again (R5); if something returns
 *					through it all the same (H5), the code that all exits share
 *					brings it back
 *	it is gone, a call is inside	the code stays until that call has returned
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "exits_slots.h"
#include "exits.h"
#include "control/session/state/session_state.h"

/* The current code of one tracepoint. */
struct code {
	uint32_t id;
	taddr body, exit;
};

struct release {
	struct exits_slots slots;
	VEC(struct code) codes; /* sorted by id */
	VEC(struct site *) sites; /* garbage that stubs may lead to, sorted by address */
};

static void release_free(struct release *release)
{
	exits_slots_free(&release->slots);
	vec_free(&release->codes);
	vec_free(&release->sites);
}

static int by_id(const void *a, const void *b)
{
	const struct code *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

static int by_piece(const void *a, const void *b)
{
	const struct site *x = *(struct site *const *)a, *y = *(struct site *const *)b;

	return (x->piece.at.v > y->piece.at.v) - (x->piece.at.v < y->piece.at.v);
}

static bool list_codes(struct release *release, const struct session *session)
{
	for (size_t i = 0; i < planner_site_count(session->planner); i++) {
		const struct site *site = planner_site(session->planner, i);

		for (size_t j = 0; site->has_exit && site->emitted && j < site->probes.count; j++) {
			const struct tramp_event *event = &site->probes.items[j]->event;
			struct code code = { event->id, event->off, event->exit_code };

			if (event->exit && !vec_push(&release->codes, code))
				return false;
		}
	}
	if (release->codes.count)
		qsort(release->codes.items, release->codes.count, sizeof(struct code), by_id);
	return true;
}

static bool list_sites(struct release *release, const struct session *session)
{
	for (size_t i = 0; i < session->garbage.count; i++) {
		struct site *site = session->garbage.items[i];

		/* A child that goes on with the site takes its stubs, too, and may lack the memory
		 * of the new code. */
		if (site->has_exit && !site->in_child && !vec_push(&release->sites, site))
			return false;
	}
	if (release->sites.count)
		qsort(release->sites.items, release->sites.count, sizeof(struct site *), by_piece);
	return true;
}

/* Finds the garbage that holds the address. */
static struct site *find_site(const struct release *release, uint64_t address)
{
	size_t low = 0, high = release->sites.count;

	while (low < high) {
		size_t middle = (low + high) / 2;
		struct site *site = release->sites.items[middle];

		if (address < site->piece.at.v)
			high = middle;
		else if (address >= site->piece.at.v + site->piece.size)
			low = middle + 1;
		else
			return site;
	}
	return NULL;
}

static const struct code *find_code(const struct release *release, uint32_t id)
{
	const struct code key = { .id = id };

	return release->codes.count ? bsearch(&key, release->codes.items, release->codes.count,
					      sizeof(key), by_id) :
				      NULL;
}

/* Ends calls that vanished (R2); the other calls keep their code. */
static void find_calls(struct release *release)
{
	struct exits_slots *slots = &release->slots;

	for (uint32_t i = 1; i < slots->count; i++) {
		struct dt_return_slot *slot = &slots->items[i];
		struct site *site = find_site(release, slot->body);

		if (!site || slot->use < 0 || exits_slots_forget_vanished(slots, i) ||
		    find_code(release, slot->id))
			continue;
		if (exits_slots_is_late(slot) && exits_slots_is_inside(slots, i))
			exits_slots_give_up(slots, i); /* its ends have no probes any more */
		else
			site->calls_inside = true;
	}
}

static struct error *redirect(struct release *release, const struct session *session)
{
	struct exits_slots *slots = &release->slots;
	struct error *error = NULL;

	for (uint32_t i = 1; i < slots->count && !error; i++) {
		struct dt_return_slot *slot = &slots->items[i];
		const struct site *site = find_site(release, slot->body);
		const struct code *code = find_code(release, slot->id);

		if (!site || site->calls_inside)
			continue;
		assert(!code || code->body.v); /* R5: a body of 0 means retired */
		slot->body = code ? code->body.v : 0;
		slot->exit = code ? code->exit.v : session->exits->window.v;
		if (!code && !exits_slots_is_late(slot)) {
			slot->use = 0; /* taken until the tracepoint is back (R5) */
			slot->length |= DT_RETURN_RETIRED;
		}
		error = exits_slots_write(slots, i);
	}
	return error;
}

struct error *exits_release(struct session *session, struct proc *proc)
{
	_cleanup_(release_free) struct release release = { .slots = { .session = session,
								      .proc = proc } };

	if (!session->exits->returns.v)
		return NULL;
	if (!list_sites(&release, session) || !list_codes(&release, session))
		return error_new(ERROR_FAILED, "out of memory");
	if (!release.sites.count)
		return NULL;
	struct error *error = exits_slots_read(&release.slots);
	if (error)
		return error;
	find_calls(&release);
	return redirect(&release, session);
}
