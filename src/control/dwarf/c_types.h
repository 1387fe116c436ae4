/*
 * c_types.h - types of C's own, and common names of libraries' types: for expressions and
 * prototypes, where no debug information has them. Static: anything may point to these.
 */
#ifndef DYNTRACE_C_TYPES_H
#define DYNTRACE_C_TYPES_H

#include "debug.h"

/* The keywords of C's types. */
enum c_word {
	WORD_SIGNED,
	WORD_UNSIGNED,
	WORD_SHORT,
	WORD_LONG,
	WORD_INT,
	WORD_CHAR,
	WORD_DOUBLE,
	WORDS
};
extern const char *const c_words[WORDS];

extern const struct type c_type_char, c_type_double;
/* The type of the keywords, each counted. */
const struct type *c_type_of_words(const unsigned counts[WORDS]);
/* The type of that name: "bool", "size_t", "uint8_t"; NULL: unknown. */
const struct type *c_type_known(const char *name);

#endif
