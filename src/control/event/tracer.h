/*
 * tracer.h - the action on each hit: a table with one row per tracer that a user can name.
 *
 *	ctf [DIR]	events through the pool into the trace
 *	log [FILE]	likewise, and from there as lines of text to a file or to the target's
 *			standard output
 *	log, with --sync	lines of text, written in the target by the hit's own thread
 *	count		counts in the target, no events
 *	lttng [WORDS]	events of LTTng-UST, written in the target by liblttng-ust
 *			(lttng_identity.h)
 *	call LIBRARY:FUNCTION	the user's own function, called in the target
 *
 * Names are those of the command line. Pure, except tracer_check.
 */
#ifndef DYNTRACE_TRACER_H
#define DYNTRACE_TRACER_H

#include <stdbool.h>

#include "control/base/error.h"

enum tracer_kind { TRACER_CTF, TRACER_LOG, TRACER_COUNT, TRACER_LTTNG, TRACER_CALL,
		   TRACER_SYNC };

struct tracer {
	const char *name;
	enum tracer_kind kind;
	const char *argument; /* its name in --help; NULL: takes none */
	bool needs_argument;
	bool has_values; /* can record arguments, contexts and results */
	bool has_trace; /* its events go to the trace */
	bool loads; /* loads libraries into the target */
	bool uses_pool; /* its events come through the pool */
};

/* The row of that name; NULL: "ctf". The error lists the names. */
struct error *tracer_find(const char *name, const struct tracer **ret_tracer);
/* The row of the tracer with --sync; fails unless that is log. */
struct error *tracer_sync(const struct tracer *tracer, const struct tracer **ret_tracer);
/* Fails unless the tracer takes this argument. NULL: none was given. */
struct error *tracer_check(const struct tracer *tracer, const char *argument);
/* Splits "log:FILE" into "log" and "FILE". The caller frees *ret_name; *ret_argument points into
 * `text`. */
struct error *tracer_split(const char *text, char **ret_name, const char **ret_argument);

#endif
