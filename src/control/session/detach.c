/*
 * detach.c
 *
 * Takes the agent and all probes out of the target and of every process that was forked from it and
 * still maps the code (H12): restores the bytes, waits until no thread is in a trampoline or in the
 * agent, and unmaps. A process that has called execve has none of our mappings, and isn't touched.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "control/base/cleanup.h"
#include "control/proc/judged.h"
#include "control/proc/patience.h"
#include "control/patch/stranded.h"
#include "control/remote/remote_map.h"
#include "control/remote/unfit.h"
#include "control/stop/stop.h"
#include "control/tracers/call/faults.h"
#include "detach.h"
#include "garbage.h"
#include "control/exits/exits.h"
#include "control/session/own_probes/fronts.h"
#include "control/session/own_probes/library_notice.h"
#include "control/session/own_probes/traps.h"
#include "recording.h"
#include "control/tracers/dispatch.h"
#include "control/session/own_probes/semaphores.h"

#define IDLE_TIMEOUT_MS 2000 /* longer, while a thread gets no processor (patience.h) */
#define IDLE_STEP_MS 100 /* the first step; the next ones are longer */
#define IDLE_STEP_MAX_MS 800
#define CHILDREN_ROUNDS 8
#define OWN_RANGES 3 /* of list_ranges: agent, state and exits, before the windows */

static size_t patch_count(const struct session *session)
{
	assert(session->found.items || session->planner);
	return session->found.items ? session->found.count : planner_site_count(session->planner);
}

static struct patch_site *patch_at(const struct session *session, size_t index)
{
	return session->found.items ? &session->found.items[index] :
				      &planner_site(session->planner, index)->patch;
}

/* Lists the patches of the sites that go last, or of all others. Caller frees. */
static struct patch_site **list_patches(const struct session *session, bool last, size_t *ret_count)
{
	size_t all = patch_count(session), count = 0;
	struct patch_site **patches = calloc(all + 1, sizeof(*patches));

	for (size_t i = 0; patches && i < all; i++) {
		if (last == patch_at(session, i)->is_last)
			patches[count++] = patch_at(session, i);
	}
	*ret_count = count;
	return patches;
}

static bool has_last(const struct session *session)
{
	for (size_t i = 0; i < patch_count(session); i++) {
		if (patch_at(session, i)->is_last)
			return true;
	}
	return false;
}

static struct error *give_handlers_back(const struct session *session, struct proc *proc,
					struct stop *stop)
{
	struct error *error = traps_give_back(session, proc, stop);

	if (!error)
		error = faults_give_back(session, proc, stop);
	return error ? error : fronts_give_back(session, proc, stop);
}

struct hidden {
	const struct session *session;
	struct proc *proc;
	bool guarded; /* by what goes now */
};

/* Is a system call needed to give handlers back? */
static bool needs_thread(const struct hidden *hidden)
{
	const struct dt_control *control = hidden->session->agent->control;

	return hidden->guarded && (control->traps || control->calls ||
				   fronts_any(hidden->session, hidden->proc));
}

/* (H42) If no thread could be borrowed for that, the handlers would outlast the guards. Another
 * reason lasts: then the bytes go back all the same, and end_hiding gives the error. */
static struct error *may_end_hiding(void *data, struct stop *stop, bool *ret_now)
{
	const struct hidden *hidden = data;

	*ret_now = !traps_find_threads(hidden->session, stop);
	if (!*ret_now || !needs_thread(hidden))
		return NULL;
	struct error *error = remote_borrow(stop);
	if (!error)
		return remote_give_back(stop);
	if (unfit_is(error))
		return error;
	error_free(error);
	return NULL;
}

/* (H42) The target's handlers are its own again when the guards of rt_sigaction go. */
static struct error *end_hiding(void *data, struct stop *stop)
{
	const struct hidden *hidden = data;

	/* a function of the user's that doesn't return needs its handlers until it does */
	if (tracers_is_inside(hidden->session, hidden->proc))
		return NULL;
	if (!hidden->session->found.items) /* a dead controller's page can't be written */
		__atomic_fetch_or(&hidden->session->agent->control->flags, DT_FRONTS_GONE,
				  __ATOMIC_RELEASE);
	return give_handlers_back(hidden->session, hidden->proc, stop);
}

