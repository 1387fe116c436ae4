/*
 * prototype_options.h - options about types: --prototypes FILE, C declarations of functions without
 * debug information; --floats; --deref.
 */
#ifndef DYNTRACE_PROTOTYPE_OPTIONS_H
#define DYNTRACE_PROTOTYPE_OPTIONS_H

#include "options.h"

#define PROTOTYPES_OPTION(where)                                                                   \
	{ 0, "prototypes", "FILE",                                                                 \
	  "C declarations, for names and types of arguments and results where a module has no "    \
	  "debug information (those of libc, zlib, sqlite3, OpenSSL and others are known)",        \
	  .string = &(where) }

/* An index of floats_choices: 0 none. */
#define FLOATS_OPTION(where)                                                                       \
	{ 0, "floats", "TYPE",                                                                     \
	  "of functions whose types aren't known, also record xmm0 to xmm7, and xmm0 at the exit, " \
	  "as double or float",                                                                    \
	  .choice = &(where), .choices = floats_choices }

#define DEREF_OPTION(where)                                                                        \
	{ 0, "deref", "N",                                                                         \
	  "follow pointers to structs, and Go's slices, N levels (0 to 3; default: 0, their "       \
	  "addresses alone)",                                                                      \
	  .size = &(where), .may_be_zero = true }
extern const char *const floats_choices[];
/* Bytes of a number: 0, 4 or 8. */
uint8_t floats_size(int choice);

/* Reads the file's declarations as one short line; NULL if `file` is. The caller frees it. */
struct error *prototype_options_read(const char *file, char **ret_text);

#endif
