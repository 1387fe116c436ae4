/*
 * session_modules.c
 *
 * Tracepoints in an unloaded library wait for it, like tracepoints whose library was never loaded:
 * they stay in the list, with their names, contexts and counts. Nothing is written to the memory
 * that the library left: other mappings may be there now. When a library with their place is
 * loaded, at any address, the tracepoints are placed again.
 *
 * Places, symbols and the planner's views point to struct module: a module that is still loaded
 * stays the same object, however often the list is read.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "control/base/interrupt.h"
#include "control/base/now.h"
#include "control/session/state/arrival_index.h"
#include "change.h"
#include "garbage.h"
#include "control/exits/exits.h"
#include "place.h"
#include "control/session/own_probes/plain_loads.h"
#include "control/session/own_probes/fronts.h"
#include "control/session/own_probes/library_notice.h"
#include "control/session/own_probes/own_probes.h"
#include "control/session/own_probes/static_points.h"
#include "control/session/own_probes/traps.h"
#include "control/session/own_probes/unwinding.h"
#include "session.h"
#include "session_commands.h"
#include "session_modules.h"
#include "tracepoints.h"
#include "control/values/describe/describe.h"
#include "control/session/own_probes/semaphores.h"

static bool is_same(const struct module *a, const struct module *b)
{
	return taddr_equal(a->bias, b->bias) && taddr_equal(a->low, b->low) &&
	       a->inode == b->inode && a->device == b->device;
}

/* Does the module's text still hold our bytes? If not, it was unloaded and loaded again at the same
 * address. */
static bool is_ours_still(const struct session *session, const struct module *module)
{
	for (size_t i = 0; session->planner && i < planner_site_count(session->planner); i++) {
		const struct site *site = planner_site(session->planner, i);
		uint8_t now[DT_SITE_BYTES];

		if (site->module != module || site->patch.state != PATCH_PLACED)
			continue;
		_cleanup_error_ struct error *error =
			mem_read(session->proc, site->patch.address, now, site->patch.length);
		/* a process that ends has no memory any more */
		return error || memcmp(now, site->patch.patched, site->patch.length) == 0;
	}
	return true;
}

/* Replaces each module of `now` that was known before by its known object. *ret_copies gets the
 * replaced objects; `before` keeps the modules that are gone. */
static bool keep_known(const struct session *session, struct modules *now, struct modules *before,
		       struct modules *ret_copies)
{
	if (!vec_reserve(ret_copies, now->count))
		return false;
	assert(ret_copies->count == 0);
	for (size_t i = 0; i < now->count; i++) {
		for (size_t j = 0; j < before->count; j++) {
			if (!is_same(now->items[i], before->items[j]) ||
			    !is_ours_still(session, before->items[j]))
				continue;
			ret_copies->items[ret_copies->count++] = now->items[i];
			now->items[i] = before->items[j];
			before->items[j] = before->items[--before->count];
			break;
		}
	}
	return true;
}

struct error *session_modules_start(struct session *session)
{
	modules_free(&session->modules);
	return modules_of(session->proc, &session->modules);
}

static bool contains(const struct modules *modules, const struct module *module)
{
	for (size_t i = 0; i < modules->count; i++) {
		if (modules->items[i] == module)
			return true;
	}
	return false;
}

/* ---- unloaded modules ----------------------------------------------------------------------- */

static bool release(struct session *session, struct probe *probe, struct site_list *sites)
{
	return planner_release(session->planner, &probe, 1, sites);
}

/* Replaces a tracepoint by one that waits; adds sites that nobody needs any more. */
static struct error *let_wait(struct session *session, struct tracepoint *tracepoint,
			      struct site_list *sites)
{
	assert(!tracepoint->waits);
	struct tracepoint *waiting = NULL;
	struct error *error = tracepoints_copy(session, tracepoint, NULL, &waiting);

	if (error)
		return error;
	waiting->was_placed = tracepoint->probe.site;
	if (tracepoint->probe.refusal)
		waiting->still_waits = error_new(error_kind(tracepoint->probe.refusal), "%s",
						 error_text(tracepoint->probe.refusal));
	semaphores_forget(session, tracepoint);
	change_release_leaves(session, &(struct tracepoint_list){ &tracepoint, 1, 1 }, sites);
	if (tracepoint->probe.site && !release(session, &tracepoint->probe, sites))
		error = error_new(ERROR_FAILED, "out of memory");
	tracepoint->probe.place.module = NULL;
	session_notify(session, SESSION_GONE, tracepoint->name);
	commands_replace(session, tracepoint, waiting);
	return error;
}

