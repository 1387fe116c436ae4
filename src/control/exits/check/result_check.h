/*
 * result_check.h - does a function give its result at all?
 *
 * LLVM drops the result of a local function that none of its callers uses, without a word in the
 * debug information. What is in the register then is something else. Pure.
 */
#ifndef DYNTRACE_RESULT_CHECK_H
#define DYNTRACE_RESULT_CHECK_H

#include "control/values/where/abi.h"
#include "control/elf/symtab.h"

/* False: nothing in its code, between these addresses of the file, changes the register that the
 * result is in. */
bool result_is_set(const struct symtab *symtab, uint64_t start, uint64_t end,
		   const struct abi_piece *piece);

#endif
