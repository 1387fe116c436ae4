/*
 * unnamed_functions.h - functions that the symbol tables of a file itself don't name.
 *
 * From its separate debug file and from the compressed table that some distributions leave in a
 * stripped one (.gnu_debugdata): their names. From .eh_frame: functions that nothing names, as
 * fn_ADDRESS. And the entries of its procedure linkage table, as NAME@plt. Read when they are asked
 * for: most users never do.
 *
 * Files are hostile: what is damaged is left out.
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
			  struct unnamed_functions *ret_hidden);
void unnamed_functions_free(struct unnamed_functions *unnamed);

/* Those of a module, read once. */
struct error *module_unnamed_functions(struct proc *proc, struct module *module,
			    const struct unnamed_functions **ret_hidden);

/* Does the glob mean this one? Entries of the linkage table only when it says @plt. */
bool unnamed_functions_fits(const struct symbol *symbol, const char *pattern);

/* unnamed_functions.c: takes a copy of the name. False: out of memory. */
bool unnamed_functions_add(struct unnamed_functions *unnamed, const char *name, uint64_t address, uint64_t size,
		enum symbol_source source, bool global);
/* plt.c */
struct error *plt_read(const struct symtab *symtab, struct unnamed_functions *unnamed);

#endif
