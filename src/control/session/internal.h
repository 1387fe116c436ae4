/*
 * internal.h - what the files of session/ share.
 */
#ifndef DYNTRACE_INTERNAL_H
#define DYNTRACE_INTERNAL_H

#include "control/ctf/writer.h"
#include "control/placement/plan.h"
#include "control/session/processes/children.h"
#include "control/exits/exits.h"
#include "control/session/processes/follow.h"
#include "control/session/takeover/old_probes.h"
#include "control/record/latency.h"
#include "control/session/takeover/old_counts.h"
#include "request.h"
#include "session.h"
#include "control/tracers/dispatch.h"
#include "control/tracers/call/call_tracer.h"
#include "control/session/own_probes/traps.h"
#include "control/values/describe/describe.h"

/* What was counted under an event id before, of another tracepoint or by this one under another id. */
struct tally {
	uint64_t hits, lost, exits, exits_lost, unwound, missed;
};

struct tracepoint {
	char *name;
	struct request *request;
	const struct tracer *tracer;
	enum tracepoint_kind kind;
	bool from_glob;
	bool is_off; /* switched off by the user */
	bool waits; /* for its module: it has no place */
	bool has_type; /* its events have their id */
	struct probe probe; /* its place's name is its own */
	struct values values;
	bool raised; /* its marker's semaphore is */
	VEC(char *) contexts; /* TYPEs: the request's, and those that were added */
	struct error *exit_refusal; /* why its exit isn't recorded, although that was asked for */
	struct error *still_waits; /* why */
	bool has_counter;
	uint32_t counter; /* of dt_pool.counters */
	uint64_t placed_ns; /* of CLOCK_MONOTONIC */
	uint64_t bridge_events[2]; /* its own events of LTTng, entry and exit; 0: none */
	bool has_cell;
	struct counts_cell cell; /* where its hits are counted */
	uint32_t counted; /* index + 1 of dt_control.counted; 0: none */
	bool has_call;
	uint32_t call_index; /* of what its function shares, and of its word */
	struct dt_call_site *call_sites[2]; /* entry and exit; owned */
	const struct library *call_library; /* that has its function */
	struct error *fault; /* what its function has got; NULL: nothing */
	struct tally before; /* subtracted: by others, under its id */
	struct tally past; /* added: its own, under other ids */
	/* its id was another one before, whose events may not all have been read: */
	bool has_former;
	uint32_t former_id;
	struct tally former_before;
};

struct tracepoint_list {
	struct tracepoint **items;
	size_t count, room;
};

struct session {
	/* NULL, or the session whose trace and buffers this one uses: follow.h */
	struct session *parent;
	struct follow follow;
	struct proc *proc;
	struct session_options options;
	VEC(struct request *) requests; /* noted before session_begin */
	struct tracepoint_list tracepoints;
	struct tracepoint_list retired; /* removed; the code that their probes describe isn't yet */
	void *names; /* tree of all tracepoints' names */
	bool begun;
	bool stopped; /* recording as a whole is off */
	struct reader_pauses pauses; /* while it was */
	bool types_announced; /* the metadata has all types */
	struct own_probes own_probes;
	bool sees_exec; /* one of them is told of execve */
	/* of the tracepoints that are placed: `own_types`, or another session's with the same trace */
	struct event_types *types;
	struct event_types own_types;
	struct modules modules;
	struct planner *planner;
	struct near_pool *code;
	struct traps traps;
	struct tramp_env env; /* what trampolines are written with */
	uint32_t free_note; /* no free entry of dt_control.sites lies before this */
	uint32_t free_counted; /* ... of dt_control.counted */
	size_t retired_kept; /* of those that are retired, likewise */
	size_t garbage_kept; /* of those, what had calls inside when it was looked at last */
	/* out of the target's code, their memory not yet to be used again */
	struct site_list garbage;
	struct agent *agent;
	struct clock_estimate clock;
	struct trace_writer *writer;
	/* a dead controller's trace: `writer`'s is a part behind it */
	struct trace_writer *reopened;
	struct old_probes *old_probes; /* NULL: nothing of a dead controller's is there */
	struct old_counts old_counts; /* what it had counted, until old_counts_give */
	struct reader *reader;
	char *command_line;
	struct exits exits;
	struct latency latency;
	struct tracers tracers;
	size_t counters; /* of dt_pool.counters ever used */
	VEC(uint32_t) unused_ids; /* of types: nothing records under them */
	VEC(uint32_t) free_counters; /* of those, not in use */
	bool wants_unwind; /* some event has a backtrace */
	bool unwind_mapped;
	VEC(uint32_t) unwind_tables; /* offsets in the code memfd */
	VEC(char *) loaded; /* module_describe of all modules */
	struct wake *wake; /* session_fd; NULL: nobody asked for it */
	taddr r_debug; /* the loader's; 0: unknown */
	uint32_t modules_seen; /* dt_pool.modules_asked, as far as it was looked at */
	uint32_t late_notices; /* which weren't waited for to the end (N1) */
	uint64_t next_flush, next_reap, next_clock; /* ns of CLOCK_MONOTONIC */
	uint64_t pause; /* until the buffers are looked at again when nothing was in them */
	uint64_t events_seen; /* when they were last */
	uint64_t clock_pause;
	uint64_t last_flush; /* clock when the buffers were looked at before */
	struct error *failed; /* why the trace can't be written any more */
	bool placed; /* the target's text holds our jumps */
	/* takeover.c: another controller's sites, instead of a planner's */
	struct patch_site *found;
	size_t found_count, found_own; /* of those, what the user didn't ask for */
	/* NULL, or called when all probes are gone and the pool is still there */
	struct error *(*quiet)(struct session *session);
	uint64_t stopped_us; /* how long the target stood still for that */
	/* ns of CLOCK_MONOTONIC: until then it has none but those that the kernel lists */
	uint64_t next_children;
	size_t children_left; /* session_children_left */
	char children_why[256];
	size_t left_out; /* session_left_out */
	char left_out_why[160];
};

