/*
 * values.h - what the events of one tracepoint hold, ready for its trampoline and for its event
 * type.
 */
#ifndef DYNTRACE_VALUES_H
#define DYNTRACE_VALUES_H

#include "control/event/event.h"
#include "control/event/tramp_event.h"

/* What there is to record at a tracepoint, beside the hit itself. Owned by the tracepoint. */
struct values {
	struct event_field *fields;
	size_t field_count;
	struct dt_program *program; /* NULL: a plain event */
	struct value_ops *filter; /* what the trampoline decides itself; NULL: nothing */
	/* Likewise of its exit. */
	struct event_field *exit_fields;
	size_t exit_field_count;
	uint32_t exit_size;
	struct dt_program *exit_program;
	struct value_ops *exit_filter;
	bool filters_exits; /* by that, or in the program */
	struct tramp_event *exit; /* NULL: by the common code */
	/* Of a count by key: */
	bool is_keyed, keys_at_exit;
	uint8_t key_ends[8]; /* by key: the number of fields up to its last one */
	bool key_condition; /* the entry's program has a condition */
	enum tramp_value value;
	struct value_ops *native_key; /* NULL: the program finds the key */
};

void values_free(struct values *values);

#endif
