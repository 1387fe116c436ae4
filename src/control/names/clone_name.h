/*
 * clone_name.h - what compilers append to the names of functions that they make of others.
 *
 * A *clone* is a whole function, with arguments left out or made constant (.isra.0, .constprop.0),
 * or the same function under another name (.lto_priv.0, .llvm.123). A *piece* is a part of a
 * function's body: code that rarely runs (.cold), or what is left when the beginning was inlined
 * into the callers (.part.0). Users mean the function; its clones are calls of it, its pieces
 * aren't.
 *
 * Names are a symbol's ("foo.isra.0.cold") or what a demangler makes of it
 * ("foo(int) [clone .isra.0] [clone .cold]"). Pure.
 */
#ifndef DYNTRACE_CLONE_NAME_H
#define DYNTRACE_CLONE_NAME_H

#include <stdbool.h>
#include <stddef.h>

/* Length of the name without these suffixes. */
size_t clone_name_length(const char *name);
/* The suffixes alone as the symbol has them, ".isra.0.cold"; "": none. The caller frees. */
char *clone_name_suffix(const char *name);
/* Is the suffix (of clone_name_suffix) of a piece; of code that rarely runs? */
bool clone_suffix_is_piece(const char *suffix);
bool clone_suffix_is_cold(const char *suffix);
/* The part of the suffix that tells functions of the same name apart: ".lto_priv.0", or "". The
 * caller frees. */
char *clone_suffix_identity(const char *suffix);

#endif