/* Drops our own probes in unloaded modules: a libc of another link-map namespace may go. */
static struct error *drop_own_probes(struct session *session, const struct modules *gone,
				  struct site_list *sites)
{
	for (size_t i = session->own_probes.count; i-- > 0;) {
		struct probe *probe = session->own_probes.items[i];

		if (!contains(gone, probe->place.module))
			continue;
		if (probe->site && !release(session, probe, sites))
			return error_new(ERROR_FAILED, "out of memory");
		error_free(probe->refusal);
		free(probe);
		session->own_probes.items[i] =
			session->own_probes.items[--session->own_probes.count];
	}
	return NULL;
}

/* Lets tracepoints in unloaded modules wait. The bytes of their sites are gone with the modules. */
static struct error *forget(struct session *session)
{
	struct modules *gone = &session->gone;
	struct site_list *sites = garbage_room(session);
	struct error *error = gone->count ? session_flush(session) : NULL; /* for info_inherit */

	for (size_t i = 0; i < session->tracepoints.count && !error; i++) {
		struct tracepoint *tracepoint = session->tracepoints.items[i];

		if (contains(gone, tracepoint->probe.place.module))
			error = let_wait(session, tracepoint, sites);
	}
	if (!error)
		error = drop_own_probes(session, gone, sites);
	for (size_t i = 0; i < sites->count; i++)
		sites->items[i]->patch.state = PATCH_REMOVED;
	change_discard(session, sites);
	if (error) /* some places still point to the modules: the next change tries again */
		return error;
	for (size_t i = 0; i < gone->count; i++) {
		planner_forget_module(session->planner, gone->items[i]);
		session_notify(session, SESSION_MODULE_UNLOADED, gone->items[i]->path);
	}
	modules_free(gone);
	return NULL;
}

/* ---- loaded modules ------------------------------------------------------------------------- */

/* New tracepoints at places in loaded modules. waited.items[i] waited for the place of
 * list.items[i]; NULL: none did. */
struct arrivals {
	struct tracepoint_list list, waited;
};

static struct error *arrive(struct session *session, struct request *request,
			    const struct place *place, struct arrival_index *index,
			    struct arrivals *arrivals)
{
	struct tracepoint *old = arrival_index_take(index, place), *heir = NULL;
	const char *name = request->spec.name ? request->spec.name : place->name;
	struct error *error = NULL;

	if (!vec_reserve(&arrivals->waited, 1) || !vec_reserve(&arrivals->list, 1))
		return error_new(ERROR_FAILED, "out of memory");
	if (!old) {
		error = tracepoints_make_one(session, request, place, name, &arrivals->list);
	} else {
		error = tracepoints_copy(session, old, place, &heir);
		if (!error)
			arrivals->list.items[arrivals->list.count++] = heir;
		if (!error)
			error = describe_tracepoint(session, heir);
	}
	if (arrivals->list.count > arrivals->waited.count)
		arrivals->waited.items[arrivals->waited.count++] = old;
	return error;
}

/* Appends to the list, in which commands_place has reserved room. */
static void append(struct session *session, struct tracepoint *tracepoint)
{
	assert(session->tracepoints.count < session->tracepoints.room);
	session->tracepoints.items[session->tracepoints.count++] = tracepoint;
}

/* Replaces the tracepoints that waited. Retires a glob's placeholder, which waited for any
 * place. */
static void settle(struct session *session, const struct request *request,
		   const struct arrivals *arrivals)
{
	assert(arrivals->waited.count == arrivals->list.count);
	for (size_t i = 0; i < arrivals->list.count; i++) {
		struct tracepoint *tracepoint = arrivals->list.items[i];

		if (arrivals->waited.items[i])
			commands_replace(session, arrivals->waited.items[i], tracepoint);
		else
			append(session, tracepoint);
		if (tracepoint->probe.site)
			session_notify(session, SESSION_PLACED, tracepoint->name);
	}
	for (size_t i = session->tracepoints.count; i-- > 0;) {
		struct tracepoint *tracepoint = session->tracepoints.items[i];
		struct tracepoint_list one = { .items = &tracepoint, .count = 1 };

		if (tracepoint->request != request || !tracepoint->waits ||
		    tracepoint->probe.place.name)
			continue;
		session->tracepoints.count--;
		memmove(session->tracepoints.items + i, session->tracepoints.items + i + 1,
			(session->tracepoints.count - i) * sizeof(*session->tracepoints.items));
		commands_retire(session, &one);
	}
}

