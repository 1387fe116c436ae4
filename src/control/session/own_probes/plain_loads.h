/*
 * plain_loads.h - let the agent read memory by plain loads (X3 to X8, target/signals/loads.c):
 * guards, the handler of the two signals, and the conditions under which no load can kill.
 *
 * Where these don't hold, the agent reads by system calls, and nobody is told.
 */
#ifndef DYNTRACE_PLAIN_LOADS_H
#define DYNTRACE_PLAIN_LOADS_H

#include "control/session/state/session_state.h"

/* Before traps_guard: notes whether the list's events read memory. */
void loads_want(struct session *session, const struct tracepoint_list *list);
/* When all probes are placed: puts dt_front in front of SIGSEGV and SIGBUS, and allows plain loads.
 * `held`: all threads are held already; NULL: they aren't. */
void loads_begin(struct session *session, struct stop *held);
/* Ends plain loads, if a library or a filter has come that makes them unsafe. The thread that
 * brings it waits meanwhile (N1). */
struct error *loads_lift(struct session *session);
/* Adds probes of ours at handlers that block the signals of plain loads (X6): the caller places
 * them, and loads_begin goes on. False: there is none to place. */
bool loads_want_watches(struct session *session, uint64_t now);

#endif
