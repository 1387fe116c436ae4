/*
 * values.h - what the events of a tracepoint hold. Private to session/.
 */
#ifndef DYNTRACE_SESSION_VALUES_H
#define DYNTRACE_SESSION_VALUES_H

#include "../plan/value.h"

struct session;
struct tracepoint;

/* What there is to record at a tracepoint, beside the hit itself. Owned by the tracepoint. */
struct values {
	struct event_field *fields;
	size_t field_count;
	struct dt_program *program; /* NULL: a plain event */
};

/* A tracepoint that is being described. */
struct describe {
	struct session *session;
	struct tracepoint *tracepoint;
	struct debug *debug; /* NULL: the module has no debug information */
	bool has_function;
	struct debug_function function; /* that contains the address */
	uint64_t address; /* the file's */
	struct shape shape;
};

/* names.c: the place of a variable: by the ABI for a parameter at its function's first instruction, else by the
 * debug information. False: there is none of that name. */
bool names_find(void *describe, const char *name, struct type *ret_type, struct value_place *ret_place);
bool names_find_label(void *describe, const char *name, int64_t *ret_value);
/* names.c: does the ABI say where its parameters are? */
bool names_at_entry(const struct describe *d);
/* names.c: for location_place. */
struct location_context names_context(struct describe *d);

/* contexts.c: adds what a TYPE of -t names. */
struct error *contexts_add(struct describe *d, const char *type);

/* Finds arguments and their types, and lays out the tracepoint's event. */
struct error *values_describe(struct session *session, struct tracepoint *tracepoint);
/* Hands the fields over to the event's type, once the event has its id. */
void values_give(struct tracepoint *tracepoint, struct event_type *type);
void values_free(struct values *values);

#endif
