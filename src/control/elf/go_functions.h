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

/* How a function's frame grows (go_cfi.h). */
struct go_frame {
	uint64_t start, end; /* of the function */
	const uint8_t *steps; /* the list, and `size` bytes up to the end of all lists or later */
	size_t size;
	bool is_compiled;
	bool is_outermost; /* nothing has called it */
	bool sets_rsp; /* so that the list doesn't tell */
	bool ends_signal; /* handlers of signals return to its start */
};

/* Has the file such a table? */
bool go_functions_exist(const struct symtab *symtab);
/* The function that holds the address; false: none. */
bool go_functions_at(const struct symtab *symtab, uint64_t address,
		     struct go_function *ret_function);
/* Its place among all functions. */
bool go_functions_index(const struct symtab *symtab, uint64_t address, uint64_t *ret_index);
/* The number of functions; 0: no table. */
uint64_t go_functions_count(const struct symtab *symtab);
/* False: the table doesn't tell (Go before 1.18), or not of that function. */
bool go_functions_frame(const struct symtab *symtab, uint64_t index, struct go_frame *ret_frame);
/* Does a name of the table fit? It has names of functions, too, that were inlined everywhere. */
bool go_functions_any(const struct symtab *symtab, bool (*fits)(const char *name));
/* Adds the functions to the symbols of a file without .symtab; for symbols.c. */
struct error *go_functions_add(struct symtab *symtab);

#endif
