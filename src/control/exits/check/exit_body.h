/*
 * exit_body.h - does a function read or change its own return address somewhere in its body? (H6)
 *
 * Such a function would see the address of a return stub. Pure.
 */
#ifndef DYNTRACE_EXIT_BODY_H
#define DYNTRACE_EXIT_BODY_H

#include "control/elf/cfi.h"

/* Checks the function of `size` bytes at that address of the file. `rows` give the place of its
 * return address at each instruction. */
bool exit_body_touches_return(const struct symtab *symtab, const struct cfi_rows *rows,
			      uint64_t address, uint64_t size);

#endif
