/*
 * go_cfi.h - how to find the caller from each instruction of Go code, from the table of functions
 * that Go's runtime has (go_functions.h): Go's compiler writes no .eh_frame.
 */
#ifndef DYNTRACE_GO_CFI_H
#define DYNTRACE_GO_CFI_H

#include "cfi.h"

/* Adds rows in no certain order. False: out of memory, or too many. */
bool go_cfi_add(const struct symtab *symtab, struct cfi_rows *rows);

#endif
