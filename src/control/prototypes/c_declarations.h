/*
 * c_declarations.h - prototypes of functions from C text: what someone wrote by hand, or headers
 * that went through the preprocessor.
 *
 * Types are as exact as an argument's place and form need: numbers, pointers to numbers and text.
 * Structs and unions are only known behind pointers. Functions with a body, typedefs and other
 * declarations may stand between prototypes.
 *
 * The text is hostile: nesting and lengths have limits, beyond which a declaration is left out.
 */
#ifndef DYNTRACE_C_DECLARATIONS_H
#define DYNTRACE_C_DECLARATIONS_H

#include "control/base/strbuf.h"
#include "control/dwarf/c_types.h"

#define C_PARAMETERS_MAX 32
#define C_NAME_MAX 128

struct c_type {
	const struct type *base; /* NULL: a struct, a union, or a type that isn't known */
	uint8_t pointers;
	bool is_function, is_array; /* a parameter is a pointer instead */
	char tag[C_NAME_MAX]; /* without `base`: its name, with "struct " or "union " */
};

struct c_parameter {
	char name[C_NAME_MAX]; /* "": none */
	struct c_type type;
};

struct c_function {
	char name[C_NAME_MAX];
	struct c_type result;
	struct c_parameter parameters[C_PARAMETERS_MAX];
	size_t count;
	bool is_variadic;
	bool is_static;
	bool is_whole; /* all was read; the number of parameters is within its limit */
	const char *file; /* as in struct c_tokens */
	unsigned line; /* on which the declaration begins */
};

/* Calls `found` for each function that is declared, in order; true: go on. False: out of memory, or
 * `found` said so. *ret_line: the first declaration that isn't understood; 0: all are. */
bool c_declarations_read(const char *text,
			 bool (*found)(void *context, const struct c_function *function),
			 void *context, unsigned *ret_line);

/* Is its place known, as that of a number or a pointer? */
bool c_type_is_plain(const struct c_type *type);
/* The first parameter's type, or the result's, whose place isn't known; NULL: all are. */
const struct c_type *c_function_unknown_type(const struct c_function *function);
/* Is there none, and is the function whole? */
bool c_function_is_plain(const struct c_function *function);

/* Appends the declaration in types of C's own: "int open(char *file, int oflag, ...);" */
void c_function_write(const struct c_function *function, struct strbuf *text);

#endif