/* tracepoints.c */
/* A tracepoint for each of the request's places, behind those in the list; a placeholder if it has
 * none. */
struct error *tracepoints_make(struct session *session, struct request *request,
			       struct tracepoint_list *list);
/* One, at the place; NULL: it waits for one. */
struct error *tracepoints_make_one(struct session *session, struct request *request,
				   const struct place *place, const char *name,
				   struct tracepoint_list *list);
/* Another one of the same name and contexts, at the place (NULL: it waits), not in the tree of
 * names and not described. */
struct error *tracepoints_copy(struct session *session, const struct tracepoint *tracepoint,
			       const struct place *place, struct tracepoint **ret_copy);
void tracepoints_free_one(struct session *session, struct tracepoint *tracepoint);
void tracepoints_free(struct session *session);
bool tracepoints_claim_name(struct session *session, struct tracepoint *tracepoint);
void tracepoints_drop_name(struct session *session, struct tracepoint *tracepoint);

/* recording.c */
struct error *recording_open(struct session *session);
void recording_wait(struct session *session, unsigned timeout_ms);
struct error *recording_step(struct session *session);
/* While the target is being left: threads that wait for room get some. */
void recording_make_room(struct session *session);
struct error *recording_finish(struct session *session, struct session_summary *summary);

/* types.c */
/* Event types, and with them ids, for each tracepoint of the list that has a site. */
struct error *types_assign(struct session *session, const struct tracepoint_list *list);
/* Nothing records under the tracepoint's id any more. */
void types_give_back(struct session *session, const struct tracepoint *tracepoint);

/* modules.c */
/* Reads the list of modules; nothing may point to the old one. */
struct error *modules_start(struct session *session);

/* commands.c */
void session_notify(const struct session *session, enum session_notice notice, const char *text);
/* Places the list's tracepoints, or leaves no site of them behind. */
struct error *commands_place(struct session *session, struct tracepoint_list *list);
/* Takes the old one's place in the list, its name and its counts. */
void commands_replace(struct session *session, struct tracepoint *old, struct tracepoint *heir);
/* Out of the session; freed when nothing records under their ids any more. */
void commands_retire(struct session *session, const struct tracepoint_list *list);

/* info.c */
/* The heir's counts go on from the old one's, which may still grow, until the next info_fold or
 * info_inherit: everything must have been read that was recorded before the one before. */
void info_inherit(struct session *session, struct tracepoint *old, struct tracepoint *heir);
/* Former ids will be others': all that was recorded under them is read now. */
void info_fold(struct session *session);
/* What was counted under its id until now isn't its own. */
void info_start(struct session *session, struct tracepoint *tracepoint);

/* place.c */
/* A trace of this session's target; `directory` NULL: made here, at `output`. */
struct error *place_open_writer(struct session *session, struct trace_dir *directory,
				const char *output, struct event_types *types,
				struct trace_writer **ret_writer);
