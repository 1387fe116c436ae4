/*
 * cast.c - types by name: (unsigned char)x, ((struct foo *)p)->member, sizeof(T).
 */
#include <ctype.h>
#include <string.h>

#include "control/dwarf/c_types.h"
#include "operand.h"

#define POINTERS_MAX 8

/* ---- parsing --------------------------------------------------------------------------------- */

/* Takes this word, if it is the next. */
static bool accept_word(struct parser *p, const char *word)
{
	size_t length = strlen(word);

	parser_skip_space(p);
	if (strncmp(p->at, word, length) != 0 || parser_is_name(p->at[length]))
		return false;
	p->at += length;
	return true;
}

static void skip_qualifiers(struct parser *p)
{
	while (accept_word(p, "const") || accept_word(p, "volatile") || accept_word(p, "restrict"))
		;
}

static bool take_word(struct parser *p, unsigned counts[WORDS])
{
	for (size_t i = 0; i < WORDS; i++) {
		if (accept_word(p, c_words[i])) {
			counts[i]++;
			skip_qualifiers(p);
			return true;
		}
	}
	return false;
}

/* Takes keywords in any order: long unsigned int. */
static bool take_words(struct parser *p, const struct type **ret_type)
{
	unsigned counts[WORDS] = { 0 };

	if (!take_word(p, counts))
		return false;
	while (take_word(p, counts))
		;
	*ret_type = c_type_of_words(counts);
	return true;
}

static bool find_type(struct parser *p, const char *name, enum type_kind kind,
		      struct type *ret_type)
{
	return p->names->find_type && p->names->find_type(p->names->context, name, kind, ret_type);
}

/* Continues a name with template arguments: ns::box<int>::inner */
static void take_templates(struct parser *p, char *name)
{
	size_t length = strlen(name);
	int depth = 0;

	if (*p->at != '<')
		return;
	for (; length + 1 < NAME_MAX_LENGTH &&
	       (depth || *p->at == '<' || *p->at == ':' || parser_is_name(*p->at));
	     p->at++) {
		if (!*p->at)
			break;
		depth += *p->at == '<';
		depth -= *p->at == '>';
		name[length++] = *p->at;
	}
	name[length] = '\0';
}

/* Is it "(name *)", or "(name)" before an operand? Then it can only be a cast. */
static bool must_be_type(const char *at)
{
	size_t stars;

	at += strspn(at, " ");
	stars = strspn(at, "* ");
	at += stars;
	if (*at != ')')
		return false;
	at += 1 + strspn(at + 1, " ");
	return stars ? *at != '\0' : parser_is_name(*at) || *at == '(' || *at == '"';
}

/* A type of the program. */
static bool take_named(struct parser *p, struct type *ret_type)
{
	const char *start = p->at;
	char name[NAME_MAX_LENGTH];
	struct value_place place;
	struct type type;

	if (!parser_take_name(p, name) || name[0] == '$')
		return false;
	if (find_type(p, name, TYPE_VOID, ret_type)) {
		if (must_be_type(p->at) || !p->names->find(p->names->context, name, &type, &place))
			return true;
	} else if (c_type_known(name)) {
		*ret_type = *c_type_known(name);
		if (!ret_type->die.addr)
			ret_type->base = c_type_known(name);
		return true;
	} else if (*p->at == '<') {
		take_templates(p, name);
		if (find_type(p, name, TYPE_VOID, ret_type))
			return true;
	} else if (must_be_type(p->at)) {
		parser_fail(p, start, "unknown type '%s'", name);
	}
	return false;
}

/* struct, union, enum or class NAME; false: another word, or an error. */
static bool take_tagged(struct parser *p, struct type *ret_type)
{
	static const struct {
		const char *word;
		enum type_kind kind;
	} tags[] = { { "struct", TYPE_STRUCT },
		     { "class", TYPE_STRUCT },
		     { "union", TYPE_UNION },
		     { "enum", TYPE_ENUM } };
	char name[NAME_MAX_LENGTH];

	for (size_t i = 0; i < sizeof(tags) / sizeof(tags[0]); i++) {
		const char *at;

		if (!accept_word(p, tags[i].word))
			continue;
		parser_skip_space(p);
		at = p->at;
		if (!parser_take_name(p, name)) {
			parser_fail(p, at, "expected the name of a type");
			return false;
		}
		take_templates(p, name);
		if (find_type(p, name, tags[i].kind, ret_type))
			return true;
		parser_fail(p, at, "unknown %s '%s'", tags[i].word, name);
		return false;
	}
	return false;
}

