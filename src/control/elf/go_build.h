/*
 * go_build.h - what a Go program's file says of its build.
 *
 * The file is hostile input.
 */
#ifndef DYNTRACE_GO_BUILD_H
#define DYNTRACE_GO_BUILD_H

#include "symtab.h"

/* N of the release "go1.N" or "go1.N.M" whose compiler made the program. False: another compiler
 * made it, a release before 1.18, one with experiments, or nothing tells. */
bool go_build_release(const struct symtab *symtab, unsigned *ret_release);
/* Has the program the word somewhere: in the description of its build, or in a text that its linker
 * was given (-X)? */
bool go_build_mentions(const struct symtab *symtab, const char *word);

#endif
