/*
 * switches.h - switch tracepoints on and off in the target.
 *
 * Stores to the word that the trampoline jumps through; stops no thread.
 */
#ifndef DYNTRACE_SWITCHES_H
#define DYNTRACE_SWITCHES_H

#include "session_state.h"

/* As tracepoint->level says, unless the user switched the tracepoint off or stopped the session. */
void switches_write(struct session *session, struct tracepoint *tracepoint);
/* Switches one probe, whatever the user chose. */
void switches_write_probe(struct session *session, struct probe *probe, enum tramp_switch position);
/* Switches replaced code of the tracepoint, which only forked children run. */
void switches_write_former(struct session *session, const struct tracepoint *tracepoint,
			   enum tramp_switch position);

#endif
