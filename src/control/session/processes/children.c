/*
 * children.c
 *
 * A forked child has a text of its own, a copy of the target's text with the sites of that moment,
 * and our memory at the same addresses. So the target's trampolines serve the child, too, once it
 * has the windows that were mapped since the fork.
 *
 * (K1) A site is placed in a child only if everything that its trampoline uses is mapped there:
 *      windows, shared memory, return slots.
 * (K2) The bytes of a child's text say which sites it has; nothing is remembered. The child may
 *      have been forked at any moment. detach.c and garbage.c find sites in the same way.
 *
 * Children that can't be traced themselves (they filter their system calls, a debugger has them)
 * are left alone. So are tracepoints that need something which only the target has: libraries that
 * were loaded there, and the handler of SIGTRAP.
 */
#include "children.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "control/base/now.h"
#include "control/exits/exits.h"
#include "control/session/own_probes/semaphores.h"
#include "control/session/state/session_state.h"

#define ROUNDS 4 /* for processes that are forked meanwhile */
#define THREADS_LOOKED_AT 16
#define LOOK_NS 1000000000ULL

struct children {
	uint64_t next_look; /* at all processes; ns of CLOCK_MONOTONIC */
	size_t left; /* session_children_left */
	char why[256];
};

bool children_create(struct session *session)
{
	session->children = calloc(1, sizeof(*session->children));
	return session->children != NULL;
}

void children_free(struct session *session)
{
	free(session->children);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static struct error *check_list(const struct session *session, const struct tracepoint_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		if (list->items[i]->probe.site && list->items[i]->tracer->loads)
			return error_new(ERROR_REFUSED,
					 "the library of tracer '%s' isn't loaded there",
					 list->items[i]->tracer->name);
	}
	if (session->agent->control->traps)
		return error_new(ERROR_REFUSED, "the target has traps");
	return NULL;
}

static void note_left(struct session *session, pid_t pid, const struct error *why)
{
	session->children->left++;
	snprintf(session->children->why, sizeof(session->children->why), "process %d: %s", pid,
		 error_text(why));
}

/* ---- sites ----------------------------------------------------------------------------------- */

struct copies {
	struct patch_site *items;
	struct patch_site **list;
	size_t count;
};

/* Finds the host of the site's slot in the child: already there, or one of the copies, which
 * becomes site->after. False: neither. */
static bool find_host(struct proc *child, struct patch_site *const *patches, size_t count,
		      const struct copies *copies, struct patch_site *site)
{
	if (!site->after || patch_holds(child, site->after))
		return true;
	for (size_t i = 0; i < count; i++) {
		if (patches[i] != site->after)
			continue;
		for (size_t j = 0; j < copies->count; j++) {
			if (taddr_equal(copies->items[j].address, site->after->address) &&
			    copies->items[j].state == PATCH_PLANNED) {
				site->after = &copies->items[j];
				return true;
			}
		}
	}
	return false;
}

/* Copies the sites to place in this child and the sites to take out, by its bytes (K2). */
static void list_sites(struct proc *child, struct patch_site *const *patches, size_t count,
		       struct copies *copies)
{
	size_t kept = 0;

	assert(!copies->count);
	for (size_t i = 0; i < count; i++) {
		const struct patch_site *site = patches[i];
		bool is_new = site->state == PATCH_PLACED, held = patch_holds(child, site);

		if ((!is_new && site->state != PATCH_REMOVED) || is_new == held)
			continue;
		struct patch_site *copy = &copies->items[copies->count++];
		*copy = *site;
		copy->error = NULL;
		copy->state = is_new ? PATCH_PLANNED : PATCH_PLACED;
		assert((copy->state == PATCH_PLACED) == held); /* K2 */
	}
	for (size_t i = 0; i < copies->count; i++) {
		if (copies->items[i].state == PATCH_PLACED ||
		    find_host(child, patches, count, copies, &copies->items[i]))
			copies->list[kept++] = &copies->items[i];
	}
	copies->count = kept;
}

/* Places the copies. The error is the batch's, or that of the first site that failed. */
static struct error *place_sites(struct proc *child, const struct copies *copies)
{
	struct patch_stats stats;
	struct error *error = patch_place(child, NULL, copies->list, copies->count, NULL, &stats);

	for (size_t i = 0; i < copies->count; i++) {
		struct error *why = take_ptr(&copies->list[i]->error);

		if (error || copies->list[i]->state != PATCH_FAILED)
			error_free(why);
		else
			error = why;
	}
	return error;
}

