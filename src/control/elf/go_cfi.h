/*
 * go_cfi.h - how to find the caller from each instruction of Go code, from the table of functions
 * that Go's runtime has (go_functions.h): Go's compiler writes no .eh_frame.
 */
#ifndef DYNTRACE_GO_CFI_H
#define DYNTRACE_GO_CFI_H

#include "cfi.h"

/* Adds rows in no certain order. False: out of memory, or too many. */
bool go_cfi_add(const struct symtab *symtab, struct cfi_rows *rows);
/* The most bytes below its return address that the function which holds the address takes, without
 * those of functions that it calls. False: nothing tells. */
bool go_cfi_deepest(const struct symtab *symtab, uint64_t address, uint64_t *ret_bytes);

#endif
