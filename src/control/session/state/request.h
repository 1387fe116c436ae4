/*
 * request.h - one wish of the user: the session's copy of a tracepoint_spec, and the places that
 * it names.
 */
#ifndef DYNTRACE_REQUEST_H
#define DYNTRACE_REQUEST_H

#include "control/names/locate.h"
#include "control/event/lttng_identity.h"
#include "control/event/tracer.h"
#include "control/prototypes/prototypes.h"
#include "tracepoint.h"

/* Shared by the tracepoints that were made from it; freed with the last of them. */
struct request {
	struct tracepoint_spec spec; /* with copies of its strings */
	const struct tracer *tracer;
	struct prototypes *prototypes; /* of the user; NULL: none */
	struct lttng_identity lttng; /* tracer lttng: its argument */
	struct location location;
	struct places places; /* from request_resolve until tracepoints are made of them */
	uint64_t number; /* requests count upward, in the order of creation */
	size_t users; /* tracepoints, and struct session.requests */
};

/* Parses the location. The request has one user, the caller. */
struct error *request_create(const struct tracepoint_spec *spec, struct request **ret_request);
/* Tracer lttng: does each of its tracepoints have events of its own, with all fields? */
bool request_is_typed(const struct request *request);
/* Takes one user away; the last one frees the request. */
void request_drop(struct request *request);

/* Finds the places in these modules; forgets the ones found before. */
struct error *request_resolve(struct request *request, struct proc *proc, struct modules *modules);

#endif
