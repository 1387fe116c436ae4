/*
 * cmd_add.h - a tracepoint that the daemon is asked for, whichever way it was spelled.
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
	const struct option_values *contexts;
	const char *tracer;
	char *const *arguments; /* of the tracer */
	size_t argument_count;
	uint64_t every, first, rate, string_max; /* 0: the default */
	bool wait, disabled, all;
};

/* Prints the names of what was made; with `all` and the pid before each. */
struct error *add_tracepoint(const struct add_request *request, bool quiet);
/* "100/s"; NULL: 0 */
struct error *add_parse_rate(const char *text, uint64_t *ret_rate);

#endif
