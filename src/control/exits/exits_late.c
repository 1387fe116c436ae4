/*
 * exits_late.c - probes at the ends of functions, for calls that keep their return address (R9).
 *
 * A language runtime that finds frames by return address (H29) calls its own functions, and those
 * of the module it is in; so does code that a compiler in the module makes at run time. Such a
 * function gets an own probe at each `ret` and at each jump out of it, all of them or none. Only
 * when all are placed do calls have late stubs, and no call has one any more before the first probe
 * is removed: so no call with a late stub gets past them unseen.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "control/placement/leave_points.h"
#include "exits.h"
#include "control/session/state/session_state.h"

#define LEAVES_MAX 64 /* per function */
#define FUNCTIONS_MAX 20000 /* per change: their probes are placed in one stop */

static struct error *add_probe(struct tracepoint *tracepoint, const struct leave_point *point)
{
	struct probe *probe = calloc(1, sizeof(*probe));

	/* room in `left`: releasing needs no memory (H32) */
	if (!probe || !vec_reserve(&tracepoint->left, tracepoint->leaves.count + 1) ||
	    !vec_push(&tracepoint->leaves, probe)) {
		free(probe);
		return error_new(ERROR_FAILED, "out of memory");
	}
	probe->place.module = tracepoint->probe.place.module;
	probe->place.name = tracepoint->probe.place.name;
	probe->place.address = point->address;
	probe->event.size = sizeof(uint64_t);
	probe->event.leaves = point->kind | (tracepoint->probe.event.is_go ? DT_SITE_GO : 0);
	planner_forbid_trap(probe);
	return NULL;
}

static struct error *add_probes(struct session *session, struct tracepoint *tracepoint)
{
	struct leave_points points = { 0 };
	struct error *error =
		leave_points_find(session->planner, &tracepoint->probe.place, &points);

	if (!error && points.count > LEAVES_MAX)
		error = error_new(ERROR_REFUSED, "more than %d places end its calls", LEAVES_MAX);
	for (size_t i = 0; i < points.count && !error; i++)
		error = add_probe(tracepoint, &points.items[i]);
	leave_points_free(&points);
	return error;
}

static bool is_wanted(const struct session *session, const struct tracepoint *tracepoint)
{
	const struct probe *probe = &tracepoint->probe;

	return probe->site && probe->event.exit && !tracepoint->leaves.count &&
	       exits_has_runtime(session, probe->place.module);
}

static size_t count_wanted(const struct session *session, const struct tracepoint_list *list)
{
	size_t count = 0;

	for (size_t i = 0; i < list->count; i++)
		count += is_wanted(session, list->items[i]);
	return count;
}

struct error *exits_late_add(struct session *session, const struct tracepoint_list *list)
{
	struct error *error = NULL;
	bool too_many = count_wanted(session, list) > FUNCTIONS_MAX;

	for (size_t i = 0; i < list->count && !error; i++) {
		struct tracepoint *tracepoint = list->items[i];

		if (!is_wanted(session, tracepoint))
			continue;
		error_free(take_ptr(&tracepoint->late_refusal));
		tracepoint->probe.event.may_be_late = false;
		struct error *reason =
			too_many ? error_new(ERROR_REFUSED,
					     "more than %d functions at once (name fewer)",
					     FUNCTIONS_MAX) :
				   add_probes(session, tracepoint);
		if (reason && error_kind(reason) == ERROR_REFUSED)
			tracepoint->late_refusal = reason;
		else if (reason)
			error = reason;
		else
			tracepoint->probe.event.may_be_late = true;
	}
	return error;
}

static const struct error *find_refusal(const struct tracepoint *tracepoint)
{
	for (size_t i = 0; i < tracepoint->leaves.count; i++) {
		const struct probe *probe = tracepoint->leaves.items[i];

		if (probe->refusal)
			return probe->refusal;
		if (probe->site && probe->site->patch.error)
			return probe->site->patch.error;
	}
	return NULL;
}

/* Of the reasons of all tactics the first will do. */
static struct error *describe_refusal(const struct error *reason)
{
	const char *text = reason ? error_text(reason) : "not placed";

	return error_new(ERROR_REFUSED, "one of its returns can't be probed: %.*s",
			 (int)strcspn(text, ";"), text);
}

void exits_late_refuse(struct tracepoint *tracepoint)
{
	const struct error *reason = find_refusal(tracepoint);

	if (!tracepoint->late_refusal)
		tracepoint->late_refusal = describe_refusal(reason);
}

bool exits_late_has_sites(const struct tracepoint *tracepoint)
{
	for (size_t i = 0; i < tracepoint->leaves.count; i++) {
		if (!tracepoint->leaves.items[i]->site)
			return false;
	}
	return true;
}

bool exits_late_is_placed(const struct tracepoint *tracepoint)
{
	for (size_t i = 0; i < tracepoint->leaves.count; i++) {
		const struct site *site = tracepoint->leaves.items[i]->site;

		if (!site || site->patch.state != PATCH_PLACED)
			return false;
	}
	return tracepoint->probe.site && tracepoint->probe.site->patch.state == PATCH_PLACED;
}

void exits_late_switch(struct session *session, struct tracepoint *tracepoint, bool on)
{
	struct probe *probe = &tracepoint->probe;

	probe->event.is_late = on; /* for a trampoline that is written later */
	if (!probe->site || !probe->site->emitted || !probe->event.exit)
		return;
	uint8_t *code = (uint8_t *)session->agent->control + probe->site->piece.offset;
	struct dt_return_site *site =
		(struct dt_return_site *)(code + probe->event.return_site);

	assert(probe->event.return_site + sizeof(*site) <= probe->site->piece.size);
	assert(site->id == probe->event.id); /* R9 */
	/* pairs with retslot_is_late */
	if (on)
		__atomic_fetch_or(&site->flags, DT_SITE_LATE, __ATOMIC_RELEASE);
	else
		__atomic_fetch_and(&site->flags, ~DT_SITE_LATE, __ATOMIC_RELEASE);
}

static void free_probes(struct probe **items, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		error_free(items[i]->refusal);
		free(items[i]);
	}
}

void exits_late_free(struct tracepoint *tracepoint)
{
	free_probes(tracepoint->leaves.items, tracepoint->leaves.count);
	free_probes(tracepoint->left.items, tracepoint->left.count);
	vec_free(&tracepoint->leaves);
	vec_free(&tracepoint->left);
	error_free(tracepoint->late_refusal);
}