static bool take_base(struct parser *p, struct type *ret_type)
{
	const struct type *builtin;

	skip_qualifiers(p);
	if (take_words(p, &builtin)) {
		*ret_type = *builtin;
		ret_type->base = builtin;
		return true;
	}
	return take_tagged(p, ret_type) || (!p->error && take_named(p, ret_type));
}

bool cast_take_type(struct parser *p, struct type *ret_type)
{
	const char *start = p->at;
	unsigned pointers = 0;
	struct type type;

	if (!take_base(p, &type)) {
		p->at = start;
		return false;
	}
	for (skip_qualifiers(p); parser_accept(p, "*"); skip_qualifiers(p)) {
		struct type pointer;

		if (++pointers > POINTERS_MAX) {
			parser_fail(p, p->at, "too many pointers");
			return false;
		}
		type_add_pointer(&type, &pointer);
		type = pointer;
	}
	if (!parser_accept(p, ")")) {
		/* either a variable with the name of a type, in an expression, or a type that
		 * continues */
		if (!*p->at || isalpha((unsigned char)*p->at) || *p->at == '_' || *p->at == '[' ||
		    *p->at == '(')
			parser_fail(p, p->at, "missing ')' (a type is a name and stars here)");
		p->at = start;
		return false;
	}
	*ret_type = type;
	return true;
}

/* ---- casts ----------------------------------------------------------------------------------- */

static void cast_to_real(struct operand *operand, const struct type *type)
{
	operand_make_real(operand, type->size == sizeof(float) ? sizeof(float) : sizeof(double));
	if (type->size == sizeof(float))
		ops_add(&operand->ops, DT_OP_REAL_NARROW, 0, 0, 0);
}

static void cast_to_number(struct parser *p, struct operand *operand, const struct type *type,
			   const char *at)
{
	if (type->kind == TYPE_BOOL) {
		operand_make_truth(p, operand, at);
		ops_add(&operand->ops, DT_OP_LNOT, 0, 0, 0);
		ops_add(&operand->ops, DT_OP_LNOT, 0, 0, 0);
	} else if (operand->kind == OPERAND_REAL) {
		ops_add(&operand->ops, DT_OP_REAL_TO, !type->is_signed && type->size == 8, 0, 0);
	}
}

/* Doesn't load the value: makes a place of the new type, which takes as many bytes as it has. */
void cast_apply(struct parser *p, struct operand *operand, const struct type *type, const char *at)
{
	struct operand cast = { .kind = OPERAND_PLACE, .type = *type };
	bool is_real = type->kind == TYPE_FLOAT;

	if (p->error)
		return;
	if (operand->is_vector && is_real && type->size <= 8) { /* other bits, no conversion */
		operand->type = *type;
		operand->place.pieces[0].size = (uint8_t)type->size;
		operand->is_vector = false;
		return;
	}
	if (type->kind != TYPE_INT && type->kind != TYPE_CHAR && type->kind != TYPE_BOOL &&
	    type->kind != TYPE_ENUM && type->kind != TYPE_POINTER && !is_real) {
		parser_fail(p, at, "a value can't become a %s (cast an address: *(T *)p)",
			    type->name ? type->name : "struct");
		return;
	}
	if (is_real ? type->size < 4 || value_is_quadruple(type) :
		      type->size == 0 || type->size > 8) {
		parser_fail(p, at, "cannot compute with numbers of this size");
		return;
	}
	operand_make_value(p, operand, at);
	if (p->error)
		return;
	if (is_real)
		cast_to_real(operand, type);
	else
		cast_to_number(p, operand, type, at);
	if (is_real && type->size > 8)
		cast.type = c_type_double;
	cast.place = (struct value_place){ .kind = PLACE_VALUE, .ops = operand->ops };
	*operand = cast;
}

void cast_to_string(struct parser *p, struct operand *operand, const char *at)
{
	struct type character = c_type_char, pointer;

	operand_follow_reference(operand);
	if (p->error || operand->kind == OPERAND_TEXT)
		return;
	if (operand->kind == OPERAND_REAL ||
	    (operand->kind == OPERAND_PLACE && operand->type.kind == TYPE_FLOAT)) {
		parser_fail(p, at, "a floating-point number is no address of a string");
		return;
	}
	if (operand->kind == OPERAND_PLACE && operand->type.kind != TYPE_INT &&
	    operand->type.kind != TYPE_POINTER)
		return; /* an array, a class, a text of a trace: combine.c knows strings */
	character.base = &c_type_char;
	type_add_pointer(&character, &pointer);
	cast_apply(p, operand, &pointer, at);
}
