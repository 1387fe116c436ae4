/*
 * library.h - a library of probe functions (include/dyntrace/probe.h) in the target: load it by the
 * target's own loader, find its functions, add its events to the trace.
 *
 * The target's memory may hold anything: it is read with bounds, and copied.
 */
#ifndef DYNTRACE_LIBRARY_H
#define DYNTRACE_LIBRARY_H

#include "control/base/vec.h"
#include "control/event/event.h"
#include "control/tracers/loading/load.h"

struct library {
	char *path;
	uint64_t device, inode;
	uint64_t handle; /* of dlopen in the target */
	VEC(taddr) events; /* its struct dyntrace_event_type that lead to a program */
};

/* What all functions below need. */
struct library_place {
	struct agent *agent;
	struct stop *held; /* as in safepoint_call */
	struct load_paper *paper;
	taddr answer; /* struct dt_load in the target */
	uint32_t *programs_used; /* bytes of the paper's programs */
	struct event_types *types; /* of the trace; library_open adds the library's */
};

/* Loads a library and connects its events. A library of another version is closed again. */
struct error *library_open(const struct library_place *place, const char *path,
			   struct library **ret_library);
/* Unloads the library and frees `library`, unless that fails. */
struct error *library_close(const struct library_place *place, struct library *library);
void library_free(struct library *library);

/* Finds a function. *ret_is_bare: it calls nothing, and touches no vector register, x87 or
 * errno. */
struct error *library_find(const struct library_place *place, const struct library *library,
			   const char *name, taddr *ret_function, bool *ret_is_bare);

#endif
