/*
 * internal.h - what the files of session/ share.
 */
#ifndef DYNTRACE_SESSION_INTERNAL_H
#define DYNTRACE_SESSION_INTERNAL_H

#include "../ctf/writer.h"
#include "../plan/plan.h"
#include "exits.h"
#include "latency.h"
#include "session.h"
#include "values.h"

/* A LOC of the user's, and where it leads. */
struct request {
	struct location location;
	enum tracepoint_kind kind;
	struct places places;
};

struct tracepoint {
	char *name;
	enum tracepoint_kind kind;
	bool from_glob;
	struct probe probe;
	struct values values;
	bool raised; /* its marker's semaphore is */
	struct error *exit_refusal; /* why its exit isn't recorded, although that was asked for */
};

struct session {
	struct proc *proc;
	struct session_options options;
	VEC(struct request) requests;
	VEC(struct tracepoint *) tracepoints;
	VEC(struct probe *) watches; /* of our own, which record nothing */
	struct event_types *types; /* of the tracepoints that are placed: `own_types`, or another session's with the same trace */
	struct event_types own_types;
	struct modules modules;
	struct planner *planner;
	struct near_pool *code;
	struct tramp_env env; /* what trampolines are written with */
	uint32_t free_note; /* no free entry of dt_control.sites lies before this */
	struct site_list garbage; /* out of the target's code, their memory not yet to be used again */
	struct agent *agent;
	struct clock_estimate clock;
	struct trace_writer *writer;
	struct reader *reader;
	char *command_line;
	struct exits exits;
	struct latency latency;
	size_t counters; /* of dt_pool.counters in use */
	bool wants_unwind; /* some event has a backtrace */
	VEC(char *) loaded; /* module_describe of all modules */
	uint64_t next_flush, next_reap, next_clock; /* ns of CLOCK_MONOTONIC */
	uint64_t clock_pause;
	struct error *failed; /* why the trace can't be written any more */
	bool placed; /* the target's text holds our jumps */
	struct patch_site *found; /* takeover.c: another controller's sites, instead of a planner's */
	size_t found_count, found_own; /* of those, what the user didn't ask for */
	struct error *(*quiet)(struct session *session); /* NULL, or called when all probes are gone and the pool is still there */
	uint64_t stopped_us; /* how long the target stood still for that */
};

/* tracepoints.c */
struct error *tracepoints_create(struct session *session);
void tracepoints_free(struct session *session);
struct error *tracepoints_types(struct session *session);

/* recording.c */
struct error *recording_open(struct session *session);
void recording_wait(struct session *session, unsigned timeout_ms);
struct error *recording_step(struct session *session);
/* While the target is being left: threads that wait for room get some. */
void recording_make_room(struct session *session);
struct error *recording_finish(struct session *session, struct session_summary *summary);

/* place.c */
/* A trace of this session's target. */
struct error *place_open_writer(struct session *session, const char *output, struct event_types *types,
				struct trace_writer **ret_writer);
struct error *place_all(struct session *session, struct stop *held);
/* Restores text and unmaps everything in the target and its children. */
struct error *place_undo(struct session *session, struct session_summary *summary);

/* Maps memory for trampolines; a fixed need that can't be met is left out. */
struct error *place_add_window(struct session *session, struct stop *stop, const struct plan_need *need);
/* Writes a site down for the next controller, and away. */
struct error *place_note(struct session *session, struct site *site);
void place_unnote(struct session *session, struct site *site);
bool place_has_code(const struct session *session, struct proc *proc);

/* change.c */
/* Takes out of the process's text what is garbage: a forked child still has it. */
struct error *change_restore(struct session *session, struct proc *proc, bool *ret_idle);
void change_free(struct session *session);

/* unwinding.c */
struct error *unwinding_map(struct session *session, struct stop *stop);

/* watch.c */
struct error *watch_create(struct session *session);
void watch_free(struct session *session);
bool watch_is_site(const struct site *site); /* nothing but watches */

/* alive.c */
bool alive_thread(void *context, uint32_t pid, uint32_t tid);

#endif
