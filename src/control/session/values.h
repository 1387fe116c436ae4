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

/* Finds arguments and their types, and lays out the tracepoint's event. */
struct error *values_describe(struct session *session, struct tracepoint *tracepoint);
/* Hands the fields over to the event's type, once the event has its id. */
void values_give(struct tracepoint *tracepoint, struct event_type *type);
void values_free(struct values *values);

#endif
