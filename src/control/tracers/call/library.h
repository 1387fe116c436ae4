/*
 * library.h - a library of probe functions (include/dyntrace/probe.h) in the target: loaded by its
 * own loader, its functions found, its events told to the trace.
 *
 * What is in the target's memory may be anything: it is read with bounds, and copied.
 */
#ifndef DYNTRACE_LIBRARY_H
#define DYNTRACE_LIBRARY_H

#include "control/base/vec.h"
#include "control/event/event.h"
#include "control/tracers/loading/load.h"

struct library {
	char *path;
	uint64_t device, inode;
	uint64_t handle; /* of dlopen there */
	VEC(taddr) events; /* its struct dyntrace_event_type that lead to a program */
};

/* Where all of it is done. */
struct library_place {
	struct agent *agent;
	struct stop *held; /* as in safepoint_call */
	struct load_paper *paper;
	taddr answer; /* struct dt_load there */
	uint32_t *programs_used; /* bytes of the paper's programs */
	struct event_types *types; /* of the trace: events of libraries are added */
};

/* Opens it there, and makes its events known. A library that isn't of our version is closed again. */
struct error *library_open(const struct library_place *place, const char *path,
			   struct library **ret_library);
/* Closes it there. The library is freed, unless that fails. */
struct error *library_close(const struct library_place *place, struct library *library);
void library_free(struct library *library);

/* A function of it; *ret_is_bare: neither it nor what it calls touches vector registers, x87 or
 * errno. */
struct error *library_find(const struct library_place *place, const struct library *library,
			   const char *name, taddr *ret_function, bool *ret_is_bare);

#endif
