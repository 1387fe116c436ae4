/*
 * lttng_tracer.h - tracepoints of the tracer lttng: their events in the target, and what their
 * trampolines call.
 */
#ifndef DYNTRACE_LTTNG_TRACER_H
#define DYNTRACE_LTTNG_TRACER_H

#include "control/stop/stop.h"
#include "control/tracers/loading/loading.h"
#include "lttng.h"

#define LTTNG_GATES (LOADING_GATES - 1) /* all vector registers, their lower halves */
#define LTTNG_PLAIN 3 /* events that tracepoints without a name share */

struct lttng_tracer {
	taddr gates[LTTNG_GATES];
	struct lttng lttng;
	struct dt_bridge_result plain[LTTNG_PLAIN];
};

bool lttng_tracer_create(struct session *session);
void lttng_tracer_free(struct session *session);
void lttng_tracer_free_use(struct tracepoint *tracepoint);

/* Gates, by way of a held thread. They are at the paper's end, which is code memory like any other. */
struct error *lttng_tracer_map(struct session *session, struct stop *stop);
/* Defines events, and tells the list's trampolines of them. `held` as in session_begin. */
struct error *lttng_tracer_prepare(struct session *session, const struct tracepoint_list *list,
				   struct stop *held);
/* Forgets the list's events; nothing of it is in the target's code any more. */
void lttng_tracer_forget(struct session *session, const struct tracepoint_list *list);
/* Ends the thread in the target, which forgets all events. */
void lttng_tracer_leave(struct session *session);
/* Did it start a thread, which a stop that was made before doesn't hold? */
bool lttng_tracer_has_thread(const struct session *session);

#endif
