/*
 * target_arg.h - what a list command lists: the modules of a process, or one file.
 *
 * A word with a slash is a file; else a pid or the name of a process; else a file.
 */
#ifndef DYNTRACE_TARGET_ARG_H
#define DYNTRACE_TARGET_ARG_H

#include "control/dwarf/debug.h"
#include "control/elf/symtab.h"

struct target_arg_module {
	const char *name; /* of its file */
	const struct symtab *symtab;
	struct debug *debug; /* only if it is wanted; NULL: none */
	uint64_t bias; /* added to the file's addresses */
};

/* When debug information is opened: never; for the names of a stripped file; always. */
enum target_arg_debug { SUBJECT_PLAIN, SUBJECT_NAMES, SUBJECT_TYPES };

typedef struct error *target_arg_fn(void *context, const struct target_arg_module *module);

/* Calls back for each module, the program first. One that can't be read is left out, and that is
 * noted on stderr. */
struct error *target_arg_each(const char *target, enum target_arg_debug debug, target_arg_fn *each,
			   void *context);

#endif
