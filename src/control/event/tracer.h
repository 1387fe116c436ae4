/*
 * tracer.h - what a hit leads to: one row of a table for each tracer that a user can name.
 *
 *	ctf [DIR]	events through the pool into the trace
 *	log [FILE]	likewise, and from there as lines of text to a file or to the target's own standard output
 *	count		counts in the target, no events
 *	lttng		events of LTTng-UST, written in the target by liblttng-ust
 *	call LIBRARY:FUNCTION	the user's own function, called in the target
 *
 * Names are what the command line has. Pure but for tracer_check.
 */
#ifndef DYNTRACE_TRACER_H
#define DYNTRACE_TRACER_H

#include <stdbool.h>

#include "control/base/error.h"

enum tracer_kind { TRACER_CTF, TRACER_LOG, TRACER_COUNT, TRACER_LTTNG, TRACER_CALL };

struct tracer {
	const char *name;
	enum tracer_kind kind;
	const char *argument; /* what help calls it; NULL: takes none */
	bool needs_argument;
	bool has_values; /* arguments, contexts and results are looked up for it */
	bool has_trace; /* its events go to the trace */
	bool loads; /* libraries into the target */
	bool uses_pool; /* its events come through the pool */
};

/* The row of that name; NULL: "ctf". Fails with the names there are. */
struct error *tracer_find(const char *name, const struct tracer **ret_tracer);
/* Is that what it takes? NULL: no argument was given. */
struct error *tracer_check(const struct tracer *tracer, const char *argument);
/* "log:FILE" to "log" and "FILE"; *ret_name is the caller's to free, *ret_argument points into
 * `text`. */
struct error *tracer_split(const char *text, char **ret_name, const char **ret_argument);

#endif
