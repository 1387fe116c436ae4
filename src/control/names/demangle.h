/*
 * demangle.h - C++ and Rust names as programmers write them.
 *
 * The compiler's runtime (libsupc++) demangles C++ names, demangle_rust.c those of Rust's own
 * mangling (_R...). Both stop at a length that no programmer's name has.
 */
#ifndef DYNTRACE_DEMANGLE_H
#define DYNTRACE_DEMANGLE_H

#include <stdbool.h>

bool demangle_is_mangled(const char *name);
/* "ns::f(int)"; the caller frees. NULL: not mangled, damaged, or too long. */
char *demangle(const char *name);
/* demangle_rust.c: the same for a name that begins with _R. */
char *demangle_rust(const char *name);
/* Does a readable name fit what the user typed, whole or without its parameters, template arguments
 * and result type? `wanted` may be a glob. */
bool demangle_fits(const char *readable, const char *wanted, bool is_glob);
/* The name without parameters and result type, with a clone's suffix ("f(int).cold" is f.cold); the
 * caller frees. NULL: no parameters, or a name inside a function, which only the parameters tell
 * from the function itself. */
char *demangle_short(const char *readable);
/* The rest of the name after a result type, which templates have. */
const char *demangle_without_result(const char *readable);
/* May the mangled name fit what was typed? False is certain. Much faster than demangling. */
bool demangle_may_fit(const char *mangled, const char *wanted);

#endif
