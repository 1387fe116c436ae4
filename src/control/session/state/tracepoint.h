/*
 * tracepoint.h - a tracepoint as the user asks for it, and as he sees it then.
 */
#ifndef DYNTRACE_TRACEPOINT_H
#define DYNTRACE_TRACEPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/taddr.h"
#include "control/event/event.h"
#include "control/record/latency.h"

enum tracepoint_kind {
	TRACEPOINT_BARE, /* NAME: the hit alone */
	TRACEPOINT_ENTRY, /* NAME_entry: arg0 to arg5 */
	TRACEPOINT_FUNCTION, /* NAME_entry, and NAME_exit: ret, duration */
};

/* A tracepoint, or several with a glob, as the user asks for it. Everything is copied. */
struct tracepoint_spec {
	const char *location; /* a LOC */
	enum tracepoint_kind kind;
	const char *name; /* NULL: made from the location; of several: NAME, NAME-2, ... */
	const char *filter; /* record only what this is true for; NULL: all */
	const char *const *contexts; /* TYPEs that its events get */
	size_t context_count;
	uint64_t every, first, rate; /* which hits are recorded (trampoline.h); 0: all */
	uint32_t string_max; /* bytes of a string that are recorded; 0: the default */
	const char *tracer; /* a name of the tracers' table; NULL: ctf */
	const char *tracer_argument; /* NULL: none */
	bool disabled; /* placed, but switched off */
	bool wait; /* if no module has it yet */
};

/* Names of tracepoints; owned. */
struct name_list {
	char **items;
	size_t count, room;
};
void name_list_free(struct name_list *names);

/* What the user sees of a tracepoint. */
struct tracepoint_info {
	const char *name;
	taddr address;
	const char *how; /* "jump", "short-jump", "pun", "removed", "waiting"; NULL: refused */
	const char *refusal; /* why, or why it still waits; NULL: placed */
	double rate; /* hits a second, since it was placed */
	/* since it was added, as far as they were read: session_flush reads all there is */
	uint64_t hits, lost;
	const char *location; /* as it was given */
	const char *module; /* path; NULL: it waits */
	enum tracepoint_kind kind;
	const char *tracer, *tracer_argument; /* NULL: none */
	bool enabled;
	const char *filter; /* NULL: none */
	const char *const *contexts;
	size_t context_count;
	const struct event_field *fields; /* of its (entry) event */
	size_t field_count;
	/* tracer call: hits in a function of some tracepoint, which aren't called */
	uint64_t nested;
	uint64_t cramped; /* tracer call: of the lost, those with no room on the stack */
	const char *fault; /* tracer call: what its function has got; NULL: nothing */
	uint32_t code_bytes; /* of its site's trampoline */
	/* With exits: */
	bool has_exit;
	const char *exit_refusal; /* why there is none, although it was asked for; NULL: there is */
	uint64_t exits, exits_lost;
	uint64_t unwound; /* calls that ended without returning */
	uint64_t missed; /* calls that may have returned: there was no return stub for them */
	uint64_t inside; /* calls that had not returned when recording ended */
	struct tracepoint_times times;
};

#endif
