/*
 * go_protect.h - may a Go program forbid itself to read memory of Go's heap?
 *
 * The file is hostile input.
 */
#ifndef DYNTRACE_GO_PROTECT_H
#define DYNTRACE_GO_PROTECT_H

#include "symtab.h"

/* True also if the file doesn't tell. */
bool go_protect_may(const struct symtab *symtab);

#endif
