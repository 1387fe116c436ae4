/*
 * locate.h - from a parsed LOC to places in a process.
 */
#ifndef DYNTRACE_LOCATE_H
#define DYNTRACE_LOCATE_H

#include "control/modules/module.h"
#include "loc_parse.h"

/* A place of the process that a LOC means. */
struct place {
	struct module *module; /* borrowed */
	const struct symbol *symbol; /* the function named, or around the address; NULL: unknown */
	taddr address; /* in the process */
	char *name; /* "main", "main+0x10", "0x401136": becomes the name of events. Owned. */
	const struct marker *marker; /* owned by the module; NULL: not a static marker */
	/* identifies the inlined copy of the function that begins here (debug.h); else 0 */
	uint64_t inlined;
};

struct places {
	struct place *items;
	size_t count;
	size_t room;
};

/*
 * Finds every place a location means. Without @MODULE a glob means the program itself; a name means
 * the program, else the first library that has it; a marker means all modules that have it, at each
 * of its places. MODULE:NAME is NAME@MODULE if want_function and there is no such marker. A name
 * means the function with its clones; a glob leaves pieces of functions out (clone_name.h). Symbols
 * that share an address count once. An address with a module is the file's own. A glob leaves out
 * functions chosen at run time (IFUNC).
 *
 * Fails with: symbol not found (up to three near names), not a function (data, IFUNC), several
 * functions of that name, no such module (near names), address outside any module's code, offset
 * beyond the function's end, want_function and not a function's first instruction.
 */
struct error *locate(struct proc *proc, struct modules *modules, const struct location *location,
		     bool want_function, struct places *ret_places);
void places_free(struct places *places);

#endif
