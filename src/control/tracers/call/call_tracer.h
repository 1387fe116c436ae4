/*
 * call_tracer.h - tracepoints of the tracer call: libraries of the user's in the target, and what
 * each tracepoint tells of its function. Private to session/.
 */
#ifndef DYNTRACE_CALL_TRACER_H
#define DYNTRACE_CALL_TRACER_H

#include "control/stop/stop.h"
#include "control/session/tracepoint.h"

struct session;
struct tracepoint;
struct tracepoint_list;

/* Types are assigned: what trampolines of tracers that load something will need, before that is
 * known itself. */
void call_tracer_reckon(struct session *session, const struct tracepoint_list *list);
/* Gates, memory for all functions: by way of a held thread. */
struct error *call_tracer_map(struct session *session, struct stop *stop);
/* Libraries are loaded, functions found; trampolines get their sites. */
struct error *call_tracer_prepare(struct session *session, const struct tracepoint_list *list,
				   struct stop *held);
/* They are placed: from now on their functions are called. */
struct error *call_tracer_enable(struct session *session, const struct tracepoint_list *list,
				  struct stop *held);
/* Is a thread of the process in such a function? */
bool call_tracer_is_calling(const struct session *session, struct proc *proc);
/* Nobody is in a function any more: what was loaded is unloaded. What can't be is told in *why, if
 * it isn't NULL. */
void call_tracer_unload(struct session *session, char *why, size_t room);
/* Hits whose function wasn't called: because the thread was in one already, had no slot, or no room
 * on its stack. */
void call_tracer_add_uncalled(const struct session *session, const struct tracepoint *tracepoint,
			  struct tracepoint_info *info);
void call_tracer_free(struct session *session);
void call_tracer_free_sites(struct tracepoint *tracepoint);

#endif
