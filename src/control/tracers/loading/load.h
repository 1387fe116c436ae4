/*
 * load.h - load a library into the target by its own loader (H27), and find its symbols.
 *
 * Needs a target with glibc as a shared library, and a thread at a safe point. A library of ours
 * stays loaded. The paper is memory that the target can read and only the controller can write: for
 * names, code, and what a tracer passes to its library.
 */
#ifndef DYNTRACE_LOAD_H
#define DYNTRACE_LOAD_H

#include <sys/stat.h>

#include "control/agent/agent.h"
#include "control/modules/module.h"

#define LOAD_PAPER_SIZE (1u << 20)
#define LOAD_NAME_MAX 4096u

/* The paper, from its end: parts that are written once. A request may use all that lies before. */
#define LOAD_GATE_ROOM 2048u
enum load_part {
	LOAD_GATE_LTTNG, /* tracers/code/foreign_code.h, with all vector registers ... */
	LOAD_GATE_LTTNG_LOW, /* ... and with the lower halves */
	LOAD_GATE_CALL, /* tracers/code/call_code.h, likewise ... */
	LOAD_GATE_CALL_LOW,
	LOAD_GATE_CALL_BARE, /* ... and with none */
	LOAD_STUB, /* load.c */
	LOAD_GATE_SYNC, /* tracers/code/foreign_code.h, for the agent's own functions */
	LOAD_PARTS,
};
#define LOAD_PART_AT(part) (LOAD_PAPER_SIZE - ((uint32_t)(part) + 1) * LOAD_GATE_ROOM)
#define LOAD_PROGRAMS_SIZE (256u << 10) /* of events that libraries declare */
#define LOAD_PROGRAMS_AT (LOAD_PART_AT(LOAD_PARTS) - LOAD_PROGRAMS_SIZE)
#define LOAD_PAPER_END LOAD_PROGRAMS_AT

struct load_paper {
	uint8_t *here; /* NULL: not mapped yet */
	taddr there;
};

/* Maps the paper by way of a held thread, unless it is mapped. */
struct error *load_map_paper(struct load_paper *paper, struct stop *stop, struct agent *agent);

/* Finds a library of ours: beside the program, or in ../lib/dyntrace. Caller frees. */
struct error *load_find(const char *name, char **ret_path);

/* Fails if the target can't load libraries. Changes nothing. */
struct error *load_check(struct proc *proc, const struct modules *modules);

/* Opens a library of the user's, also if the target has it already. `answer`: struct dt_load in
 * memory that the target can write. *ret_handle is for load_close. Fails with the message of the
 * target's loader. */
struct error *load_open(struct proc *proc, struct stop *held, struct load_paper *paper,
			taddr answer, const char *path, uint64_t *ret_handle);
/* Closes the library once. The loader keeps it as long as anything else has it open. */
struct error *load_close(struct proc *proc, struct stop *held, struct load_paper *paper,
			 taddr answer, uint64_t handle);

/* Looks up the file that the target sees under that name. */
struct error *load_look(const struct proc *proc, const char *path, struct stat *ret_file);
/* The module that was mapped from the file; NULL: none. */
struct module *load_find_module(const struct modules *modules, const struct stat *file);
/* Finds errno: its offset from the FS base. */
struct error *load_find_errno(struct proc *proc, const struct modules *modules,
			      int64_t *ret_offset);

/* Loads a library, unless the target has it, and finds `count` symbols that it must have.
 * `held` as in safepoint_call. The paper's first LOAD_NAME_MAX bytes are used. */
struct error *load_library(struct proc *proc, struct stop *held, struct load_paper *paper,
			   const char *path, const char *const *names, taddr *ret_addresses,
			   size_t count);

#endif
