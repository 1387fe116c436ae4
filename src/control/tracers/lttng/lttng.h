/*
 * lttng.h - define and forget LTTng-UST events in the target, through libdyntrace-lttng.so there
 * (src/shared/bridge.h, G1 and G2).
 */
#ifndef DYNTRACE_LTTNG_H
#define DYNTRACE_LTTNG_H

#include "shared/bridge.h"
#include "control/event/event.h"
#include "control/event/lttng_identity.h"
#include "control/tracers/loading/load.h"

#define LTTNG_PLAIN_PROVIDER "dyntrace_lttng" /* of events without a name of the user's */

struct lttng {
	bool started; /* the library's thread runs */
	taddr hit; /* the function that trampolines call */
	taddr answer; /* struct dt_bridge_answer */
	uint32_t number; /* of the last request (G1) */
	bool unanswered; /* the last request, as far as was seen */
};

/* An event to be defined; `result` is filled in. */
struct lttng_event {
	const char *provider; /* NULL: the name is PROVIDER:NAME, or LTTNG_PROVIDER's */
	const char *name; /* lttng_define cleans it up */
	const struct lttng_identity *identity; /* NULL: nothing beside fields and name */
	uint64_t address;
	const struct event_type *type; /* its fields follow the address; NULL: none do */
	struct dt_bridge_result result;
};

/* The event's name as LTTng has it. */
struct lttng_name {
	char provider[DT_BRIDGE_NAME], name[DT_BRIDGE_NAME];
};
void lttng_event_name(const struct lttng_event *event, struct lttng_name *ret_name);

/* Loads the library and starts its thread, unless it runs. `held` as in safepoint_call. */
struct error *lttng_start(struct lttng *lttng, struct agent *agent, struct stop *held,
			  struct load_paper *paper);
/* Defines events; their results stay valid as long as the process lives (G2). */
struct error *lttng_define(struct lttng *lttng, struct agent *agent, struct load_paper *paper,
			   struct lttng_event *events, size_t count);
struct error *lttng_forget(struct lttng *lttng, struct agent *agent, struct load_paper *paper,
			   uint64_t event);
/* Forgets all events and ends the thread. */
struct error *lttng_leave(struct lttng *lttng, struct agent *agent, struct load_paper *paper);

#endif
