/*
 * place_decide.c - decide which probes get sites: those of a list, dyntrace's own, and those at the
 * ends of functions.
 *
 * Whether a function has all its ends is known only after its own probe has a site, and again after
 * all sites were patched: each time the probes of a function that lacks one are taken back.
 */
#include "place_decide.h"

#include <assert.h>
#include <stdlib.h>

#include "change.h"
#include "control/base/cleanup.h"
#include "control/exits/exits.h"
#include "control/placement/go_prologue.h"
#include "control/session/own_probes/fronts.h"
#include "control/session/own_probes/own_probes.h"
#include "control/session/own_probes/plain_loads.h"
#include "control/session/own_probes/traps.h"
#include "garbage.h"

struct error *place_decide_check(const struct tracepoint_list *list)
{
	const struct tracepoint *refused = NULL;
	size_t placed = 0;

	for (size_t i = 0; i < list->count; i++) {
		const struct tracepoint *tracepoint = list->items[i];

		if (!tracepoint->probe.refusal)
			placed++;
		else if (!refused || !tracepoint->from_glob)
			refused = tracepoint;
	}
	if (refused && (!placed || !refused->from_glob))
		return error_new(error_kind(refused->probe.refusal), "cannot probe '%s': %s",
				 refused->name, error_text(refused->probe.refusal));
	return NULL;
}

/* A forked child that runs the code of old trampolines forbids redirects (change_clear_way). */
static bool may_redirect(void *session)
{
	return garbage_is_unshared(session);
}

/* Makes the planner, and dyntrace's own probes. */
static struct error *prepare_planner(struct session *session)
{
	struct error *error = own_probes_create(session);

	if (!error)
		error = planner_create(session->proc, &session->planner);
	if (!error)
		garbage_expect(session);
	if (!error)
		planner_allow_traps(session->planner, traps_allow, session);
	if (!error)
		planner_ask_redirects(session->planner, may_redirect, session);
	if (!error && exits_shadow_stack_of(session->proc->pid))
		planner_keep_calls(session->planner);
	return error;
}

/* A call of a Go function that begins anew counts once; a probe on the instruction counts each
 * time. */
static void note_go(struct session *session, struct tracepoint *tracepoint)
{
	const struct place *place = &tracepoint->probe.place;
	uint64_t address = place->module ? place->address.v - place->module->bias.v : 0;
	struct tramp_event *event = &tracepoint->probe.event;
	struct go_prologue prologue;
	struct symtab *symtab;

	if (tracepoint->kind == TRACEPOINT_BARE || tracepoint->waits || !place->module)
		return;
	_cleanup_error_ struct error *unreadable =
		module_symtab(session->proc, place->module, &symtab);
	if (unreadable || !symtab_is_go(symtab))
		return;
	event->is_go = go_prologue_is_go_code(symtab, address);
	if (!go_prologue_read(symtab, address, &prologue))
		return;
	event->check_length = prologue.length;
	event->check_frame = prologue.frame;
}

struct error *place_decide(struct session *session, const struct tracepoint_list *list)
{
	struct error *error = session->planner ? NULL : prepare_planner(session);

	if (!error)
		error = fronts_add_guards(session);
	if (!error)
		error = exits_hook_add(session, list);
	if (error)
		return error;
	size_t count = 0;
	_cleanup_free_ struct probe **probes =
		calloc(list->count + session->own_probes.count + 1, sizeof(*probes));
	if (!probes)
		return error_new(ERROR_FAILED, "out of memory");
	for (size_t i = 0; i < list->count; i++) {
		if (list->items[i]->waits || list->items[i]->probe.site)
			continue;
		note_go(session, list->items[i]);
		probes[count++] = &list->items[i]->probe;
	}
	for (size_t i = 0; i < session->own_probes.count; i++) {
		struct probe *probe = session->own_probes.items[i];

		if (!probe->site && !probe->refusal)
			probes[count++] = probe;
	}
	assert(count <= list->count + session->own_probes.count);
	error = planner_decide(session->planner, probes, count);
	loads_want(session, list);
	if (!error)
		error = traps_guard(session);
	return error ? error : place_decide_check(list);
}

/* ---- ends of functions (R9) ----------------------------------------------------------------- */

/* Takes back the probes of tracepoints that don't have all of them. */
static void drop_incomplete(struct session *session, const struct tracepoint_list *list,
			    bool (*is_complete)(const struct tracepoint *tracepoint))
{
	struct site_list *gone = garbage_room(session);
	struct tracepoint_list incomplete = { 0 };

	for (size_t i = 0; i < list->count; i++) {
		struct tracepoint *tracepoint = list->items[i];

		if (!tracepoint->leaves.count || is_complete(tracepoint))
			continue;
		exits_late_refuse(tracepoint);
		if (!vec_push(&incomplete, tracepoint)) /* one by one, then */
			change_release_leaves(
				session, &(struct tracepoint_list){ &tracepoint, 1, 1 }, gone);
	}
	change_release_leaves(session, &incomplete, gone);
	vec_free(&incomplete);
	change_discard(session, gone);
}

struct error *place_decide_ends(struct session *session, const struct tracepoint_list *list)
{
	VEC(struct probe *) probes = { 0 };
	struct error *error = exits_late_add(session, list);

	for (size_t i = 0; i < list->count && !error; i++) {
		const struct tracepoint *tracepoint = list->items[i];

		for (size_t j = 0; j < tracepoint->leaves.count && !error; j++) {
			struct probe *probe = tracepoint->leaves.items[j];

			if (!probe->site && !vec_push(&probes, probe))
				error = error_new(ERROR_FAILED, "out of memory");
		}
	}
	if (!error && probes.count)
		error = planner_decide(session->planner, probes.items, probes.count);
	vec_free(&probes);
	if (!error)
		drop_incomplete(session, list, exits_late_has_sites);
	return error ? error : exits_check_ends(list);
}

void place_decide_number_ends(const struct tracepoint_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		struct tracepoint *tracepoint = list->items[i];

		for (size_t j = 0; j < tracepoint->leaves.count; j++)
			tracepoint->leaves.items[j]->event.id = tracepoint->probe.event.id;
	}
}

struct error *place_decide_begin_ends(struct session *session, const struct tracepoint_list *list,
				      struct stop *held)
{
	drop_incomplete(session, list, exits_late_is_placed);
	for (size_t i = 0; i < list->count; i++) {
		if (list->items[i]->leaves.count)
			exits_late_switch(session, list->items[i], true);
	}
	/* Takes placed parts of incomplete ones out; with held threads, the next change does. */
	return held ? NULL : garbage_take_out(session);
}
