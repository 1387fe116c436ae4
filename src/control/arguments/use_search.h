/*
 * use_search.h - the search behind argument_use.h: what a function does with argument registers.
 *
 * All functions of one file; each answer is remembered. One thread at a time.
 */
#ifndef DYNTRACE_USE_SEARCH_H
#define DYNTRACE_USE_SEARCH_H

#include "control/code/decode.h"
#include "control/elf/symtab.h"

/* A bit per register each: rdi is bit 0. */
struct use {
	uint64_t address;
	uint8_t reads; /* by an instruction that was found */
	uint8_t doubts; /* perhaps, by what couldn't be followed */
	uint8_t clobbers; /* for certain, callers count on nothing in these behind a call */
	uint8_t results; /* registers that may hold a part of its result */
	bool is_variadic;
	bool returns; /* a way to a return was found */
	bool is_cut; /* calls were too deep to be followed: a deeper search may know more */
};

/* Registers of `wanted` that can't be arguments of the function, whatever its code does. */
typedef uint8_t use_evidence(void *context, uint64_t function, uint8_t wanted);

struct use_search;

/* `evidence` may be NULL. NULL: out of memory. The symtab stays the caller's, and outlives it. */
struct use_search *use_search_new(const struct symtab *symtab, use_evidence *evidence,
				  void *context);
void use_search_free(struct use_search *all);

struct use use_search_function(struct use_search *all, uint64_t address);
/* Of what an instruction calls, or jumps to in another function. */
struct use use_search_callee(struct use_search *all, const struct insn *insn);

#endif
