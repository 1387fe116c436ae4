/*
 * children.c
 *
 * A forked child has a text of its own, which was copied with the sites that were there then; and
 * it has our memory at the same addresses. So the trampolines that were written for the target
 * serve it as well, once it has the windows that were mapped since then.
 *
 * (K1) A site is placed in a child only if all that its trampoline uses is there: windows, shared
 *      memory, return slots.
 * (K2) What a child has or hasn't is seen by its bytes, never remembered: it may have been forked
 *      in the middle of everything, and whoever takes sites out (detach.c, change.c) looks for them
 *      in the same way.
 *
 * Left alone are children that can't be traced by themselves (they filter their system calls, a
 * debugger has them), and tracepoints that need something which the target alone was given:
 * functions of others, which are loaded there, and the handler of SIGTRAP.
 */
#include "children.h"

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
#include "control/session/own_probes/semaphores.h"

#define ROUNDS 4 /* whoever is forked from a child meanwhile */
#define THREADS_LOOKED_AT 16
#define LOOK_NS 1000000000ULL

/* ---- what can't be --------------------------------------------------------------------------- */

struct children {
	/* ns of CLOCK_MONOTONIC: until then the target has no children but those that the kernel lists */
	uint64_t next_look;
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

static struct error *check_list(const struct session *session, const struct tracepoint_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		if (list->items[i]->probe.site && list->items[i]->tracer->loads)
			return error_new(ERROR_REFUSED,
					 "tracer '%s' would have to be loaded there, too",
					 list->items[i]->tracer->name);
	}
	return session->agent->control->traps ? error_new(ERROR_REFUSED, "there are traps") : NULL;
}

static void note_left(struct session *session, pid_t pid, const struct error *why)
{
	session->children->left++;
	snprintf(session->children->why, sizeof(session->children->why), "process %d: %s", pid,
		 error_text(why));
}

/* ---- its sites ------------------------------------------------------------------------------- */

struct copies {
	struct patch_site *items;
	struct patch_site **list;
	size_t count;
};

/* The site that leads on, as the child will have it: one that it has, or one of the copies. False:
 * neither. */
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

/* (K2) What is to be placed and taken out in this child. */
static void list_sites(struct proc *child, struct patch_site *const *patches, size_t count,
		       struct copies *copies)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++) {
		const struct patch_site *site = patches[i];
		bool is_new = site->state == PATCH_PLACED, held = patch_holds(child, site);

		if ((!is_new && site->state != PATCH_REMOVED) || is_new == held)
			continue;
		struct patch_site *copy = &copies->items[copies->count++];
		*copy = *site;
		copy->error = NULL;
		copy->state = is_new ? PATCH_PLANNED : PATCH_PLACED;
	}
	for (size_t i = 0; i < copies->count; i++) {
		if (copies->items[i].state == PATCH_PLACED ||
		    find_host(child, patches, count, copies, &copies->items[i]))
			copies->list[kept++] = &copies->items[i];
	}
	copies->count = kept;
}

/* The first site that could not be placed says why. */
static struct error *place_sites(struct proc *child, const struct copies *copies)
{
	struct patch_stats stats;
	struct error *error = patch_place(child, NULL, copies->list, copies->count, &stats);

	for (size_t i = 0; i < copies->count; i++) {
		struct error *why = take_ptr(&copies->list[i]->error);

		if (error || copies->list[i]->state != PATCH_FAILED)
			error_free(why);
		else
			error = why;
	}
	return error;
}

/* ---- the child ------------------------------------------------------------------------------- */

/* (K1) */
static struct error *complete(struct session *session, struct proc *child)
{
	_cleanup_(cleanup_stop) struct stop *stop = NULL;
	struct error *error = stop_all(child, STOP_TIMEOUT_MS, &stop);

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
	if (!session_has_code(session, child))
		return NULL; /* it has begun another program */
	list_sites(child, patches, count, &copies);
	if (!copies.count)
		return NULL; /* forked behind it all */
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

/* Those that weren't seen yet; false: there were none. */
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
		_cleanup_error_ struct error *error = proc_open(pids.items[i], &child);
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

/* By the kernel's lists, one a thread. False: there may be some, or that is too much to look at. */
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

/* Who lost its parent isn't in those lists: now and then all processes are looked at, which takes
 * milliseconds. */
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

	session->children->left = 0;
	if (!count || !session->options.follow_fork || !is_to_look(session))
		return;
	for (int i = 0; i < ROUNDS && place_more(session, list, patches, count, &seen); i++)
		session->children->next_look = 0; /* looked for again each time */
	vec_free(&seen);
}

size_t children_left(const struct session *session, const char **ret_why)
{
	*ret_why = session->children->why;
	return session->children->left;
}
