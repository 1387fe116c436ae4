/*
 * target_arg.h - the TARGET|FILE argument of list commands: the modules of a process, or one file.
 *
 * A word with a slash is a file; else a pid or the name of a process; else a file.
 */
#ifndef DYNTRACE_TARGET_ARG_H
#define DYNTRACE_TARGET_ARG_H

#include "control/dwarf/debug.h"
#include "control/elf/symtab.h"

struct target_arg_module {
	const char *name; /* the file's name */
	const char *soname; /* of a process's library; NULL: none */
	const struct symtab *symtab;
	struct debug *debug; /* NULL: none, or not wanted */
	uint64_t bias; /* added to the file's addresses */
};

/* When to open debug information: never; for the names of a stripped file; always. */
enum target_arg_debug { TARGET_ARG_PLAIN, TARGET_ARG_NAMES, TARGET_ARG_TYPES };

typedef struct error *target_arg_fn(void *context, const struct target_arg_module *module);

/* Calls `each` for each module, the program first. Leaves out modules that can't be read, with a
 * note on stderr. */
struct error *target_arg_each(const char *target, enum target_arg_debug debug, target_arg_fn *each,
			      void *context);

#endif
