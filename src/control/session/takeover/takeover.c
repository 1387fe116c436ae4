#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "control/agent/sweep.h"
#include "control/proc/proc_status.h"
#include "control/record/resume.h"
#include "control/session/detach.h"
#include "control/session/processes/thread_liveness.h"
#include "takeover_state.h"

/* ---- events --------------------------------------------------------------------------------- */

/* Copies the pool through the target's memory, which needs no right but ptrace's (H24). Counts that
 * can't be read are lost. */
static struct error *copy_pool(struct session *dead)
{
	struct agent *agent = dead->agent;
	struct error *error = mem_read(dead->proc, agent->pool_at, agent->pool, agent->pool_size);

	if (!error)
		error_free(old_counts_read(dead, dead->old_counts));
	return error;
}

static const struct session_guest old_counts_owner = { .free = old_counts_destroy };

struct error *takeover_create_dead(struct proc *proc, const struct session_options *options,
				   struct session **ret_dead)
{
	struct session *dead = NULL;
	struct error *error = session_create(proc, options, &dead);

	if (error)
		return error;
	session_invite(dead, &old_counts_owner);
	if (!old_counts_create(dead)) {
		session_destroy(dead);
		return error_new(ERROR_FAILED, "out of memory");
	}
	*ret_dead = dead;
	return NULL;
}

struct writer_part takeover_part(const struct session *dead)
{
	struct writer_part part = { .number = dead->agent->control->part };

	memcpy(part.uuid, dead->agent->control->uuid, sizeof(part.uuid));
	return part;
}

struct error *takeover_reopen(struct session *dead, struct trace_dir *dir,
			      struct event_types *types, struct reader_resume *resume,
			      struct trace_writer **ret_writer)
{
	assert(!takeover_is_half(dead));
	const struct dt_control *control = dead->agent->control;
	struct resume seen = { dead->agent->pool, resume };
	struct writer_part part = takeover_part(dead);

	if (!dir && !control->output[0])
		return error_new(ERROR_FAILED, "its trace is unknown");
	if (!dir && dead->proc->names_no_files)
		return error_new(ERROR_NOT_PERMITTED,
				 "a process of another user doesn't name files for root (use 'dyntrace "
				 "detach' without the daemon)");
	return dir ? writer_reopen_in(dir, &part, types, resume_see, &seen, ret_writer)
		   : writer_reopen(control->output, &part, types, resume_see, &seen, ret_writer);
}

struct error *takeover_read(struct session *dead, struct trace_writer *writer,
			    const struct reader_resume *resume, struct takeover *takeover)
{
	assert(dead->agent && !dead->reader);
	const struct dt_control *control = dead->agent->control;
	struct reader_options options = {
		.pool = dead->agent->pool,
		.pool_size = dead->agent->pool_size,
		.small_count = control->small_count,
		.big_count = control->big_count,
		.types = dead->types,
		.writer = writer,
		.outer = thread_liveness_outer,
		.outer_context = dead,
		.resume = resume,
		.since = proc_status_born(dead->proc),
	};
	struct reader_totals totals = { 0 };
	struct error *error = reader_create(&options, &dead->reader);

	if (!error)
		error = reader_finish(dead->reader, &totals);
	takeover->events += totals.events;
	takeover->unwritten += totals.unwritten;
	return error;
}

/* Completes this part of the trace; another part will follow. */
static struct error *complete(struct trace_writer *writer)
{
	struct error *error = writer_complete(writer), *closing = writer_suspend(writer);

	if (error)
		error_free(closing);
	return error ? error : closing;
}

/* Saves events in the trace that the dead controller wrote. `dir` NULL: at the path that it
 * noted. */
static struct error *save_events(struct session *dead, struct trace_dir *dir, bool goes_on,
				 struct takeover *takeover)
{
	const struct dt_control *control = dead->agent->control;
	_cleanup_free_ struct reader_resume *resume = calloc(DT_THREADS_MAX, sizeof(*resume));
	struct trace_writer *writer = NULL;

	if (!resume)
		return error_new(ERROR_FAILED, "out of memory");
	struct error *error = takeover_reopen(dead, dir, dead->types, resume, &writer);
	if (error)
		return error;
	error = writer_limit_before(writer, NULL, &dead->options.limits);
	if (!error)
		error = takeover_read(dead, writer, resume, takeover);
	struct error *closing = goes_on ? complete(writer) : writer_close(writer);
	if (error)
		error_free(closing);
	else
		error = closing;
	if (!error || takeover->events)
		snprintf(takeover->trace, sizeof(takeover->trace), "%s",
			 dir ? dir->path : control->output);
	return error;
}

/* ---- leftovers ------------------------------------------------------------------------------ */

/* Removes mappings and descriptors that a killed controller was just making. */
static struct error *sweep(struct proc *proc, const struct agent *agent)
{
	_cleanup_(cleanup_stop) struct stop *stop = NULL;
	const struct dt_control *control = agent ? agent->control : NULL;
	const struct dt_window *next = control && control->window_count < DT_WINDOWS_MAX ?
					       &control->windows[control->window_count] :
					       NULL;
	bool any = next && next->address;
	struct error *error = any ? NULL : sweep_look(proc, &any);

	if (!error && any)
		error = stop_all(proc, STOP_TIMEOUT_MS, &stop);
	return error || !any ? error : sweep_clean(stop, next);
}

/* ---- all steps ------------------------------------------------------------------------------ */

bool takeover_is_half(const struct session *dead)
{
	return !dead->agent->control->magic;
}

struct error *takeover_undo(struct session *dead, struct takeover *takeover)
{
	struct session_summary summary = { 0 };

