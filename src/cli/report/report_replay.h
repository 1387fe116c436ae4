/*
 * report_replay.h - the reading of a trace from the inside: what report_read.c and its parts share.
 *
 * Without memory a function sets `failed`, and report_read ends with an error.
 */
#ifndef DYNTRACE_REPORT_REPLAY_H
#define DYNTRACE_REPORT_REPLAY_H

#include "control/ctf/read/run_merge.h"
#include "report_meaning.h"

struct open_call {
	uint32_t function, node;
	uint32_t below; /* the next call of the same function below it; REPORT_NONE: none */
	uint32_t depth; /* of its node */
	uint64_t children; /* ns */
	uint64_t inside; /* ns of calls of the same function inside it that were counted (O1) */
	uint64_t number, cycles; /* of its entry */
	uint8_t *entry; /* a copy of the event, of the function that is looked at; by key: of all */
	const struct layout_event *entry_type;
};

struct replay {
	struct report *report;
	struct view_reader *reader;
	const struct trace_input *input;
	struct run_merge merge; /* of the thread */
	const struct packet_cursor *cursor; /* the merge's, of the current item */
	uint32_t thread;
	VEC(struct open_call) stack;
	struct gap_watch watch; /* of the thread */
	uint64_t cut_before; /* clock: calls that began earlier were cut by a loss; 0: none */
	uint64_t unnoted; /* events */
	uint64_t done, whole; /* bytes of runs that were read, and of all traces */
	uint64_t entries; /* of calls, so far */
	uint64_t now; /* clock: of the last event of the thread, or of the loss behind it */
	bool failed; /* out of memory */
};

/* ---- report_tell.c ---- */

/* The time of a clock of the trace that is being read. */
int64_t report_tell_ns(const struct replay *replay, uint64_t cycles);
/* Tells of a call that ended now; `call` is NULL if its entry isn't there. */
void report_tell_end(struct replay *replay, enum report_end end, uint32_t function,
		     const struct open_call *call, uint64_t duration);
/* Tells of a call that begins. */
void report_tell_entry(struct replay *replay, const struct open_call *call);

/* ---- report_stack.c ---- */

/* The function, with what it knows of the thread that is being read. */
struct report_function *report_stack_function(struct replay *replay, uint32_t index);
/* Puts the call that the cursor's entry begins on the stack. */
void report_stack_push(struct replay *replay, const struct meaning *meaning);
/* Takes the innermost call off the stack. */
struct open_call report_stack_pop(struct replay *replay);
/* Takes a call off that ended without an exit. Its children become those of the call around it. */
void report_stack_drop(struct replay *replay, bool is_cut, bool is_end);
/* Takes all calls off. */
void report_stack_drop_all(struct replay *replay, bool is_cut);

/* (O10) How a call without an exit has ended. is_end: the trace ends here. */
enum report_end report_stack_end_of(const struct report_function *function, bool is_end);
/* (O10) Ends the call of a function that is called again, if nothing shows that it goes on. */
void report_stack_end_unseen(struct replay *replay, uint32_t function);
/* (O10) Shares calls without an exit out by the recorder's counts, in which are also calls that a
 * loss has cut. */
void report_stack_settle(struct report_function *function);

/* ---- report_count.c ---- */

/* Counts a call that ended; `call` is NULL if its entry isn't there. */
void report_count_call(struct replay *replay, uint32_t index, const struct open_call *call,
		       uint64_t duration);
/* Counts the current event by key: an entry or bare event, or the exit of `call` (O4). */
void report_count_by_key(struct replay *replay, uint32_t function, const struct open_call *call,
			 uint64_t duration, uint64_t self);

#endif
