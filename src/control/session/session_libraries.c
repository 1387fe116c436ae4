/*
 * session_libraries.c - libraries of probe functions that the user has loaded into the target.
 */
#include "control/base/cleanup.h"
#include "change.h"
#include "control/stop/stop.h"
#include "control/tracers/call/call_tracer.h"
#include "session.h"

/* Maps what the tracer call needs, if no tracepoint has yet. */
static struct error *map_now(struct session *session)
{
	_cleanup_(cleanup_stop) struct stop *stop = NULL;

	if (call_tracer_is_mapped(session))
		return NULL;
	struct error *error = stop_one(session->proc, STOP_TIMEOUT_MS, &stop);
	return error ? error : call_tracer_map(session, stop);
}

struct error *session_load(struct session *session, const char *path)
{
	struct error *error = map_now(session);

	return error ? error : call_tracer_open(session, path);
}

struct error *session_unload(struct session *session, const char *path)
{
	struct library *library;
	struct error *error = call_tracer_find(session, path, &library);

	if (error)
		return error;
	if (call_tracer_uses(&session->tracepoints, library))
		return error_new(ERROR_REFUSED, "%s is used by tracepoints: remove them first",
				 path);
	change_collect(session);
	if (call_tracer_uses(&session->retired, library))
		return error_new(ERROR_REFUSED, "a thread may still be in %s: try again", path);
	return call_tracer_close(session, library);
}

void session_look(struct session *session)
{
	call_tracer_look(session);
}
