/*
 * name_fit.h - does a symbol have the name that a user typed, or that a glob fits?
 *
 * Names are symbols' own or readable ones (demangle.h). Pieces of functions (clone_name.h) have
 * names only for those who spell them out.
 */
#ifndef DYNTRACE_NAME_FIT_H
#define DYNTRACE_NAME_FIT_H

#include <stdbool.h>

/* The readable name with its clone's suffix as the symbol has it: "f(int).cold". NULL: not mangled,
 * or damaged. The caller frees. */
char *name_fit_readable(const char *symbol);
/* The same without parameters and result type, where the name can do without: "ns::f", "f.cold",
 * "f(int)::{lambda()#1}::operator()() const". NULL: as above. The caller frees. */
char *name_fit_short(const char *symbol);

/* The name by which the glob fits the symbol: as a programmer writes it, or mangled if the glob is.
 * The caller frees. NULL: it doesn't fit. */
char *name_fit_glob(const char *symbol, const char *pattern);
/* Does the glob fit pieces, too? */
bool name_fit_wants_pieces(const char *pattern);

#endif