/* ---- one child ------------------------------------------------------------------------------- */

/* Maps in the child what the target got since the fork (K1). */
static struct error *complete(struct session *session, struct proc *child)
{
	_cleanup_(cleanup_stop) struct stop *stop = NULL;
	struct error *error = stop_all_or_quit(child, STOP_TIMEOUT_MS, &stop);

	if (!error)
		error = agent_complete(stop, session->agent);
	return error ? error : exits_map_child(session, child, stop);
}

static struct error *place_child(struct session *session, struct proc *child,
				 const struct tracepoint_list *list,
				 struct patch_site *const *patches, size_t count)
{
	_cleanup_free_ struct patch_site *items = calloc(count + 1, sizeof(*items));
	_cleanup_free_ struct patch_site **pointers = calloc(count + 1, sizeof(*pointers));
	struct copies copies = { .items = items, .list = pointers };
	struct error *error;

	if (!items || !pointers)
		return error_new(ERROR_FAILED, "out of memory");
	if (!session_may_have_code(session, child))
		return NULL; /* the child has executed another program */
	list_sites(child, patches, count, &copies);
	if (!copies.count)
		return NULL; /* forked after the change: it already has these bytes */
	error = check_list(session, list);
	if (!error)
		error = complete(session, child);
	if (!error)
		error = place_sites(child, &copies);
	for (size_t i = 0; i < list->count && !error; i++) {
		if (list->items[i]->probe.site)
			semaphores_raise_child(child, list->items[i]);
	}
	return error;
}

static bool is_among(const struct tids *pids, pid_t pid)
{
	for (size_t i = 0; i < pids->count; i++) {
		if (pids->items[i] == pid)
			return true;
	}
	return false;
}

/* Places the sites in processes that weren't seen yet. False: there were none. */
static bool place_more(struct session *session, const struct tracepoint_list *list,
		       struct patch_site *const *patches, size_t count, struct tids *seen)
{
	struct tids pids = { 0 };
	_cleanup_error_ struct error *unknown = holders_find_forked(session->agent, &pids);
	bool any = false;

	for (size_t i = 0; i < pids.count && !unknown; i++) {
		struct proc *child = NULL;

		if (is_among(seen, pids.items[i]) || !vec_push(seen, pids.items[i]))
			continue;
		_cleanup_error_ struct error *error =
			proc_open_forked(pids.items[i], session->proc, &child);
		if (!error)
			error = place_child(session, child, list, patches, count);
		if (error && error_kind(error) != ERROR_GONE)
			note_left(session, pids.items[i], error);
		proc_close(child);
		any = true;
	}
	vec_free(&pids);
	return any;
}

/* Do the kernel's lists, one per thread, have no child of the target? False: they have one, or
 * there are too many lists. */
static bool is_childless(const struct session *session)
{
	struct tids threads = { 0 };
	_cleanup_error_ struct error *error = threads_list(session->proc, &threads);
	bool none = !error && threads.count <= THREADS_LOOKED_AT;

	for (size_t i = 0; i < threads.count && none; i++) {
		char path[64], byte;

		snprintf(path, sizeof(path), "/proc/%d/task/%d/children", session->proc->pid,
			 threads.items[i]);
		_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
		none = fd >= 0 && read(fd, &byte, 1) == 0;
	}
	vec_free(&threads);
	return none;
}

/* Is it time to look at all processes, which takes milliseconds? The lists of is_childless don't
 * have processes that lost their parent. */
static bool is_to_look(struct session *session)
{
	uint64_t now = now_ns();

	if (now < session->children->next_look && is_childless(session))
		return false;
	session->children->next_look = now + LOOK_NS;
	return true;
}

void children_place(struct session *session, const struct tracepoint_list *list,
		    struct patch_site *const *patches, size_t count)
{
	struct tids seen = { 0 };

	assert(session->agent && session->children);
	session->children->left = 0;
	if (!count || !session->options.follow_fork || !is_to_look(session))
		return;
	for (int i = 0; i < ROUNDS && place_more(session, list, patches, count, &seen); i++)
		session->children->next_look = 0; /* the next change looks again */
	vec_free(&seen);
}

bool children_are_left(const struct session *session)
{
	struct tids pids = { 0 };
	_cleanup_error_ struct error *unknown = holders_find_forked(session->agent, &pids);
	bool any = unknown || pids.count;

	vec_free(&pids);
	return any;
}

size_t children_left(const struct session *session, const char **ret_why)
{
	*ret_why = session->children->why;
	return session->children->left;
}
