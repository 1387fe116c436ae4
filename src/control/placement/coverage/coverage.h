/*
 * coverage.h - how much of a module can be probed, and by which tactic. Plans only; touches no
 * process.
 */
#ifndef DYNTRACE_COVERAGE_H
#define DYNTRACE_COVERAGE_H

#include "control/placement/plan.h"

#define COVERAGE_TACTICS_MAX 8

struct coverage_reason {
	char text[240]; /* with '#' for numbers */
	uint64_t count;
	uint64_t example; /* an address of the file */
};

struct coverage_count {
	uint64_t total, refused;
	uint64_t placed[COVERAGE_TACTICS_MAX]; /* by tactic, in the order of the table */
	struct coverage_reason *reasons; /* the most frequent first */
	size_t reason_count, reason_room;
};

/* The name of a tactic; NULL: no such tactic. */
const char *coverage_tactic(size_t index);

/* Counts every function. The module's symtab must have been read. `maps`: the address space. */
struct error *coverage_functions(struct module *module, const struct maps *maps,
				 struct coverage_count *ret_count);
/* Counts every instruction of every function: one by one, or all of a function at once. */
struct error *coverage_instructions(struct module *module, const struct maps *maps, bool at_once,
				    struct coverage_count *ret_count);
/* Calls `found` with each of those instructions and its tactic when all of the function are placed
 * at once; tactic NULL: refused. */
struct error *coverage_each(struct module *module, const struct maps *maps,
			    void (*found)(void *context, const struct symbol *symbol,
					  uint64_t address, const char *tactic),
			    void *context);
void coverage_free(struct coverage_count *count);

/* Makes a module of a file, at an address where it might be loaded, alone in its address space.
 * Borrows the symtab and the name. */
struct error *coverage_load(struct symtab *symtab, const char *name, bool is_library,
			    struct module *ret_module, struct maps *ret_maps);

#endif
