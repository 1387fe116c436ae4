/*
 * go_functions.h - the functions of a Go program, from the table by which Go's runtime walks stacks
 * (pclntab). The table is loaded with the program: no strip removes it. Go 1.16 and later.
 *
 * The table is hostile input like the rest of the file.
 */
#ifndef DYNTRACE_GO_FUNCTIONS_H
#define DYNTRACE_GO_FUNCTIONS_H

#include "symtab.h"

struct go_function {
	const char *name; /* owned by the symtab; NULL: not fit to be printed */
	uint64_t start, end; /* padding after it included */
	/* made by the compiler, for its own calling convention; false: assembly, or unknown */
	bool is_compiled;
};

/* Has the file such a table? */
bool go_functions_exist(const struct symtab *symtab);
/* The function that holds the address; false: none. */
bool go_functions_at(const struct symtab *symtab, uint64_t address,
		     struct go_function *ret_function);
/* Adds the functions to the symbols of a file without .symtab; for symbols.c. */
struct error *go_functions_add(struct symtab *symtab);

#endif
