/*
 * coverage.h - how much of a module can be probed, and how. Nothing is touched: it is planned only.
 */
#ifndef DYNTRACE_COVERAGE_H
#define DYNTRACE_COVERAGE_H

#include "plan.h"

#define COVERAGE_TACTICS_MAX 8

struct coverage_reason {
	char text[240]; /* numbers are '#' */
	uint64_t count;
	uint64_t example; /* an address of the file */
};

struct coverage_count {
	uint64_t total, refused;
	uint64_t placed[COVERAGE_TACTICS_MAX]; /* by tactic, in the order of their table */
	struct coverage_reason *reasons; /* the most frequent first */
	size_t reason_count, reason_room;
};

/* Tactics by number; NULL: no more. */
const char *coverage_tactic(size_t index);

/* The module's symtab must have been read. `maps`: the address space around it. */
struct error *coverage_functions(struct module *module, const struct maps *maps,
				 struct coverage_count *ret_count);
/* Every instruction of every function: each for itself, or all of a function at once. */
struct error *coverage_instructions(struct module *module, const struct maps *maps, bool at_once,
				    struct coverage_count *ret_count);
/* Calls back with each of those instructions, and how it is placed together with its function's
 * others; NULL: it isn't. */
struct error *coverage_each(struct module *module, const struct maps *maps,
			    void (*found)(void *context, const struct symbol *symbol,
					  uint64_t address, const char *tactic),
			    void *context);
void coverage_free(struct coverage_count *count);

/* A module that is only a file: where it might be loaded, and nothing else around it. Borrows the
 * symtab and the name. */
struct error *coverage_load(struct symtab *symtab, const char *name, bool is_library,
			    struct module *ret_module, struct maps *ret_maps);

#endif