/* Restores the bytes. *ret_idle: no thread is in a trampoline. */
static struct error *try_restore(const struct session *session, struct proc *proc, bool last,
				 unsigned timeout_ms, bool *ret_idle)
{
	struct patch_stats stats;
	size_t count;
	_cleanup_free_ struct patch_site **patches = list_patches(session, last, &count);
	_cleanup_free_ struct patch_site *copies = calloc(count + 1, sizeof(*copies));

	if (!patches || !copies)
		return error_new(ERROR_FAILED, "out of memory");
	/* Each process has its own text: the copies get the states of this one. */
	for (size_t i = 0; i < count; i++) {
		copies[i] = *patches[i];
		copies[i].error = NULL;
		/* old_probes.c exchanges sites only in the target */
		if (session->found.items && proc != session->proc)
			copies[i].state = PATCH_PLACED;
		patches[i] = &copies[i];
	}
	struct hidden hidden = { session, proc, last };
	struct patch_also also = { .run = end_hiding, .may_run = may_end_hiding, .data = &hidden };
	struct error *error = patch_remove(proc, patches, count, timeout_ms,
					   last || !has_last(session) ? &also : NULL, ret_idle,
					   &stats);
	for (size_t i = 0; i < count; i++)
		error_free(copies[i].error);
	return error;
}

static unsigned longer_ms(unsigned ms)
{
	return 2 * ms < IDLE_STEP_MAX_MS ? 2 * ms : IDLE_STEP_MAX_MS;
}

static void wait_if_unfit(struct error *error, unsigned ms)
{
	if (error)
		nanosleep(&(struct timespec){ .tv_nsec = ms * 1000000L }, NULL);
	error_free(error);
}

/* Makes room meanwhile for threads that wait for it in full buffers (B8). */
static struct error *restore_text(struct session *session, struct proc *proc, bool last,
				  bool *ret_idle)
{
	_cleanup_(patience_free) struct patience patience;
	struct error *error = NULL;

	*ret_idle = false;
	patience_begin(&patience, proc, IDLE_TIMEOUT_MS, PATIENCE_MOST_MS);
	/* the pauses of a longer step are longer, for threads that wait for a busy processor */
	for (unsigned step = IDLE_STEP_MS;; step = longer_ms(step)) {
		error = try_restore(session, proc, last, step, ret_idle);
		recording_make_room(session);
		if ((error && !unfit_is(error)) || *ret_idle || patience_ends(&patience, proc))
			return error;
		wait_if_unfit(error, step);
	}
}

/* Likewise the bytes of removed probes, in which threads may still be. */
static struct error *restore_garbage(struct session *session, struct proc *proc, bool *ret_idle)
{
	_cleanup_(patience_free) struct patience patience;

	patience_begin(&patience, proc, 0, PATIENCE_MOST_MS);
	for (;;) {
		struct error *error = garbage_restore(session, proc, true, ret_idle);

		if (error || *ret_idle || patience_ends(&patience, proc))
			return error;
		recording_make_room(session);
	}
}

/* Lists the memory to unmap, which no thread may be in. */
static size_t list_ranges(const struct session *session, struct patch_range *ranges)
{
	const struct agent *agent = session->agent;
	size_t count = 0;

	assert(agent->control->window_count <= DT_WINDOWS_MAX);
	ranges[count++] = (struct patch_range){ .start = agent->agent_at,
						.end = taddr_add(agent->agent_at, DT_AGENT_SIZE) };
	ranges[count++] =
		(struct patch_range){ .start = agent->state_at,
				      .end = taddr_add(agent->state_at, sizeof(struct dt_state)) };
	ranges[count++] = exits_range(session);
	assert(count == OWN_RANGES);
	for (uint32_t i = 0; i < agent->control->window_count; i++) {
		const struct dt_window *window = &agent->control->windows[i];
		taddr start = taddr_of(window->address);

		if (taddr_equal(start, session->exits->window))
			continue;
		ranges[count++] = (struct patch_range){
			.start = start, .end = taddr_add(start, (int64_t)(window->pages * DT_PAGE))
		};
	}
	assert(count <= DT_WINDOWS_MAX + OWN_RANGES);
	return count;
}

/* Lists the memory beside the agent's own. */
static struct error *list_memory(const struct session *session, struct proc *proc,
				 struct remote_map_list *list)
{
	struct error *error = exits_list_memory(session, proc, list);

	if (!error)
		error = traps_list_memory(session, proc, list);
	if (!error)
		error = faults_list_memory(session, proc, list);
	return error ? error : fronts_list_memory(session, proc, list);
}

