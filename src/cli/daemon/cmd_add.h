/*
 * cmd_add.h - the request for a tracepoint, shared by `add` and `enable-event`.
 */
#ifndef DYNTRACE_CMD_ADD_H
#define DYNTRACE_CMD_ADD_H

#include "daemon_call.h"

struct add_request {
	const char *target;
	const char *location;
	enum wire_shape shape;
	const char *name; /* NULL: made from the location */
	const char *filter;
	uint8_t floats; /* bytes of one; 0: none */
	bool sync; /* tracer log: lines at the hit */
	const char *prototypes; /* their text; NULL: none */
	const struct option_values *contexts;
	const char *tracer;
	char *const *arguments; /* of the tracer */
	size_t argument_count;
	uint64_t every, first, rate, string_max, deref; /* 0: the default */
	const char *by, *of; /* of the tracer count: counts by key; NULL: none */
	uint64_t keys; /* with these: most different keys */
	bool wait, disabled, all;
};

/* Called with the name of each new tracepoint. */
typedef struct error *(*add_name_fn)(void *context, const char *name);
/* Adds the tracepoint; `named` (NULL: none) hears of the names. */
struct error *add_tracepoint(const struct add_request *request, add_name_fn named, void *context);
#endif
