/*
 * request.h - what the user asked for: a tracepoint_spec of the session's own, and where it leads.
 * Private to session/.
 */
#ifndef DYNTRACE_REQUEST_H
#define DYNTRACE_REQUEST_H

#include "control/names/locate.h"
#include "control/event/tracer.h"
#include "tracepoint.h"

/* Lives as long as a tracepoint that was made from it. */
struct request {
	struct tracepoint_spec spec; /* with copies of its strings */
	const struct tracer *tracer;
	struct location location;
	struct places places; /* found, until tracepoints are made of them */
	uint64_t number; /* in the order of their creation */
	size_t users; /* tracepoints, and the list of those not begun with */
};

/* Parses the location. One user: the caller. */
struct error *request_create(const struct tracepoint_spec *spec, struct request **ret_request);
/* One user less. */
void request_drop(struct request *request);

/* Finds the places anew. */
struct error *request_resolve(struct request *request, struct proc *proc, struct modules *modules);

#endif