/* Takes all out, when no thread is inside any more. One borrowed thread makes all calls. */
static struct error *unmap_held(const struct session *session, struct proc *proc, struct stop *stop)
{
	_cleanup_(remote_map_list_free) struct remote_map_list list = { 0 };
	struct error *error = remote_borrow(stop);

	if (error)
		return error;
	error = give_handlers_back(session, proc, stop);
	if (!error)
		error = list_memory(session, proc, &list);
	if (!error)
		error = agent_remove(stop, session->agent, &list);
	struct error *end = remote_give_back(stop);
	if (error)
		error_free(end);
	return error ? error : end;
}

/* *ret_found: a thread is still inside. */
static struct error *look_inside(const struct session *session, struct proc *proc,
				 struct stop *stop, struct patch_search *search, bool *ret_found)
{
	size_t windows = search->count - OWN_RANGES;
	struct error *error = NULL;

	if (session->found.items)
		error = stranded_send_back(proc, stop, session->found.items, session->found.count,
					   search->ranges + OWN_RANGES, windows);
	if (!error)
		error = patch_search_threads(search, stop, ret_found);
	if (!error && (tracers_is_inside(session, proc) || traps_find_threads(session, stop)))
		*ret_found = true;
	return error;
}

/* One try; *ret_done false: a thread was still inside. */
static struct error *try_unmap(const struct session *session, struct proc *proc,
			       const struct patch_range *ranges, size_t range_count, bool *ret_done)
{
	_cleanup_(patch_search_end) struct patch_search search = { 0 };
	_cleanup_(cleanup_stop) struct stop *stop = NULL;
	_cleanup_(maps_free) struct maps maps = { 0 };
	struct error *error = stop_all(proc, STOP_TIMEOUT_MS, &stop);
	bool found = false;

	if (!error)
		error = patch_search_begin(&search, proc, ranges, range_count);
	if (!error)
		error = look_inside(session, proc, stop, &search, &found);
	if (!error && !found)
		error = maps_read(proc, &maps);
	if (!error && !found) {
		proc->maps_before = &maps;
		proc->maps_current = true;
		error = unmap_held(session, proc, stop);
		proc->maps_before = NULL;
		proc->maps_current = false;
	}
	*ret_done = !error && !found;
	return error;
}

static struct error *unmap_all(struct session *session, struct proc *proc)
{
	struct patch_range ranges[DT_WINDOWS_MAX + OWN_RANGES];
	size_t range_count = list_ranges(session, ranges);
	_cleanup_(patience_free) struct patience patience;

	patience_begin(&patience, proc, IDLE_TIMEOUT_MS, PATIENCE_MOST_MS);
	for (unsigned pause = 1;; pause = longer_ms(pause)) {
		bool done;
		struct error *error = try_unmap(session, proc, ranges, range_count, &done);

		if ((error && !unfit_is(error)) || done)
			return error;
		if (patience_ends(&patience, proc))
			return error ? error :
				       error_new(ERROR_FAILED, "a thread stays inside a probe");
		error_free(error);
		recording_make_room(session);
		nanosleep(&(struct timespec){ .tv_nsec = pause * 1000000L }, NULL);
	}
}

/* A process that has ended, or has begun another program, needs no cleaning up. */
static struct error *unless_gone(const struct session *session, struct proc *proc,
				 struct error *error)
{
	if (!error || error_kind(error) != ERROR_GONE ||
	    (proc && proc_is_alive(proc) && session_may_have_code(session, proc)))
		return error;
	error_free(error);
	return NULL;
}

/* Stops all recording in the process. */
static struct error *quiet_process(struct session *session, struct proc *proc)
{
	bool idle = true, clean = true;

	semaphores_lower_all(session, proc);
	struct error *error = restore_garbage(session, proc, &idle);

	if (!error && session->placed && idle)
		error = restore_text(session, proc, false, &idle);
	if (!error && idle)
		error = exits_settle(session, proc, &clean);
	/* unwinders don't need our probes any more */
	if (!error && session->placed && idle && has_last(session))
		error = restore_text(session, proc, true, &idle);
	if (!error && !idle)
		error = error_new(ERROR_FAILED, "a thread stays inside a probe");
	if (!error && !clean)
		error = error_new(
			ERROR_FAILED,
			"a call that never returned may still do so, and needs its return stub "
			"(longjmp, an exception, a copied stack)");
	return error;
}

static struct error *unmap_process(struct session *session, struct proc *proc)
{
	struct error *error = exits_unregister(session, proc);

	return error ? error : unmap_all(session, proc);
}

