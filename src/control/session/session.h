/*
 * session.h - one target, its tracepoints, its trace.
 *
 *	session_create		touches nothing
 *	session_add		takes a location, as the user named it
 *	session_resolve		finds places for the locations; touches nothing
 *	session_begin		injects agent and probes, makes the trace: events are recorded now
 *	session_step		again and again, until session_ended or the user wants to end
 *	session_end		leaves the target as it was found, completes the trace
 *
 * From session_begin on tracepoints come, change and go at any moment: session_add places at once;
 * session_remove, session_switch and session_add_context take names. A session may begin without
 * tracepoints: the agent is injected, and the trace's directory is made with the first tracepoint.
 *
 * A caller with other work sleeps in poll() on session_fd for session_timeout_ms, and then calls
 * session_step with 0.
 *
 * One thread uses a session (ptrace wants that). Prints nothing.
 */
#ifndef DYNTRACE_SESSION_H
#define DYNTRACE_SESSION_H

#include "control/record/distribution.h"
#include "control/session/state/session_options.h"
#include "control/session/state/tracepoint.h"
#include "control/stop/stop.h"

struct session;

/* The process is borrowed. */
struct error *session_create(struct proc *proc, const struct session_options *options,
			     struct session **ret_session);
void session_destroy(struct session *session);

/*
 * Before session_begin: notes the spec for session_resolve. Afterwards: places it at once, in one
 * stop. If a named place can't be probed, fails with nothing changed; of a glob's places, some may
 * be refused. ret_names (NULL: not wanted): names of the new tracepoints; none before
 * session_begin; a placeholder's if it waits for its module.
 */
struct error *session_add(struct session *session, const struct tracepoint_spec *spec,
			  struct name_list *ret_names);
/* Adds after session_begin. `names`: those that the spec's tracepoints had in another session,
 * in the order of ret_made; ret_made: all new tracepoints, also refused ones. */
struct error *session_add_as(struct session *session, const struct tracepoint_spec *spec,
			     const struct name_list *names, struct name_list *ret_made,
			     struct name_list *ret_names);

/* The share of CPU time that tracing took lately, by estimate; less than 0: without a budget
 * nobody estimates it. */
double session_overhead(const struct session *session);

/* Finds everything that was added in the modules that the process has now. Can be called again
 * when it has more. */
struct error *session_resolve(struct session *session);

/* The address to which a static program must run before its unwinder can learn of return stubs: its
 * main. 0: exits can be placed at once. After session_resolve. */
taddr session_exits_from(struct session *session);

/* The address to which a started program must run before tracers can load libraries: where its
 * loader is done. 0: at once. Fails where tracers can't load any. After session_resolve. */
struct error *session_tracers_from(struct session *session, taddr *ret_from);

/* Is a place that session_resolve found outside the program? While the process has loaded only the
 * program and the loader, that place is in the loader. */
bool session_names_loader(const struct session *session);

/* `held`: NULL, or a stop that holds every thread already. Fails if a named place can't be probed;
 * of a glob's places, some may be refused. On failure nothing stays behind. */
struct error *session_begin(struct session *session, struct stop *held);

/* Waits for events, at most timeout_ms, and writes them to the trace. */
struct error *session_step(struct session *session, unsigned timeout_ms);

/* In overwrite mode: writes the buffers to a separate trace, and goes on recording. The trace is
 * made by `directory`, or if that is NULL at `output`, which must not exist. last_ns: only the
 * events of that time before now; 0: all. */
struct error *session_snapshot(struct session *session, struct trace_dir *directory,
			       const char *output, uint64_t last_ns,
			       struct reader_totals *ret_totals);

/* The types of events, with their counts. */
const struct event_types *session_types(const struct session *session);
/* Before session_begin: prints a line per event to the descriptor too, which it takes over, as
 * logfile.h describes. The caller ignores SIGPIPE. */
struct error *session_print(struct session *session, int fd);
/* Number of lines that weren't printed. *ret_closed: nobody reads them any more. */
uint64_t session_unprinted(const struct session *session, bool *ret_closed);

/* The number of a glob's places that were left out because a filter or context has no meaning
 * there; *ret_why: one reason. */
size_t session_left_out(const struct session *session, const char **ret_why);
/* Tracer lttng: true if no started session of LTTng records the events of these tracepoints (NULL:
 * of all); the text says so, and how to make one. */
bool session_unheard(const struct session *session, const struct name_list *names, char *ret_text,
		     size_t size);
/* The number of lines of logs that weren't written; *ret_why: session_summary.lines_why. */
uint64_t session_lines_left_out(const struct session *session, const char **ret_why);

/* After session_resolve: did it find any place? */
bool session_has_places(const struct session *session);
/* With several programs: why a request has no place in any of them; NULL: all have. */
struct error *session_missing(struct session *session);

/* Has the target ended, and every process that was joined? */
bool session_ended(const struct session *session);

