/*
 * call_tracer.h - tracepoints of the tracer call: libraries of the user in the target, their
 * functions, and the signals that these got.
 */
#ifndef DYNTRACE_CALL_TRACER_H
#define DYNTRACE_CALL_TRACER_H

#include "control/stop/stop.h"
#include "control/tracers/code/call_code.h"
#include "control/tracers/loading/loading.h"
#include "library.h"

struct call_tracer {
	struct dt_call_shared *calls; /* by call_use.index; NULL: not mapped yet */
	taddr shared_at; /* of `calls` in the target */
	taddr calls_at; /* of struct dt_calls */
	struct call_gate gates[LOADING_GATES];
	taddr gates_at[LOADING_GATES];
	uint32_t calls_used, programs_used;
	VEC(uint32_t) free_calls;
	VEC(struct library *) libraries;
};

bool call_tracer_create(struct session *session);
void call_tracer_free(struct session *session);
void call_tracer_free_use(struct session *session, struct tracepoint *tracepoint);

/* Sets the sizes that trampolines of tracers that load libraries need, once types are assigned and
 * before the libraries are loaded. */
void call_tracer_reckon(struct session *session, const struct tracepoint_list *list);
/* Maps gates and the memory for all functions, by way of a held thread. */
struct error *call_tracer_map(struct session *session, struct stop *stop);
/* Loads the list's libraries, finds their functions, and gives trampolines their call sites. */
struct error *call_tracer_prepare(struct session *session, const struct tracepoint_list *list,
				  struct stop *held);
/* After placing: lets the list's trampolines call their functions. */
struct error *call_tracer_enable(struct session *session, const struct tracepoint_list *list,
				 struct stop *held);
/* Is a thread of the process in such a function? */
bool call_tracer_is_calling(const struct session *session, struct proc *proc);
/* Unloads all libraries, once no thread is in a function. *why, if not NULL, names a library that
 * stays. */
void call_tracer_unload(struct session *session, char *why, size_t room);
/* Adds the hits whose function wasn't called: because the thread was in a function already, had no
 * slot, or no room on its stack (C4). */
void call_tracer_add_uncalled(const struct session *session, const struct tracepoint *tracepoint,
			      struct tracepoint_info *info);
/* The signal that the tracepoint's function got, as a sentence; NULL: none. */
const char *call_tracer_fault(const struct tracepoint *tracepoint);
/* Call regularly: reports signals that functions got since the last call. */
void call_tracer_look(struct session *session);
/* Stops the calls of the list's functions. */
void call_tracer_disable(struct session *session, const struct tracepoint_list *list);

/* ---- libraries ------------------------------------------------------------------------------- */

bool call_tracer_is_mapped(const struct session *session);
bool call_tracer_has_libraries(const struct session *session);
/* Loads a library; fails if it is loaded already. */
struct error *call_tracer_open(struct session *session, const char *path);
struct error *call_tracer_find(const struct session *session, const char *path,
			       struct library **ret_library);
/* Does a tracepoint of the list call a function of the library? */
bool call_tracer_uses(const struct tracepoint_list *list, const struct library *library);
struct error *call_tracer_close(struct session *session, struct library *library);

#endif