static struct error *place_request(struct session *session, struct request *request)
{
	struct arrivals arrivals = { 0 };
	struct arrival_index index = { 0 };
	struct error *error = request_resolve(request, session->proc, &session->modules);

	if (!error)
		error = arrival_index_make(session, request, &index);
	for (size_t i = 0; i < request->places.count && !error; i++) {
		const struct place *place = &request->places.items[i];

		error = interrupt_check(); /* debug information may be read for long */
		if (!error && !arrival_index_has(&index, place))
			error = arrive(session, request, place, &index, &arrivals);
	}
	arrival_index_free(&index);
	if (!error && arrivals.list.count)
		error = commands_place(session, &arrivals.list);
	if (error)
		commands_retire(session, &arrivals.list);
	else if (arrivals.list.count)
		settle(session, request, &arrivals);
	vec_free(&arrivals.list);
	vec_free(&arrivals.waited);
	places_free(&request->places);
	return error;
}

/* Notes why tracepoints of the request still wait, although their module is loaded. */
static void note_why(struct session *session, const struct request *request,
		     const struct error *why)
{
	const char *module = request->location.module;

	if (module && !modules_named(session->proc, &session->modules, module))
		return;
	for (size_t i = 0; i < session->tracepoints.count; i++) {
		struct tracepoint *tracepoint = session->tracepoints.items[i];

		if (tracepoint->request != request || !tracepoint->waits)
			continue;
		if (!tracepoint->still_waits ||
		    strcmp(error_text(tracepoint->still_waits), error_text(why)) != 0)
			session_tell(session, "not placed: %s: %s", tracepoint->name,
				     error_text(why));
		error_free(tracepoint->still_waits);
		tracepoint->still_waits = error_new(error_kind(why), "%s", error_text(why));
	}
}

static bool has_any_in(const struct session *session, const struct request *request,
		       const struct module *module)
{
	for (size_t i = 0; i < session->tracepoints.count; i++) {
		const struct tracepoint *tracepoint = session->tracepoints.items[i];

		if (tracepoint->request == request && tracepoint->probe.place.module == module)
			return true;
	}
	return false;
}

/* Has another copy of the tracepoint's library been loaded, for a request that waits for libraries
 * (H37)? */
static bool lacks_copy(const struct session *session, const struct tracepoint *tracepoint)
{
	const struct module *module = tracepoint->probe.place.module;

	if (!tracepoint->request->spec.wait || !module)
		return false;
	for (size_t i = 0; i < session->modules.count; i++) {
		if (module_is_copy(session->modules.items[i], module) &&
		    !has_any_in(session, tracepoint->request, session->modules.items[i]))
			return true;
	}
	return false;
}

/* The request with waiting tracepoints, or without one in a copy, that follows number `after`: each
 * once, in the order of creation. */
static struct request *next_waiting(const struct session *session, uint64_t after)
{
	struct request *next = NULL;

	for (size_t i = 0; i < session->tracepoints.count; i++) {
		const struct tracepoint *tracepoint = session->tracepoints.items[i];
		struct request *request = tracepoint->request;

		if (request->number > after && (!next || request->number < next->number) &&
		    (tracepoint->waits || lacks_copy(session, tracepoint)))
			next = request;
	}
	return next;
}

static struct error *place_waiting(struct session *session)
{
	struct error *error = NULL;
	struct request *request;
	uint64_t last = 0;

	while (!error && (request = next_waiting(session, last))) {
		last = request->number;
		request->users++; /* its last tracepoint may be freed meanwhile */
		error = place_request(session, request);
		/* no fault of the request: the session ends */
		bool ends = error && (error_kind(error) == ERROR_GONE ||
				      error_kind(error) == ERROR_INTERRUPTED);
		if (error && !ends) {
			note_why(session, request, error);
			error = (error_free(error), NULL);
		}
		request_drop(request);
	}
	return error;
}

/* ---- changes of the list -------------------------------------------------------------------- */

static bool has_program(const struct modules *modules)
{
	return modules->count && modules->items[0]->is_executable;
}

/* Reads the list again. Adds unloaded modules to session->gone. *ret_new: some were loaded. */
static struct error *follow(struct session *session, bool *ret_new)
{
	struct modules now = { 0 }, copies = { 0 };
	struct error *error = modules_of(session->proc, &now);