/*
 * Puts the tracepoints into the target, and with the first of them the agent. `held` as in
 * session_begin. On failure the list's tracepoints may have sites: detach_all or change_forget.
 */
struct error *place_list(struct session *session, const struct tracepoint_list *list,
			 struct stop *held);
/* Notes for the slow path what is new among the kinds of events. */
void place_note_sizes(const struct session *session);
/* Writes a site down for the next controller, and away. */
struct error *place_note(struct session *session, struct site *site);
void place_unnote(struct session *session, struct site *site);

/* detach.c */
/* Restores text and unmaps everything in the target and its children. */
struct error *detach_all(struct session *session, struct session_summary *summary);
bool detach_has_code(const struct session *session, struct proc *proc);

/* change.c */
/* Sites that are out of the target's text: their memory is used again when nobody can be in it. */
struct error *change_discard(struct session *session, const struct site_list *sites);
/* Whether its hits are recorded, as the user wants it and the session as a whole is. */
void change_write_switch(struct session *session, struct tracepoint *tracepoint);
/* Likewise in code that another has taken the place of, and that only forked children run. */
void change_write_former(struct session *session, const struct tracepoint *tracepoint, bool on);
/* Takes out of the process's text what is garbage: a forked child still has it. `all`: also what
 * the child goes on recording with, of a tracepoint that is otherwise now. */
struct error *change_restore(struct session *session, struct proc *proc, bool all, bool *ret_idle);
/* Frees what is garbage, if nobody can be in it any more. */
void change_collect(struct session *session);
/* The same, before it is tried again, with a pause that grows: a thread that was interrupted in what
 * was removed may wait long for a CPU, and doesn't get on while it is held to be looked at. */
void change_collect_patiently(struct session *session, unsigned *pause_ms);
#define CHANGE_WAY_MS 10000 /* how long that is tried */
/* Is there no process that was forked from the target, and has its code? */
bool change_is_alone(const struct session *session);
/* Before sites are placed: nobody may come out of what was removed where they are. Those where it
 * isn't certain fail. *ret_alone: what is garbage may be given to patch_place, too (P8). */
void change_clear_way(struct session *session, bool *ret_alone);
/* free_hops.c. Before trampolines are written: what was removed may have the only place that a hop can be
 * at. */
void free_hops_clear(struct session *session);
/* After planner_decide, in any case: ends an exchange of sites (plan.h). */
struct error *change_settle(struct session *session);
/* After an exchange: calls of functions with exits go through the new code, too. */
void change_redirect_stubs(struct session *session);
/* Their sites, as far as nobody else needs them, out of the target's code. */
struct error *change_release(struct session *session, const struct tracepoint_list *list);
void change_free(struct session *session);

/* wake.c */
struct wake;
/* The word that the target raises when there is something for us, and the value that we have seen. */
uint32_t *wake_word(const struct session *session, uint32_t *ret_seen);
/* All has been read: session_fd is readable again with the next chunk. */
struct error *wake_arm(struct session *session);
void wake_free(struct wake *wake);

/* stable_memory.c: tells the agent which memory stays. The agent was just mapped. */
void stable_memory_note(struct session *session);

/* unwinding.c */
/* Tables of all modules that have none yet, by way of a held thread. */
struct error *unwinding_map(struct session *session, struct stop *stop);
/* The list of modules has changed: those that came get tables, those that went have none any more. */
struct error *unwinding_follow(struct session *session, const struct modules *gone, bool is_new);

/* library_notice.c */
/* A watch where the loader tells of its list; none where there is no loader, or no name in it. */
struct error *library_notice_create(struct session *session);
/* Threads at that place wait for us from now on, if anything of the list depends on it. */
void library_notice_update(struct session *session, const struct tracepoint_list *list);
/* Has a thread told? The word of wake_word was raised behind that: who sleeps on it looks here
 * first. */
bool library_notice_is_pending(const struct session *session);
/* Looks, and lets it go on. */
struct error *library_notice_step(struct session *session);
/* Nobody waits any more: the target is being left. */
void library_notice_end(struct session *session);
/* While we have a library loaded ourselves nobody waits for our answer, which wouldn't come. Gives
 * what library_notice_go_on wants. */
bool library_notice_hold(struct session *session);
void library_notice_go_on(struct session *session, bool waited);

/* thread_liveness.c */
bool thread_liveness_ask(void *context, uint32_t pid, uint32_t tid);
/* What they are called here; 0: it ended before that could be looked up. */
void thread_liveness_outer(void *context, uint32_t *pid, uint32_t *tid);

#endif
