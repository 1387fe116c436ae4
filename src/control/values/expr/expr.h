/*
 * expr.h - expressions over the values at a probe: the variables that -t var: records, the
 * conditions of --filter.
 *
 * C's operators with C's precedence and C's types: || && | ^ & == != < <= > >= << >> + - * / % ! ~
 * unary - + * & and sizeof, members by . and ->, [index], casts to any type of the debug
 * information: ((struct foo *)p)->next. Operands are variables and parameters, enumerators, NULL,
 * true, false, numbers, 'c', "text" (with == and !=: the string; with * ? [ in it, a glob),
 * registers ($rdi; $xmm0 is a double, (float)$xmm0 a float), $tid, $pid, $cpu, and $hits: how
 * often the place was reached, this hit included. At a function's exit also $ret, $duration (ns),
 * which may be written without the $ if no argument has that name, and arguments as they were at
 * entry (entry:NAME). str(x) is the string at the address x. Numbers may have units: 4K, 1M, 5ms
 * (in ns). Integers are promoted and converted as in C (int and long have 32 and 64 bits);
 * overflow wraps, shifts by too much give 0 or the sign. Floating-point numbers are doubles or
 * singles; a single and a literal are compared as singles.
 *
 * Smart pointers and optional values are followed by -> and *; members are also found behind
 * pointers (a.b). Containers have .size and [index], enumerations of Rust .variant == "Name". What
 * isn't there, of another variant or of an empty optional, is 0, and equals no text.
 *
 * An expression becomes operations for the agent's programs. Errors mark the place with a caret.
 */
#ifndef DYNTRACE_EXPR_H
#define DYNTRACE_EXPR_H

#include "control/base/strbuf.h"
#include "control/values/shape/shape.h"

/* Looks up the names in an expression. */
struct expr_names {
	void *context;
	/* A variable's type and place; false: unknown. */
	bool (*find)(void *context, const char *name, struct type *ret_type,
		     struct value_place *ret_place);
	/* `find` failed: because the name has several values? NULL: no such names. */
	bool (*has_several)(void *context, const char *name);
	/* A type; `kind` as in debug_find_type. NULL: only C's own types. */
	bool (*find_type)(void *context, const char *name, enum type_kind kind,
			  struct type *ret_type);
	/* An enumerator's value. */
	bool (*find_label)(void *context, const char *name, int64_t *ret_value);
	/* `find_label` failed: because enumerations disagree? NULL: they don't. */
	bool (*is_ambiguous)(void *context, const char *name);
	/* Appends the names that `find` knows, for messages: "a, b". NULL: none. */
	void (*list)(void *context, struct strbuf *text);
	/* The counter of the place, for $hits; UINT32_MAX: none left. */
	uint32_t (*counter)(void *context);
	struct debug *debug; /* NULL: only registers have names */
	bool at_exit; /* `find` knows "$ret" too */
	/* Is it the name of an argument? Then `ret` and `duration` aren't short for $ret and
	 * $duration. NULL: no arguments. */
	bool (*is_argument)(void *context, const char *name);
	/* `find` gets $words too, and names with members and indices: a.b[2] */
	bool has_paths;
};

/* The type and place of a variable, or of a part of one. */
struct error *expr_variable(const char *text, const struct expr_names *names, struct type *ret_type,
			    struct value_place *ret_place);

/* A condition: operations that leave a number on the stack, and the texts that they compare. */
struct error *expr_condition(const char *text, const struct expr_names *names,
			     struct value_ops *ret_ops, struct value_texts *texts);

/* Does the expression (or the TYPE of a context) use values that only a function's exit has: $ret,
 * $duration, entry:NAME? */
bool expr_is_at_exit(const char *text);
/* Does the expression use this name: not in a string, not as a member? */
bool expr_mentions(const char *text, const char *name);

/* The hardware number of a register (16 rip, 17 flags); false: no such register. */
bool expr_register(const char *name, uint8_t *ret_number);

#endif
