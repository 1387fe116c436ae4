/*
 * load.h - load a library into the target by its own loader (H27), and find what it has.
 *
 * Needs a target with glibc as a shared library, and a thread at a safe point. What was loaded stays. The paper is memory that
 * the target can read and only the controller can write: for names, and for whatever else a tracer tells it.
 */
#ifndef DYNTRACE_TRACER_LOAD_H
#define DYNTRACE_TRACER_LOAD_H

#include "../inject/inject.h"
#include "../sym/sym.h"

#define LOAD_PAPER_SIZE (1u << 20)
#define LOAD_NAME_MAX 4096u

struct load_paper {
	uint8_t *here; /* NULL: not mapped yet */
	taddr there;
};

/* By way of a held thread. */
struct error *load_map_paper(struct load_paper *paper, struct stop *stop, struct agent *agent);

/* A library of ours: beside the program, or in ../lib/dyntrace. Caller frees. */
struct error *load_find(const char *name, char **ret_path);

/* Can the target load libraries at all? Nothing is touched. */
struct error *load_check(struct proc *proc, const struct modules *modules);

/* Loads it, unless it is there, and finds the addresses of `count` symbols that it must have. `held` as in
 * safepoint_call. The paper's first LOAD_NAME_MAX bytes are used. */
struct error *load_library(struct proc *proc, struct stop *held, struct load_paper *paper, const char *path,
			   const char *const *names, taddr *ret_addresses, size_t count);

#endif