/* A process that maps our code. */
struct holder {
	struct proc *proc;
	bool quiet;
};

struct holders {
	struct holder *items;
	size_t count;
	size_t room;
};

static void note_left(struct session_summary *summary, pid_t pid, struct error *error)
{
	if (!error)
		return;
	summary->left = true;
	snprintf(summary->why, sizeof(summary->why), "the agent stays in process %d: %s", pid,
		 error_text(error));
	error_free(error);
}

static void add_holder(struct session *session, struct holders *holders, struct proc *proc,
		       struct session_summary *summary)
{
	struct holder holder = { .proc = proc };

	if (proc_is_alive(proc) && session_may_have_code(session, proc)) {
		struct error *error = unless_gone(session, proc, quiet_process(session, proc));

		holder.quiet = !error;
		note_left(summary, proc->pid, error);
	}
	if (!vec_push(holders, holder)) {
		note_left(summary, proc->pid, error_new(ERROR_FAILED, "out of memory"));
		if (proc != session->proc)
			proc_close(proc);
	}
}

static bool is_holder(const struct holders *holders, pid_t pid)
{
	for (size_t i = 0; i < holders->count; i++) {
		if (holders->items[i].proc->pid == pid)
			return true;
	}
	return false;
}

/* Adds forked children that aren't in the list yet: all, or those that aren't older than the agent.
 * True: it found some. */
static bool add_children(struct session *session, struct holders *holders, bool all,
			 struct session_summary *summary)
{
	struct tids pids = { 0 };
	struct error *error = all ? holders_find(session->agent, &pids) :
				    holders_find_forked(session->agent, &pids);
	bool any = false;

	for (size_t i = 0; !error && i < pids.count; i++) {
		struct proc *child = NULL;

		if (is_holder(holders, pids.items[i]))
			continue;
		struct error *failed =
			unless_gone(session, NULL, proc_open_plain(pids.items[i], &child));
		note_left(summary, pids.items[i], failed);
		if (child) {
			proc_take_after(child, session->proc);
			error_free(judged_renew(child));
			add_holder(session, holders, child, summary);
		}
		any |= child != NULL;
	}
	vec_free(&pids);
	note_left(summary, session->proc->pid, error);
	return any;
}

/* Does another process than the target itself go on? */
static bool is_child(const struct session *session, struct proc *proc)
{
	const struct session *root = session->parent ? session->parent : session;

	return proc->pid != root->proc->pid && proc_is_alive(proc);
}

static void unmap_holder(struct session *session, const struct holder *holder,
			 struct session_summary *summary)
{
	if (holder->quiet && proc_is_alive(holder->proc) &&
	    session_may_have_code(session, holder->proc))
		note_left(summary, holder->proc->pid,
			  unless_gone(session, holder->proc,
				      unmap_process(session, holder->proc)));
	summary->children += is_child(session, holder->proc);
}

/* The target first: a child that is forked later has none of our memory. */
static void unmap_holders(struct session *session, struct holders *holders,
			  struct session_summary *summary)
{
	size_t done = 0;

	assert(holders->items[0].proc == session->proc);
	for (int round = 0; round < CHILDREN_ROUNDS; round++) {
		while (done < holders->count)
			unmap_holder(session, &holders->items[done++], summary);
		/* forked while the others were found, or by one of them while it still had it */
		if (!add_children(session, holders, false, summary))
			return;
	}
}

/* First all processes stop recording, then session->quiet may look at the pool, then everything is
 * unmapped. */
struct error *detach_all(struct session *session, struct session_summary *summary)
{
	struct holders holders = { 0 };
	struct error *error = NULL;

	if (!session->agent)
		return NULL;
	error_free(judged_renew(session->proc)); /* each call asks the verdict */
	library_notice_end(session);
	/* threads that ask whether their next program is followed wait no longer */
	__atomic_or_fetch(&session->agent->control->flags, DT_NO_EXECS, __ATOMIC_RELAXED);
	add_holder(session, &holders, session->proc, summary);
	for (int round = 0; round < CHILDREN_ROUNDS && holders.count &&
			    add_children(session, &holders, true, summary);
	     round++)
		;
	if (session->quiet)
		error = session->quiet(session);
	tracers_leave(session, summary);
	if (holders.count)
		unmap_holders(session, &holders, summary);
	for (size_t i = 0; i < holders.count; i++) {
		if (holders.items[i].proc != session->proc)
			proc_close(holders.items[i].proc);
	}
	vec_free(&holders);
	return error;
}
