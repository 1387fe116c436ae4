/*
 * lttng_unheard.h - events of LTTng that no session records: says so, and how to change it.
 */
#ifndef DYNTRACE_LTTNG_UNHEARD_H
#define DYNTRACE_LTTNG_UNHEARD_H

#include "lttng_tracer.h"

/* Notes whether a session records the tracepoint's events now. */
void lttng_unheard_look(const struct session *session, const struct tracepoint *tracepoint);
/* Does no started session of LTTng record the list's events? Then the text says so, with the
 * command that makes one. Waits a moment for liblttng-ust to hear of sessions. */
bool lttng_unheard_tell(const struct session *session, const struct tracepoint_list *list,
			char *ret_text, size_t size);

#endif
