/*
 * result_check.h - does a function return a result at all?
 *
 * LLVM drops the result of a local function if no caller uses it, and the debug information doesn't
 * show it. The register then holds an unrelated value. Pure.
 */
#ifndef DYNTRACE_RESULT_CHECK_H
#define DYNTRACE_RESULT_CHECK_H

#include "control/values/where/abi.h"
#include "control/elf/symtab.h"

/* False: no instruction of the function, between these addresses of the file, changes the result's
 * register. */
bool result_is_set(const struct symtab *symtab, uint64_t start, uint64_t end,
		   const struct abi_piece *piece);

#endif
