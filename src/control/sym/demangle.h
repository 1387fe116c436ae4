/*
 * demangle.h - C++ and Rust names as programmers write them.
 *
 * The demangler is that of libstdc++, loaded when the first such name is met; without it names stay as they
 * are. Rust's newer mangling (_R...) is taken apart here as far as paths go.
 */
#ifndef DYNTRACE_SYM_DEMANGLE_H
#define DYNTRACE_SYM_DEMANGLE_H

#include <stdbool.h>

bool demangle_is_mangled(const char *name);
/* "ns::f(int)"; the caller frees. NULL: it isn't mangled, or can't be read. */
char *demangle(const char *name);
/* Does a readable name fit what the user typed: all of it, or without its parameters, template arguments, result
 * type? `pattern` may be a glob. */
bool demangle_fits(const char *readable, const char *wanted, bool is_glob);
/* Could the mangled name stand for what was typed? False only when it can't: much faster than demangling. */
bool demangle_may_fit(const char *mangled, const char *wanted);

#endif
