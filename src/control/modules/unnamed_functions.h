/*
 * unnamed_functions.h - functions that the symbol tables of a file itself don't name.
 *
 * Names come from the separate debug file, and from the compressed table that some distributions
 * leave in a stripped file (.gnu_debugdata). A function of .eh_frame without any name is called
 * fn_ADDRESS, an entry of the procedure linkage table NAME@plt. All are read on first use: most
 * users never need them.
 *
 * Files are hostile: damaged parts are left out.
 */
#ifndef DYNTRACE_UNNAMED_FUNCTIONS_H
#define DYNTRACE_UNNAMED_FUNCTIONS_H

#include "control/base/vec.h"
#include "control/dwarf/debug.h"
#include "module.h"

/* Sorted by address, then name. Names are owned. */
struct unnamed_functions {
	struct symbol *items;
	size_t count;
	size_t room;
};

/* `debug`: NULL, or the file's debug information. */
struct error *unnamed_functions_read(const struct symtab *symtab, const struct debug *debug,
				     struct unnamed_functions *ret_unnamed);
void unnamed_functions_free(struct unnamed_functions *unnamed);

/* The unnamed functions of a module, read on first use. Owned by the module. */
struct error *module_unnamed_functions(struct proc *proc, struct module *module,
				       const struct unnamed_functions **ret_unnamed);

/* Does the glob fit the symbol? It fits entries of the linkage table only if it says @plt. */
bool unnamed_functions_fits(const struct symbol *symbol, const char *pattern);

/* unnamed_functions.c: adds a function; copies the name. False: out of memory. */
bool unnamed_functions_add(struct unnamed_functions *unnamed, const char *name, uint64_t address,
			   uint64_t size, enum symbol_source source, bool global);
/* plt.c: adds the entries of the linkage table. */
struct error *plt_read(const struct symtab *symtab, struct unnamed_functions *unnamed);

#endif