/* Do processes run that were forked from the target, or programs that were followed? Looks at all
 * processes: milliseconds. */
bool session_has_offspring(const struct session *session);

/* Takes everything out of the target and its forked children, if they are alive, and completes the
 * trace. */
struct error *session_end(struct session *session, struct session_summary *ret_summary);

/*
 * Leaves everything in the target as a killed controller would, and the trace open: for another
 * controller that takes over without a gap (takeover_inherit). Writes all events up to the clock
 * `until` before; *ret_unfinished: a thread hasn't completed one of them within a second.
 * Afterwards only the tracepoints' names, and session_destroy.
 */
struct error *session_leave(struct session *session, uint64_t until, bool *ret_unfinished);

/* When hits began to count, in ns of CLOCK_MONOTONIC: before the first placing. 0: not yet. */
uint64_t session_begun_ns(const struct session *session);
/* The longest stop of the target when probes were placed, in microseconds. */
uint64_t session_stopped_us(const struct session *session);

/* ---- while recording: tracepoints by name or glob; an error if none has the name ------------- */

/* Removes tracepoints from the target's code and from the list; their names are free again. Their
 * events stay in the trace. Their memory is used again once no thread of any process can be in
 * it. */
struct error *session_remove(struct session *session, const char *pattern, size_t *ret_count);
/* Removes those whose names the function knows, in one stop; none is no error. */
typedef bool (*session_is_one_fn)(void *context, const char *name);
struct error *session_remove_those(struct session *session, session_is_one_fn is_one,
				   void *context);
/* Switches tracepoints on or off, in the target and its children. Stops no thread. */
struct error *session_switch(struct session *session, const char *pattern, bool on,
			     size_t *ret_count);
/* Adds a context to the tracepoints' events, which keep their names. */
struct error *session_add_context(struct session *session, const char *pattern, const char *type,
				  size_t *ret_count);
/* Takes a context away from those of the tracepoints that have it: one must. */
struct error *session_remove_context(struct session *session, const char *pattern, const char *type,
				     size_t *ret_count);

/* Switches recording as a whole on or off. Stops no thread. */
struct error *session_recording(struct session *session, bool on);

/* After ERROR_FULL: tracing goes on, and each event from now on is lost, and counted. session_end
 * tells the error again. */
void session_give_up(struct session *session);
/* Reads all complete events from the buffers, and writes them. In overwrite mode only counts
 * them. */
struct error *session_flush(struct session *session);
/* Sets where the trace goes, before the first tracepoint. Borrowed until session_destroy. */
void session_set_directory(struct session *session, struct trace_dir *directory);

/* The number of processes, forked from the target before, in which the last tracepoints could not
 * be placed; *ret_why: one of them, and the reason. */
size_t session_children_left(const struct session *session, const char **ret_why);
/* Does the session continue the trace of a controller that was killed (takeover.h)? */
bool session_goes_on(const struct session *session);

/* After libraries were loaded or unloaded: places tracepoints that wait for a loaded one, and lets
 * those in an unloaded one wait for it again. Quick; calls nothing in the target. */
struct error *session_modules_changed(struct session *session);

/* A descriptor that is readable when session_step has work: a chunk was published, or the target
 * has ended. Owned by the session. */
struct error *session_fd(struct session *session, int *ret_fd);
/* The longest that poll may sleep; -1: without a limit. */
int session_timeout_ms(const struct session *session);

/* Loads a library of probe functions by its absolute path, with the target's own loader. Fails if
 * it is loaded already. */
struct error *session_load(struct session *session, const char *path);
/* Notices signals that tracepoints' functions got, as session_step does. */
void session_look(struct session *session);
/* Unloads such a library. Fails while a tracepoint uses it. */
struct error *session_unload(struct session *session, const char *path);

/* Takes one tracepoint out of the target's code; puts it back. It stays in the list. */
struct error *session_take_out(struct session *session, size_t index);
struct error *session_put_back(struct session *session, size_t index);

/* Bytes of trampolines in the target, including garbage. */
uint64_t session_code_used(const struct session *session);

/* Tracepoints in the order in which they were added. An index is valid until the next add, remove
 * or module change. */
size_t session_tracepoint_count(const struct session *session);
struct tracepoint_info session_tracepoint(const struct session *session, size_t index);
/* The durations of its calls in ns, as counted in the target or read from its events. False: it has
 * none, or out of memory. */
bool session_durations(const struct session *session, size_t index,
		       struct distribution *ret_durations);
/* Calls counted as missed because their callers can't return through a stub (R6). *ret_runtimes:
 * the language runtimes that are the reason, "OCaml in PROGRAM"; NULL: none. The caller frees. */
uint64_t session_foreign_calls(const struct session *session, char **ret_runtimes);
/* Calls counted as missed because they ended in a jump to another function (R9). */
uint64_t session_jumped_calls(const struct session *session);
struct error *session_find(const struct session *session, const char *name, size_t *ret_index);

#endif
