/*
 * lttng_tracer.h - tracepoints of the tracer lttng: their events in the target, and the calls of
 * their trampolines.
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

/* The tracepoint's part. */
struct lttng_use {
	uint64_t events[2]; /* its own events of LTTng, entry and exit; 0: none */
	bool heard; /* a session has recorded them */
};

extern const char *const lttng_tracer_plain_names[LTTNG_PLAIN];

bool lttng_tracer_create(struct session *session);
void lttng_tracer_free(struct session *session);
void lttng_tracer_free_use(struct tracepoint *tracepoint);

/* The event of a typed tracepoint's entry (0) or exit (1). */
struct lttng_event lttng_tracer_event(const struct session *session,
				      const struct tracepoint *tracepoint, uint32_t which);

/* Writes the gates to the paper's end, which is code memory. Maps the paper by way of a held
 * thread. */
struct error *lttng_tracer_map(struct session *session, struct stop *stop);
/* Defines the list's events, and gives them to the trampolines. `held` as in session_begin. */
struct error *lttng_tracer_prepare(struct session *session, const struct tracepoint_list *list,
				   struct stop *held);
/* Forgets the list's events, whose sites are removed from the target's code. */
void lttng_tracer_forget(struct session *session, const struct tracepoint_list *list);
/* Ends the thread in the target, which forgets all events. */
void lttng_tracer_leave(struct session *session);
/* Does the library's thread run? A stop made before its start doesn't hold that thread. */
bool lttng_tracer_has_thread(const struct session *session);

#endif