	assert(!takeover_is_half(dead) && dead->found.items && !dead->planner);
	assert(dead->found.own <= dead->found.count);
	dead->quiet = copy_pool;
	struct error *error = detach_all(dead, &summary);
	takeover->sites += dead->found.count - dead->found.own;
	takeover->left |= summary.left;
	snprintf(takeover->why, sizeof(takeover->why), "%s", summary.why);
	return error;
}

/* `alone`: the process has no other agent, so everything with our names is a leftover. */
static struct error *clean(struct session *dead, struct trace_dir *dir, bool goes_on, bool alone,
			   struct takeover *takeover)
{
	if (takeover_is_half(dead)) {
		takeover->half |= !takeover->sites;
		return alone ? sweep(dead->proc, dead->agent) : NULL;
	}
	const struct dt_control *control = dead->agent->control;
	struct error *error = takeover_undo(dead, takeover);
	if (control->output[0])
		takeover->part = takeover_part(dead);
	takeover->ended = control->flags & DT_ENDED;
	takeover->has_trace |= control->output[0] != '\0' && !takeover->ended;
	if (!error && !takeover->left && alone && proc_is_alive(dead->proc))
		/* mappings that it was just adding when it was killed */
		error = sweep(dead->proc, dead->agent);
	if (!error && !takeover->ended)
		error = save_events(dead, dir, goes_on, takeover);
	if (error)
		snprintf(takeover->unsaved, sizeof(takeover->unsaved), "%s", error_text(error));
	error_free(error);
	return NULL;
}

static struct error *clean_agent(struct proc *proc, const struct maps *maps,
				 const struct mapping *code, struct trace_dir *dir, bool goes_on,
				 const struct writer_limits *limits, struct old_counts *old_counts,
				 struct takeover *takeover)
{
	struct session_options options = { .limits = *limits };
	struct session *dead = NULL;
	struct error *error = takeover_create_dead(proc, &options, &dead);

	if (!error)
		error = takeover_find(dead, maps, code);
	if (!error)
		error = clean(dead, dir, goes_on, !takeover_next(maps, code) && !takeover->left,
			      takeover);
	if (!error)
		old_counts_move(dead->old_counts, old_counts);
	session_destroy(dead);
	return error;
}

struct error *takeover_clean_to(struct proc *proc, struct trace_dir *dir, bool goes_on,
				const struct writer_limits *limits, struct old_counts *old_counts,
				struct takeover *ret_takeover)
{
	_cleanup_(maps_free) struct maps maps = { 0 };
	struct takeover takeover = { 0 };
	struct error *error = maps_read(proc, &maps);
	const struct mapping *code = error ? NULL : takeover_next(&maps, NULL);

	if (code) {
		maps_free(&maps);
		error = sweep_await_home(proc);
		if (!error)
			error = maps_read(proc, &maps);
		code = error ? NULL : takeover_next(&maps, NULL);
	}
	if (!error && !code) {
		error = sweep_look(proc, &takeover.found);
		takeover.half = takeover.found;
		if (!error && takeover.found)
			error = sweep_await_home(proc);
		if (!error && takeover.found)
			error = sweep(proc, NULL);
	}
	/* a controller killed during a takeover may leave two agents */
	for (; !error && code; code = takeover_next(&maps, code)) {
		takeover.found = true;
		error = clean_agent(proc, &maps, code, dir, goes_on || takeover_next(&maps, code),
				    limits, old_counts, &takeover);
	}
	if (!error)
		*ret_takeover = takeover;
	return error;
}

struct error *takeover_clean(struct proc *proc, struct takeover *ret_takeover)
{
	const struct writer_limits unknown = { 0 };
	struct old_counts unused = { 0 };
	struct error *error =
		takeover_clean_to(proc, NULL, false, &unknown, &unused, ret_takeover);

	old_counts_free(&unused);
	return error;
}

/* `text`: where the line goes on. */
static void describe_events(const struct takeover *takeover, char *text, size_t size)
{
	unsigned long long events = takeover->events, unwritten = takeover->unwritten;

	if (takeover->trace[0] && takeover->unsaved[0])
		snprintf(text, size,
			 "; %llu unwritten events were saved in %s, %llu could not be saved: %s",
			 events, takeover->trace, unwritten, takeover->unsaved);
	else if (takeover->trace[0])
		snprintf(text, size, "; %llu unwritten events were saved in %s", events,
			 takeover->trace);
	else if (unwritten)
		snprintf(text, size, "; %llu unwritten events could not be saved: %s", unwritten,
			 takeover->unsaved);
	else
		snprintf(text, size, "; unwritten events could not be saved: %s",
			 takeover->unsaved);
}

void takeover_describe(const struct proc *proc, const struct takeover *takeover,
		       char text[TAKEOVER_TEXT])
{
	int length;

	if (takeover->half) {
		snprintf(text, TAKEOVER_TEXT,
			 "process %d (%s): removed memory of a dyntrace that was killed (it had no "
			 "probes)",
			 proc->pid, proc->comm);
		return;
	}
	length = snprintf(text, TAKEOVER_TEXT, "process %d (%s): removed %zu probe%s %s",
			  proc->pid, proc->comm, takeover->sites, takeover->sites == 1 ? "" : "s",
			  takeover->ended ? "that a dyntrace had to leave at its end" :
					    "of a dyntrace that was killed");
	if (!takeover->has_trace || length < 0 || length >= TAKEOVER_TEXT)
		return;
	describe_events(takeover, text + length, TAKEOVER_TEXT - (size_t)length);
}
