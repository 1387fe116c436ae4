/*
 * demangle.h - C++ and Rust names as programmers write them.
 *
 * The demangler is that of libstdc++, loaded when the first such name is met; without it names stay
 * as they are. Rust's own mangling (_R...) is taken apart here (demangle_rust.c).
 */
#ifndef DYNTRACE_DEMANGLE_H
#define DYNTRACE_DEMANGLE_H

#include <stdbool.h>

bool demangle_is_mangled(const char *name);
/* "ns::f(int)"; the caller frees. NULL: it isn't mangled, or can't be read. */
char *demangle(const char *name);
/* demangle_rust.c: of a name that begins with _R; likewise. */
char *demangle_rust(const char *name);
/* Does a readable name fit what the user typed: all of it, or without its parameters, template
 * arguments, result type? `pattern` may be a glob. */
bool demangle_fits(const char *readable, const char *wanted, bool is_glob);
/* Without its parameters and result type; the caller frees. NULL: it has no parameters, or what it
 * names is inside a function or a clone of one, which the parameters are needed to tell from the
 * function itself. */
char *demangle_short(const char *readable);
/* Could the mangled name stand for what was typed? False only when it can't: much faster than
 * demangling. */
bool demangle_may_fit(const char *mangled, const char *wanted);

#endif
