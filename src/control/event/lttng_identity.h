/*
 * lttng_identity.h - what LTTng is to know of the tracer lttng's events, beside their fields: the
 * tracer's argument, words with commas between them.
 *
 *	typed		events of their own for tracepoints without a name of the user's, too
 *	loglevel=LEVEL	"info", "TRACE_INFO", ... as lttng has them
 *	nowrite=FIELD	filters of LTTng may use the field, but it isn't recorded (repeatable)
 *	enabled		whoever asks has enabled the events in a session
 *
 * Pure. A struct lttng_identity points into the text that it was read from.
 */
#ifndef DYNTRACE_LTTNG_IDENTITY_H
#define DYNTRACE_LTTNG_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>

#include "control/base/error.h"

#define LTTNG_NO_LEVEL (-1)
#define LTTNG_PROVIDER "dyntrace" /* of events whose name has no PROVIDER: in front */

struct lttng_identity {
	bool typed, enabled;
	int loglevel; /* LTTNG_NO_LEVEL: none */
	const char *text; /* the argument; NULL: none */
};

/* Reads the argument; NULL: none. ERROR_USAGE names the word that isn't understood. */
struct error *lttng_identity_parse(const char *argument, struct lttng_identity *ret_identity);
/* The level's number. ERROR_USAGE lists the names. */
struct error *lttng_identity_level(const char *name, int *ret_level);

/* The next field of nowrite=FIELD after `at`, and its length; first `at` NULL. NULL: no more. */
const char *lttng_identity_next_hidden(const struct lttng_identity *identity, const char *at,
				       size_t *ret_length);
/* Does nowrite name the field? */
bool lttng_identity_hides(const struct lttng_identity *identity, const char *field);

/* The length of PROVIDER in PROVIDER:NAME; 0: the name has none. `ns::f` has none. */
size_t lttng_identity_provider(const char *name);

#endif
