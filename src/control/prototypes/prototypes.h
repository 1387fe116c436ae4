/*
 * prototypes.h - names and types of parameters for functions without debug information: of common
 * libraries, from a table made of their headers when dyntrace was built, and from C declarations
 * of the user's.
 *
 * Only functions whose parameters and result are numbers and pointers are known: the ABI gives the
 * places of these without a look at structs. Pure.
 */
#ifndef DYNTRACE_PROTOTYPES_H
#define DYNTRACE_PROTOTYPES_H

#include "c_declarations.h"
#include "control/base/error.h"

struct prototype_parameter {
	char *name; /* without leading underscores; NULL: none */
	struct type type;
};

struct prototype {
	char *name;
	struct type result;
	struct prototype_parameter *parameters;
	size_t count;
	bool is_variadic;
};

struct prototypes;

/* Reads C declarations. Types of structs come without their members. ERROR_USAGE names the line
 * that isn't understood, or the function whose types aren't known. */
struct error *prototypes_parse(const char *text, struct prototypes **ret_prototypes);
void prototypes_free(struct prototypes *prototypes);
/* NULL: none. */
const struct prototype *prototypes_find(const struct prototypes *prototypes, const char *name);

/* The tables of common libraries, for a function of a module, by its file name: "libc.so.6". Reads
 * the table of that library alone, when it is asked for the first time. */
const struct prototype *prototypes_find_shipped(const char *module, const char *name);

/* Appends all declarations of a text that prototypes_parse reads, on one line, in C's own types. */
struct error *prototypes_shorten(const char *text, struct strbuf *ret_text);

#endif
