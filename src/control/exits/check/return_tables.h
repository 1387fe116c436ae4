/*
 * return_tables.h - code whose language runtime looks up return addresses in tables of its own.
 *
 * A collector that finds a frame by its return address doesn't know a return stub (H29). A file is
 * told by names that its runtime can't do without, or, stripped, by its data: a table of return
 * addresses holds pointers to the instructions behind calls. Reads the file only.
 */
#ifndef DYNTRACE_RETURN_TABLES_H
#define DYNTRACE_RETURN_TABLES_H

#include "control/elf/ranges.h"
#include "control/elf/symtab.h"

#define RUNTIME_OF_TABLE "a language runtime" /* told by its data */

struct return_tables {
	const char *runtime; /* "OCaml", RUNTIME_OF_TABLE...; NULL: none */
	/* the file has a compiler, whose code calls the file's functions */
	bool makes_code;
	struct ranges code; /* sorted: no call from here gets a stub. Addresses of the file */
};

/* Fails only if memory is short. The caller frees. */
struct error *return_tables_find(const struct symtab *symtab, struct return_tables *ret_tables);
void return_tables_free(struct return_tables *tables);

#endif
