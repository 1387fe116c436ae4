/*
 * switches.h - the words that switch tracepoints on and off in the target.
 *
 * A store to the word that the trampoline jumps through; no thread is stopped.
 */
#ifndef DYNTRACE_SWITCHES_H
#define DYNTRACE_SWITCHES_H

#include "session_state.h"

/* Are its hits recorded, as the user wants it and the session as a whole is? */
void switches_write(struct session *session, struct tracepoint *tracepoint);
/* Switches one probe, whatever the user wants. */
void switches_write_probe(struct session *session, struct probe *probe, bool on);
/* Switches code of the tracepoint that newer code has replaced, and that only forked children run. */
void switches_write_former(struct session *session, const struct tracepoint *tracepoint, bool on);

#endif
