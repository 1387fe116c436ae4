/*
 * session.h - one target, its tracepoints, its trace.
 *
 *	session_create		nothing is touched yet
 *	session_add		what to trace, as the user named it
 *	session_resolve		names to places; nothing is touched yet
 *	session_begin		the agent, the probes, the trace's directory: from here on it records
 *	session_step		again and again, until session_ended or the user has had enough
 *	session_end		the target is as it was found, the trace is complete
 *
 * From session_begin on tracepoints come, change and go at any moment: session_add places at once,
 * session_remove, session_switch and session_add_context take names. A session may begin with no
 * tracepoint: the agent is in, and the trace's directory is made with the first tracepoint.
 *
 * Who serves others meanwhile sleeps in poll() on session_fd for session_timeout_ms, and then calls
 * session_step with 0.
 *
 * One thread uses a session (ptrace wants that). Prints nothing.
 */
#ifndef DYNTRACE_SESSION_H
#define DYNTRACE_SESSION_H

#include "control/session/state/session_options.h"
#include "control/session/state/tracepoint.h"
#include "control/stop/stop.h"

struct session;

/* The process is borrowed. */
struct error *session_create(struct proc *proc, const struct session_options *options,
			     struct session **ret_session);
void session_destroy(struct session *session);

/*
 * Before session_begin: noted, and resolved by session_resolve. Then: placed at once, in one stop.
 * A place that was named is probed or it is an error, with nothing changed; of those that a glob
 * matched the others are probed. ret_names (NULL: not wanted) are those of what was made: none
 * before session_begin, the placeholder's if it waits.
 */
struct error *session_add(struct session *session, const struct tracepoint_spec *spec,
			  struct name_list *ret_names);

/* Finds all that was added, in the modules the process has now. Can be called again when it has
 * more. */
struct error *session_resolve(struct session *session);

/* Exits in a static program whose unwinder must be told of them: that works from its main on. Where
 * that is; 0: nothing is in the way. After session_resolve. */
taddr session_exits_from(struct session *session);

/* Tracers that load libraries do so when the loader is done with a program that was started: where
 * that is; 0: no matter. Fails where they can't. After session_resolve. */
struct error *session_tracers_from(struct session *session, taddr *ret_from);

/* Is any of what was added in a module that is neither the program nor there only later: the
 * loader? */
bool session_names_loader(const struct session *session);

/* `held`: NULL, or a stop that holds every thread already. A place that was named and can't be
 * probed is an error; of those that a glob matched the others are probed. On failure nothing stays
 * behind. */
struct error *session_begin(struct session *session, struct stop *held);

/* Waits for events, at most that long, and writes what there is. */
struct error *session_step(struct session *session, unsigned timeout_ms);

/* In overwrite mode: writes what the buffers hold to a trace of its own, and goes on: made by
 * `directory`, or, if that is NULL, at `output`, which must not exist. */
struct error *session_snapshot(struct session *session, struct trace_dir *directory,
			       const char *output, struct reader_totals *ret_totals);

/* What events look like, and when they were: for who observes. */
const struct event_types *session_types(const struct session *session);
const struct clock_estimate *session_clock(const struct session *session);

/* How many places of globs were left out, because a filter or context means nothing there;
 * *ret_why, if any. */
size_t session_left_out(const struct session *session, const char **ret_why);

/* Has the target ended? */
bool session_ended(const struct session *session);

/* Takes everything out of the target and its forked children, if they live, and completes the
 * trace. */
struct error *session_end(struct session *session, struct session_summary *ret_summary);

/* The longest that the target stood still when the probes were placed, in microseconds. */
uint64_t session_stopped_us(const struct session *session);

/* ---- while it records: tracepoints by name or glob; an error if there is none of that name --- */

/* Out of the target's code, and of the list: the name is free again. What was recorded stays in the
 * trace. Its memory is used again once nobody can be in it, in no process. */
struct error *session_remove(struct session *session, const char *pattern, size_t *ret_count);
/* Switches their recording, in the target and its children. No thread is stopped. */
struct error *session_switch(struct session *session, const char *pattern, bool on,
			     size_t *ret_count);
/* One more context: from now on the events have it, under the same name. */
struct error *session_add_context(struct session *session, const char *pattern, const char *type,
				  size_t *ret_count);

/* Recording as a whole; nothing is recorded while it is off. No thread is stopped. */
struct error *session_recording(struct session *session, bool on);
/* Reads all that is complete in the buffers, and writes it. In overwrite mode only counts what is
 * there. */
struct error *session_flush(struct session *session);
/* Where the trace goes, while there is no tracepoint yet. Borrowed until the session is destroyed. */
void session_set_directory(struct session *session, struct trace_dir *directory);

/* How many processes that were forked from the target before did not get what was added last;
 * *ret_why: one of them, and why. */
size_t session_children_left(const struct session *session, const char **ret_why);
/* Does it, or will it, write to the trace of a controller that was killed (takeover.h)? */
bool session_goes_on(const struct session *session);

/* Libraries were loaded or unloaded: what waits for one is placed, what was in one that is gone
 * waits for it again. Quick; nothing is called in the target. */
struct error *session_modules_changed(struct session *session);

/* Readable when there is something to do: a chunk was published, the target has ended. The
 * session's own. */
struct error *session_fd(struct session *session, int *ret_fd);
/* How long poll may sleep; -1: as long as it likes. */
int session_timeout_ms(const struct session *session);

/* A library of probe functions, by its absolute path: loaded by the target's own loader. Fails
 * where it is loaded already. */
struct error *session_load(struct session *session, const char *path);
/* Notices what has happened to tracepoints' functions, as session_step does. */
void session_look(struct session *session);
/* Fails while a tracepoint uses it. */
struct error *session_unload(struct session *session, const char *path);

/* Takes one tracepoint out of the target's code, and puts it back; it stays in the list. */
struct error *session_take_out(struct session *session, size_t index);
struct error *session_put_back(struct session *session, size_t index);

/* Bytes of trampolines in the target, those that wait for their end included. */
uint64_t session_code_used(const struct session *session);

/* In the order in which they were added; an index is good until the next add, remove or module
 * change. */
size_t session_tracepoint_count(const struct session *session);
struct tracepoint_info session_tracepoint(const struct session *session, size_t index);
struct error *session_find(const struct session *session, const char *name, size_t *ret_index);

#endif
