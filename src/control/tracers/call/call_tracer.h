/*
 * call_tracer.h - tracepoints of the tracer call: libraries of the user's in the target, and what
 * each tracepoint tells of its function. Private to session/.
 */
#ifndef DYNTRACE_CALL_TRACER_H
#define DYNTRACE_CALL_TRACER_H

#include "control/stop/stop.h"
#include "control/tracers/code/call_code.h"
#include "control/tracers/loading/loading.h"
#include "library.h"

struct call_tracer {
	struct dt_call_shared *calls; /* by call_use.index; NULL: nothing is mapped */
	taddr shared_at, calls_at; /* `calls` in the target; struct dt_calls */
	struct call_gate gates[LOADING_GATES];
	taddr gates_at[LOADING_GATES];
	uint32_t calls_used, programs_used;
	VEC(uint32_t) free_calls;
	VEC(struct library *) libraries;
	bool watches_actions;
};

bool call_tracer_create(struct session *session);
void call_tracer_free(struct session *session);
void call_tracer_free_use(struct session *session, struct tracepoint *tracepoint);

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
/* The signal that its function got, as a sentence; NULL: none. */
const char *call_tracer_fault(const struct tracepoint *tracepoint);
/* Notices signals that functions have got since. */
void call_tracer_look(struct session *session);
/* Functions of the list aren't called any more. */
void call_tracer_disable(struct session *session, const struct tracepoint_list *list);

/* ---- libraries ------------------------------------------------------------------------------- */

bool call_tracer_is_mapped(const struct session *session);
bool call_tracer_has_libraries(const struct session *session);
/* Loads it; fails where it is loaded already. */
struct error *call_tracer_open(struct session *session, const char *path);
struct error *call_tracer_find(const struct session *session, const char *path,
			       struct library **ret_library);
/* Does a tracepoint of the list call a function of it? */
bool call_tracer_uses(const struct tracepoint_list *list, const struct library *library);
struct error *call_tracer_close(struct session *session, struct library *library);

#endif
