#include "c_types.h"

#include <string.h>

static const struct type type_void = { .kind = TYPE_VOID, .name = "void" };
const struct type c_type_char = {
	.kind = TYPE_CHAR, .size = 1, .is_signed = true, .name = "char"
};
static const struct type type_bool = { .kind = TYPE_BOOL, .size = 1, .name = "bool" };
static const struct type type_float = { .kind = TYPE_FLOAT, .size = 4, .name = "float" };
const struct type c_type_double = { .kind = TYPE_FLOAT, .size = 8, .name = "double" };
static const struct type type_long_double = { .kind = TYPE_FLOAT,
					      .size = 16,
					      .name = "long double" };
static const struct type type_ints[2][4] = {
	{ { .kind = TYPE_INT, .size = 1, .name = "unsigned char" },
	  { .kind = TYPE_INT, .size = 2, .name = "unsigned short" },
	  { .kind = TYPE_INT, .size = 4, .name = "unsigned int" },
	  { .kind = TYPE_INT, .size = 8, .name = "unsigned long" } },
	{ { .kind = TYPE_INT, .size = 1, .is_signed = true, .name = "signed char" },
	  { .kind = TYPE_INT, .size = 2, .is_signed = true, .name = "short" },
	  { .kind = TYPE_INT, .size = 4, .is_signed = true, .name = "int" },
	  { .kind = TYPE_INT, .size = 8, .is_signed = true, .name = "long" } },
};

/* Names of libraries' types, for programs without debug information for them. */
static const struct {
	const char *name;
	const struct type *type;
} known[] = {
	{ "bool", &type_bool },
	{ "_Bool", &type_bool },
	{ "float", &type_float },
	{ "void", &type_void },
	{ "size_t", &type_ints[0][3] },
	{ "ssize_t", &type_ints[1][3] },
	{ "int8_t", &type_ints[1][0] },
	{ "uint8_t", &type_ints[0][0] },
	{ "int16_t", &type_ints[1][1] },
	{ "uint16_t", &type_ints[0][1] },
	{ "int32_t", &type_ints[1][2] },
	{ "uint32_t", &type_ints[0][2] },
	{ "int64_t", &type_ints[1][3] },
	{ "uint64_t", &type_ints[0][3] },
	{ "intptr_t", &type_ints[1][3] },
	{ "uintptr_t", &type_ints[0][3] },
	{ "ptrdiff_t", &type_ints[1][3] },
	{ "off_t", &type_ints[1][3] },
};

const struct type *c_type_known(const char *name)
{
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (strcmp(known[i].name, name) == 0)
			return known[i].type;
	}
	return NULL;
}

const char *const c_words[WORDS] = { "signed", "unsigned", "short", "long",
				     "int",    "char",	   "double" };

const struct type *c_type_of_words(const unsigned counts[WORDS])
{
	bool is_signed = !counts[WORD_UNSIGNED];

	if (counts[WORD_DOUBLE])
		return counts[WORD_LONG] ? &type_long_double : &c_type_double;
	if (counts[WORD_CHAR])
		return counts[WORD_SIGNED] || counts[WORD_UNSIGNED] ? &type_ints[is_signed][0] :
								      &c_type_char;
	return &type_ints[is_signed][counts[WORD_SHORT] ? 1 : counts[WORD_LONG] ? 3 : 2];
}
