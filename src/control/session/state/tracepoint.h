/*
 * tracepoint.h - a tracepoint as the user asks for it, and as the user sees it.
 */
#ifndef DYNTRACE_TRACEPOINT_H
#define DYNTRACE_TRACEPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/taddr.h"
#include "control/event/event.h"
#include "control/event/tramp_event.h"
#include "control/record/latency.h"

enum tracepoint_kind {
	TRACEPOINT_BARE, /* NAME: the hit alone */
	TRACEPOINT_ENTRY, /* NAME_entry: its arguments */
	TRACEPOINT_FUNCTION, /* NAME_entry, and NAME_exit: ret, duration */
};

/* The user's description of one tracepoint, or of several with a glob. Sessions copy all of it. */
struct tracepoint_spec {
	const char *location; /* a LOC */
	enum tracepoint_kind kind;
	const char *name; /* NULL: made from the location; several: NAME, NAME-2, ... */
	const char *filter; /* record hits for which this is true; NULL: all */
	const char *const *contexts; /* TYPEs to add to its events */
	size_t context_count;
	uint64_t every, first, rate; /* which hits are recorded (trampoline.h); 0: all */
	uint32_t deref; /* levels of pointers to structs that are followed */
	uint32_t string_max; /* bytes of a string that are recorded; 0: the default */
	const char *tracer; /* a name in the table of tracers; NULL: ctf */
	const char *tracer_argument; /* NULL: none */
	const char *by, *of; /* tracer count: of a question (event/question.h); NULL: none */
	bool sync; /* tracer log: the hit's own thread writes the line */
	uint8_t floats; /* unknown functions: bytes of a number in xmm0 to xmm7; 0: none */
	const char *prototypes; /* C declarations, for unknown functions; NULL: none */
	uint32_t keys; /* most different keys; 0: the usual number */
	bool disabled; /* placed, but switched off */
	bool unprinted; /* session_print leaves its events out: they are another user's */
	bool wait; /* if no module has the location yet */
	bool is_trigger; /* tracer count: its hits ask for a snapshot (session/triggers) */
	/* Events of others count only inside of its calls; no other tracepoint is made there. */
	bool encloses;
	size_t most; /* tracepoints that the session may have with it; 0: as its options say */
};

/* Names of tracepoints, owned by the list. */
struct name_list {
	char **items;
	size_t count, room;
};
void name_list_free(struct name_list *names);

/* A tracepoint as shown to the user. */
struct tracepoint_info {
	const char *name;
	taddr address;
	const char *how; /* "jump", "short-jump", "pun", "removed", "waiting"; NULL: refused */
	const char *refusal; /* why it is refused, or still waits; NULL: placed */
	bool was_placed; /* it waits for a library that was unloaded */
	double rate; /* hits per second, since it was placed */
	/* since it was added, as far as events were read: session_flush reads all */
	uint64_t hits, lost;
	const char *location; /* the user's LOC */
	const char *module; /* path; NULL: the tracepoint waits */
	taddr copy_at; /* where the module is loaded, if it is loaded several times; 0: once */
	enum tracepoint_kind kind;
	const char *tracer, *tracer_argument; /* NULL: none */
	bool enabled;
	bool is_trigger;
	const char *filter; /* NULL: none */
	const char *by, *of; /* tracer count: its question; NULL: none */
	const char *const *contexts;
	size_t context_count;
	const struct event_field *fields; /* of its event, or its entry event */
	size_t field_count;
	/* tracer call: hits inside a probe function, for which none is called */
	uint64_t nested;
	uint64_t cramped; /* tracer call: hits lost for lack of room on the stack */
	const char *fault; /* tracer call: the signal that its function got; NULL: none */
	uint32_t code_bytes; /* of its site's trampoline */
	/* With exits: */
	bool has_exit;
	const char *exit_refusal; /* why the exit isn't traced as asked; NULL: it is */
	/* why calls by a runtime that finds frames by return address have no exit; NULL: they have,
	 * or there is no such runtime */
	const char *late_refusal;
	uint64_t exits, exits_lost;
	uint64_t unwound; /* calls that ended without returning */
	uint64_t missed; /* calls that got no return stub, and may have returned */
	uint64_t inside; /* calls that had not returned when recording ended */
	struct tracepoint_times times;
	/* With a budget: */
	enum tramp_switch level;
	uint64_t counted; /* hits that were only counted; among `hits`, unless there is a filter */
	uint64_t judged; /* hits that the filter was asked about; 0 without one */
	uint64_t off_ns; /* time in which hits weren't counted */
	uint64_t unseen; /* hits in that time, by estimate; not among `hits` */
	uint64_t steps; /* changes of its level */
	uint64_t cost_ns; /* CPU time that its hits took from the target, by estimate */
	bool cost_measured; /* by what the target got done with it and without; else at least */
	uint64_t reader_ns; /* in lists of the daemon: CPU time of its worker */
};

#endif
