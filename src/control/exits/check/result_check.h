/*
 * result_check.h - does a function return a result at all?
 *
 * LLVM (in local functions) and GCC (in clones) drop a result that no caller uses, and the debug
 * information doesn't show it. The register then holds an unrelated value. Pure.
 */
#ifndef DYNTRACE_RESULT_CHECK_H
#define DYNTRACE_RESULT_CHECK_H

#include "control/values/where/abi.h"
#include "control/elf/symtab.h"

/* False: no instruction of the function, between these addresses of the file, changes the result's
 * register. */
bool result_is_set(const struct symtab *symtab, uint64_t start, uint64_t end,
		   const struct abi_piece *piece);

/* How the direct callers of a function treat its result. */
enum result_use {
	RESULT_NOT_CALLED, /* no direct call was found */
	RESULT_IGNORED, /* each caller overwrites the register, or never looks at it */
	RESULT_USED, /* some caller reads it */
};

/* Has the function around the address a result, which it may pass on? */
typedef bool result_has_result(void *context, uint64_t address);

/* Reads the code behind each call of `function` in its text. Where a caller jumps to the function,
 * or returns with the register unchanged, `has_result` decides. */
enum result_use result_use(const struct symtab *symtab, uint64_t function,
			   const struct abi_piece *piece, result_has_result *has_result,
			   void *context);

#endif