	if (error)
		return error;
	/* the process is ending: its modules weren't unloaded */
	if (!has_program(&now) && has_program(&session->modules)) {
		modules_free(&now);
		return proc_gone(session->proc);
	}
	if (!vec_reserve(&session->gone, session->modules.count) ||
	    !keep_known(session, &now, &session->modules, &copies)) {
		modules_free(&now);
		return error_new(ERROR_FAILED, "out of memory");
	}
	for (size_t i = 0; i < session->modules.count; i++)
		session->gone.items[session->gone.count++] = session->modules.items[i];
	vec_free(&session->modules);
	*ret_new = copies.count < now.count;
	session->modules = now;
	for (size_t i = 0; i < now.count && *ret_new; i++) {
		bool known = false;

		for (size_t j = 0; j < copies.count; j++)
			known |= is_same(now.items[i], copies.items[j]);
		if (known)
			continue;
		session_notify(session, SESSION_MODULE_LOADED, now.items[i]->path);
		now.items[i]->is_new = true;
		traps_look_at(session, now.items[i]);
	}
	modules_free(&copies);
	return NULL;
}

/* Adds our own probes to a loaded libc (H26) and to a loaded unwinder. */
static struct error *add_own_probes(struct session *session)
{
	static const struct tracepoint_list none;
	struct error *error = session->agent ? own_probes_create(session) : NULL;

	if (!error && session->agent && session->planner)
		error = fronts_add_guards(session);
	if (!error && session->agent)
		error = exits_hook_add(session, &none);
	return error || !session->agent || !own_probes_is_missing(session) ?
		       error :
		       place_list(session, &none, NULL);
}

/* Removes tracepoints with traps, and refuses them from now on, if traps aren't safe any more. */
static struct error *lift_traps(struct session *session)
{
	const char *why = traps_to_lift(session);
	struct tracepoint_list list = { 0 };
	struct error *error = NULL;

	for (size_t i = 0; why && i < session->tracepoints.count && !error; i++) {
		const struct probe *probe = &session->tracepoints.items[i]->probe;

		if (probe->site && probe->site->way == DIVERT_TRAP &&
		    !vec_push(&list, session->tracepoints.items[i]))
			error = error_new(ERROR_FAILED, "out of memory");
	}
	if (!error && why)
		error = change_release(session, &list);
	for (size_t i = 0; i < list.count && !error; i++) {
		list.items[i]->probe.refusal =
			error_new(ERROR_REFUSED, "its trap was taken out: %s", why);
		session_notify(session, SESSION_GONE, list.items[i]->name);
	}
	vec_free(&list);
	return error;
}

void session_watch_handlers(struct session *session)
{
	static const struct tracepoint_list none;

	if (!session->planner || !session->begun || !loads_want_watches(session, now_ns()))
		return;
	struct error *error = place_list(session, &none, NULL);
	session->refuses_loads |= error != NULL; /* values are read by system calls, as before */
	error_free(error);
}

struct error *session_modules_changed(struct session *session)
{
	size_t before = session->gone.count; /* that a change could not forget, which failed */
	struct error *error = NULL;
	bool is_new = false;

	/* the memory of another program isn't ours to change */
	if (session->agent && proc_is_alive(session->proc) &&
	    !session_may_have_code(session, session->proc))
		return error_new(ERROR_GONE, "process %d has begun another program",
				 session->proc->pid);
	error = follow(session, &is_new);
	const struct modules gone = { .items = session->gone.items + before,
				      .count = session->gone.count - before };
	bool changed = is_new || gone.count;
	if (!error && session->agent && session->planner)
		error = lift_traps(session);
	if (!error && session->agent && session->planner)
		error = loads_lift(session);
	if (!error && session->agent && session->planner && traps_to_unguard(session))
		error = change_release_guards(session);
	if (!error)
		error = unwinding_follow(session, &gone, is_new);
	if (!error && session->planner)
		error = forget(session);
	if (!error && changed)
		exits_modules_changed(session);
	if (!error && is_new)
		error = add_own_probes(session);
	return error || !is_new ? error : place_waiting(session);
}

struct error *session_modules_step(struct session *session)
{
	if (!library_notice_is_pending(session))
		return NULL;
	uint32_t ticket = library_notice_take(session);
	struct error *error = session_modules_changed(session);

	for (size_t i = 0; i < SESSION_GUESTS && session->guests[i]; i++) {
		if (session->guests[i]->modules_changed)
			session->guests[i]->modules_changed(session);
	}
	library_notice_answer(session, ticket);
	if (!error)
		static_points_tell(session); /* the thread doesn't wait for it */
	if (error && error_kind(error) == ERROR_GONE) /* session_ended tells the caller */
		error = (error_free(error), NULL);
	return error;
}
