/*
 * bindings.h - whom calls between modules reach: words that the loader has bound, and the order in
 * which it searches for those that it hasn't.
 */
#ifndef DYNTRACE_BINDINGS_H
#define DYNTRACE_BINDINGS_H

#include "control/base/vec.h"
#include "control/modules/module.h"

#define LOAD_NAME_ROOM 256u

/* x86_64/bound_words.c: does a word that another module has for one of these functions lead into
 * the module? True also if a word can't be read. */
bool bound_words_lead_into(struct proc *proc, const struct modules *modules,
			   const struct module *into, const char *const *names, size_t count);

/* One element of the loader's list. */
struct load_order_item {
	struct module *module; /* NULL: none with code; borrowed */
	char name[LOAD_NAME_ROOM]; /* the last component, as those that need it spell it */
	uint64_t dynamic; /* its dynamic table, in memory */
	bool needed; /* by the program, directly or not */
	bool from_start; /* certainly there before the program's first instruction */
};

struct load_order {
	VEC(struct load_order_item) all;
};

/* load_order.c: reads the list of libraries by way of the loader's struct r_debug. Its elements
 * from the start are in the order in which every module's symbols are searched. False: can't be
 * read. load_order_free in either case. */
bool load_order_read(struct proc *proc, const struct modules *modules, taddr r_debug,
		     struct load_order *ret_order);
void load_order_free(struct load_order *order);

#endif
