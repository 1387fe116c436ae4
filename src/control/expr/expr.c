/*
 * expr.c - parse, type and lower in one pass: each function of the grammar returns an operand, which is still
 * a place as long as something can be done with it (a member, an index), and becomes a number when an operator
 * wants one.
 */
#include "expr.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/cleanup.h"

#define NAME_MAX_LENGTH 256
#define DEPTH_MAX 32

/* OPERAND_REAL: a number with a point, good for nothing but comparing. */
enum operand_kind { OPERAND_PLACE, OPERAND_NUMBER, OPERAND_TEXT, OPERAND_REAL };

struct operand {
	enum operand_kind kind;
	struct type type; /* of a place */
	struct value_place place;
	struct value_ops ops; /* of a number */
	bool is_unsigned;
	char *text; /* owned by the parser's scratch */
	bool is_literal; /* a number that was written out: */
	double real;
};

struct parser {
	const char *text, *at;
	const struct expr_names *names;
	struct value_texts *texts; /* NULL: no strings here */
	struct error *error; /* the first */
	unsigned depth;
	bool counts_hits; /* $hits was there already */
	char scratch[512]; /* of string literals */
};

/* ---- errors --------------------------------------------------------------------------------------- */

/* "what" at a place of the text, with a caret under it. Only the first counts. */
__attribute__((format(printf, 3, 4))) static void fail(struct parser *p, const char *at,
							 const char *format, ...)
{
	_cleanup_free_ char *what = NULL;
	va_list arguments;

	if (p->error)
		return;
	va_start(arguments, format);
	if (vasprintf(&what, format, arguments) < 0)
		what = NULL;
	va_end(arguments);
	p->error = error_new(ERROR_USAGE, "%s\n  %s\n  %*s^", what ? what : "wrong", p->text,
			     (int)(at - p->text), "");
}

/* ---- words ------------------------------------------------------------------------------------------ */

static void skip_space(struct parser *p)
{
	while (isspace((unsigned char)*p->at))
		p->at++;
}

static bool accept(struct parser *p, const char *sign)
{
	size_t length = strlen(sign);

	skip_space(p);
	if (strncmp(p->at, sign, length) != 0)
		return false;
	p->at += length;
	return true;
}

static bool is_name_char(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$';
}

/* A name, or nothing. C++ names go on behind ::. */
static bool take_name(struct parser *p, char *name)
{
	size_t length = 0;

	skip_space(p);
	if (!is_name_char(*p->at) || isdigit((unsigned char)*p->at))
		return false;
	while (is_name_char(*p->at) || (p->at[0] == ':' && p->at[1] == ':')) {
		size_t step = *p->at == ':' ? 2 : 1;

		if (length + step >= NAME_MAX_LENGTH)
			return false;
		memcpy(name + length, p->at, step);
		length += step;
		p->at += step;
	}
	name[length] = '\0';
	return true;
}

/* What belongs to the name: .member and [number]. */
static void take_path(struct parser *p, char *name)
{
	size_t length = strlen(name);

	for (;;) {
		size_t step = 0;

		if (p->at[0] == '.' && is_name_char(p->at[1]) && !isdigit((unsigned char)p->at[1])) {
			step = 1;
			while (is_name_char(p->at[step]))
				step++;
		} else if (p->at[0] == '[') {
			step = strspn(p->at + 1, "0123456789") + 1;
			step = step > 1 && p->at[step] == ']' ? step + 1 : 0;
		}
		if (!step || length + step >= NAME_MAX_LENGTH)
			return;
		memcpy(name + length, p->at, step);
		length += step;
		name[length] = '\0';
		p->at += step;
	}
}

/* ---- operands ------------------------------------------------------------------------------------------ */

static void set_number(struct operand *operand, uint64_t value, bool is_unsigned)
{
	*operand = (struct operand){ .kind = OPERAND_NUMBER, .is_unsigned = is_unsigned };
	ops_const(&operand->ops, value);
}

/* References are what they refer to. */
static void follow_reference(struct operand *operand)
{
	struct value_place behind;

	if (operand->kind != OPERAND_PLACE || operand->type.kind != TYPE_REFERENCE)
		return;
	place_behind(&operand->place, &behind);
	type_target(&operand->type, &operand->type);
	operand->place = behind;
}

static void make_number(struct parser *p, struct operand *operand, const char *at)
{
	struct operand number = { .kind = OPERAND_NUMBER };
	const struct type *type = &operand->type;
	bool found;

	follow_reference(operand);
	if (p->error || operand->kind == OPERAND_NUMBER)
		return;
	if (operand->kind == OPERAND_TEXT || operand->kind == OPERAND_REAL) {
		fail(p, at, operand->kind == OPERAND_TEXT ?
				    "a string can only be compared with == and !=" :
				    "a number with a point can only be compared with a floating-point value");
		return;
	}
	switch (type->kind) {
	case TYPE_ARRAY:
		found = place_push_address(&operand->place, &number.ops);
		break;
	case TYPE_INT:
	case TYPE_BOOL:
	case TYPE_CHAR:
	case TYPE_ENUM:
	case TYPE_POINTER:
		found = place_push(&operand->place, (uint32_t)type->size, type->is_signed, &number.ops);
		break;
	case TYPE_FLOAT:
	case TYPE_COMPLEX:
		fail(p, at, "a floating-point value can only be compared with a number");
		return;
	default:
		fail(p, at, "this isn't a number: name one of its members");
		return;
	}
	if (!found)
		fail(p, at, "it isn't anywhere at this place (optimised out)");
	number.is_unsigned = !type->is_signed;
	if (type->size < 8)
		number.is_unsigned = false; /* it fits a signed one */
	*operand = number;
}

/* ---- primaries ------------------------------------------------------------------------------------------- */

static const char *const register_names[] = { "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8",
					      "r9",  "r10", "r11", "r12", "r13", "r14", "r15", "rip", "rflags" };

bool expr_register(const char *name, uint8_t *ret_number)
{
	for (size_t i = 0; i < sizeof(register_names) / sizeof(register_names[0]); i++) {
		if (strcmp(register_names[i], name) == 0) {
			*ret_number = (uint8_t)i;
			return true;
		}
	}
	return false;
}

bool expr_is_at_exit(const char *text)
{
	static const char *const words[] = { "$ret", "$duration", "entry:" };
	bool quoted = false;

	for (const char *at = text; *at; at++) {
		if (!quoted && *at == '\'' && at[1])
			at += at[1] == '\\' && at[2] ? 2 : 1; /* a character, which may be a quote */
		else if (*at == '\\' && at[1])
			at++;
		else if (*at == '"')
			quoted = !quoted;
		for (size_t i = 0; !quoted && i < sizeof(words) / sizeof(words[0]); i++) {
			size_t length = strlen(words[i]);

			if (strncmp(at, words[i], length) == 0 && (at == text || !is_name_char(at[-1])) &&
			    (words[i][0] != '$' || !is_name_char(at[length])))
				return true;
		}
	}
	return false;
}

/* What only an exit knows; false: it is something else. */
static bool parse_exit(struct parser *p, const char *name, const char *at, struct operand *ret)
{
	bool is_entry = strcmp(name, "entry") == 0 && p->at[0] == ':';
	char argument[NAME_MAX_LENGTH];

	if (!is_entry && strcmp(name, "$ret") != 0 && strcmp(name, "$duration") != 0)
		return false;
	if (!p->names->at_exit) {
		fail(p, at, "this is known at a function's exit only (-e)");
		return true;
	}
	if (strcmp(name, "$duration") == 0) {
		*ret = (struct operand){ .kind = OPERAND_NUMBER };
		ops_add(&ret->ops, DT_OP_REG, DT_REG_DURATION, 0, 0);
		return true;
	}
	*ret = (struct operand){ .kind = OPERAND_PLACE };
	p->at += is_entry;
	if (is_entry && !take_name(p, argument))
		fail(p, p->at, "the name of an argument is expected here");
	else if (!p->names->find(p->names->context, is_entry ? argument : name, &ret->type, &ret->place))
		fail(p, at, is_entry ? "there is no argument of that name" : "the function has no result");
	return true;
}

static void parse_special(struct parser *p, const char *name, const char *at, struct operand *ret)
{
	static const struct {
		const char *name;
		enum dt_op_code code;
	} specials[] = { { "tid", DT_OP_TID }, { "pid", DT_OP_PID }, { "cpu", DT_OP_CPU } };
	struct operand operand = { .kind = OPERAND_NUMBER };
	uint8_t number;

	if (expr_register(name, &number)) {
		operand.is_unsigned = true;
		ops_add(&operand.ops, DT_OP_REG, number, 0, 0);
		*ret = operand;
		return;
	}
	if (strcmp(name, "hits") == 0 && p->names->counter) {
		uint32_t counter = p->names->counter(p->names->context);

		if (counter == UINT32_MAX)
			fail(p, at, "too many places count their hits");
		ops_add(&operand.ops, DT_OP_HITS, 0, !p->counts_hits, counter);
		p->counts_hits = true;
		*ret = operand;
		return;
	}
	for (size_t i = 0; i < sizeof(specials) / sizeof(specials[0]); i++) {
		if (strcmp(specials[i].name, name) == 0) {
			ops_add(&operand.ops, specials[i].code, 0, 0, 0);
			*ret = operand;
			return;
		}
	}
	fail(p, at, "there is no $%s: registers are $rax..., and there are $tid, $pid, $cpu and $hits", name);
}

static void parse_name(struct parser *p, struct operand *ret)
{
	static const struct {
		const char *name;
		uint64_t value;
	} words[] = { { "NULL", 0 }, { "nullptr", 0 }, { "true", 1 }, { "false", 0 } };
	char name[NAME_MAX_LENGTH];
	const char *at;
	int64_t label;

	skip_space(p);
	at = p->at;
	if (!take_name(p, name)) {
		fail(p, at, *at ? "a value is expected here" : "the expression isn't complete");
		return;
	}
	if (!p->names->has_paths && parse_exit(p, name, at, ret))
		return;
	if (name[0] == '$' && !p->names->has_paths) {
		parse_special(p, name + 1, at, ret);
		return;
	}
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(words[i].name, name) == 0) {
			set_number(ret, words[i].value, false);
			return;
		}
	}
	*ret = (struct operand){ .kind = OPERAND_PLACE };
	if (p->names->has_paths)
		take_path(p, name);
	if (p->names->find(p->names->context, name, &ret->type, &ret->place))
		return;
	if (p->names->find_label && p->names->find_label(p->names->context, name, &label)) {
		set_number(ret, (uint64_t)label, false);
		return;
	}
	if (p->names->has_paths)
		fail(p, at, "there is no '%s'", name);
	else if (!p->names->debug)
		fail(p, at, "'%s' is unknown: there is no debug information here, only registers ($rdi)", name);
	else
		fail(p, at, "there is no variable '%s' here", name);
}

static void parse_number(struct parser *p, struct operand *ret)
{
	const char *at = p->at;
	char *end;
	uint64_t value;

	errno = 0;
	value = strtoull(p->at, &end, 0);
	if (errno)
		fail(p, at, "the number is too large");
	p->at = end;
	while (*p->at && strchr("uUlL", *p->at))
		p->at++;
	if (*p->at == '.' || *p->at == 'e' || *p->at == 'E') {
		*ret = (struct operand){ .kind = OPERAND_REAL, .is_literal = true };
		ret->real = strtod(at, &end);
		p->at = end;
	} else {
		set_number(ret, value, value > INT64_MAX);
		ret->is_literal = true;
		ret->real = (double)value;
	}
	if (is_name_char(*p->at) || *p->at == '.')
		fail(p, p->at, "this isn't part of a number");
}

/* One character of a literal, escapes included; -1: its end. */
static int take_char(struct parser *p, char quote)
{
	static const char escapes[] = "n\nt\tr\r0\0\\\\'\'\"\"";
	char c = *p->at;

	if (c == '\0' || c == quote)
		return -1;
	p->at++;
	if (c != '\\')
		return (unsigned char)c;
	for (size_t i = 0; i + 1 < sizeof(escapes); i += 2) {
		if (*p->at == escapes[i]) {
			p->at++;
			return (unsigned char)escapes[i + 1];
		}
	}
	return '\\'; /* a glob's own escape */
}

static void parse_char(struct parser *p, struct operand *ret)
{
	const char *at = p->at++;
	int c = take_char(p, '\'');

	if (c < 0 || *p->at != '\'')
		fail(p, at, "a character has its end missing");
	else
		p->at++;
	set_number(ret, (uint64_t)(int64_t)(signed char)c, false);
}

static void parse_text(struct parser *p, struct operand *ret)
{
	const char *at = p->at++;
	size_t length = 0;
	int c;

	*ret = (struct operand){ .kind = OPERAND_TEXT };
	while ((c = take_char(p, '"')) >= 0 && length + 1 < sizeof(p->scratch))
		p->scratch[length++] = (char)c;
	p->scratch[length] = '\0';
	if (*p->at != '"')
		fail(p, at, c < 0 ? "the string has no end" : "the string is too long");
	else
		p->at++;
	ret->text = p->scratch;
}

static void parse_expression(struct parser *p, unsigned level, struct operand *ret);

static void parse_primary(struct parser *p, struct operand *ret)
{
	skip_space(p);
	if (accept(p, "(")) {
		parse_expression(p, 0, ret);
		if (!p->error && !accept(p, ")"))
			fail(p, p->at, "a ')' is missing");
	} else if (isdigit((unsigned char)*p->at)) {
		parse_number(p, ret);
	} else if (*p->at == '\'') {
		parse_char(p, ret);
	} else if (*p->at == '"') {
		parse_text(p, ret);
	} else {
		parse_name(p, ret);
	}
}

/* ---- members, indices ---------------------------------------------------------------------------------------- */

/* What a pointer points to, or an array's first element. */
static void dereference(struct parser *p, struct operand *operand, const char *at)
{
	struct value_place behind;
	struct type target;

	follow_reference(operand);
	if (operand->kind != OPERAND_PLACE ||
	    (operand->type.kind != TYPE_POINTER && operand->type.kind != TYPE_ARRAY)) {
		fail(p, at, "this isn't a pointer");
		return;
	}
	type_target(&operand->type, &target);
	if (operand->type.kind == TYPE_POINTER) {
		place_behind(&operand->place, &behind);
		operand->place = behind;
	}
	if (p->names->debug)
		type_complete(p->names->debug, &target);
	operand->type = target;
}

static void select_member(struct parser *p, struct operand *operand)
{
	char name[NAME_MAX_LENGTH];
	struct value_place part;
	struct member member;
	const char *at;

	skip_space(p);
	at = p->at;
	if (p->error || !take_name(p, name)) {
		fail(p, at, "the name of a member is expected here");
		return;
	}
	follow_reference(operand);
	if (p->names->debug)
		type_complete(p->names->debug, &operand->type);
	if (operand->kind != OPERAND_PLACE || !type_find_member(&operand->type, name, &member)) {
		fail(p, at, "%s%s has no member '%s'",
		     operand->type.name ? operand->type.name : "what stands before this", "", name);
		return;
	}
	place_member(&operand->place, member.offset, &part);
	if (member.bit_size) {
		struct operand number = { .kind = OPERAND_NUMBER };
		uint32_t bytes = (member.bit_offset + member.bit_size + 7) / 8;

		if (!place_push(&part, bytes, false, &number.ops))
			fail(p, at, "it isn't anywhere at this place (optimised out)");
		ops_add(&number.ops, DT_OP_BITS, (uint8_t)member.bit_offset, (uint16_t)member.bit_size,
			member.type.is_signed);
		*operand = number;
		return;
	}
	operand->place = part;
	operand->type = member.type;
}

static void select_element(struct parser *p, struct operand *operand, const char *at)
{
	struct value_place place = { .kind = PLACE_MEMORY };
	struct operand index = { 0 };

	parse_expression(p, 0, &index);
	make_number(p, &index, at);
	if (!p->error && !accept(p, "]"))
		fail(p, p->at, "a ']' is missing");
	dereference(p, operand, at);
	if (p->error)
		return;
	if (operand->type.size == 0 || operand->type.size > INT32_MAX ||
	    !place_push_address(&operand->place, &place.ops)) {
		fail(p, at, "its elements can't be found");
		return;
	}
	ops_append(&place.ops, &index.ops);
	ops_const(&place.ops, operand->type.size);
	ops_add(&place.ops, DT_OP_MUL, 0, 0, 0);
	ops_add(&place.ops, DT_OP_ADD, 0, 0, 0);
	operand->place = place;
}

static void parse_postfix(struct parser *p, struct operand *ret)
{
	parse_primary(p, ret);
	while (!p->error) {
		const char *at;

		skip_space(p);
		at = p->at;
		if (accept(p, "->")) {
			dereference(p, ret, at);
			select_member(p, ret);
		} else if (accept(p, ".")) {
			select_member(p, ret);
		} else if (accept(p, "[")) {
			select_element(p, ret, at);
		} else {
			return;
		}
	}
}

/* ---- operators -------------------------------------------------------------------------------------------------- */

static void parse_unary(struct parser *p, struct operand *ret)
{
	static const struct {
		const char *sign;
		enum dt_op_code code;
	} signs[] = { { "!", DT_OP_LNOT }, { "~", DT_OP_NOT }, { "-", DT_OP_NEG } };
	const char *at;

	skip_space(p);
	at = p->at;
	if (p->depth++ > DEPTH_MAX)
		fail(p, at, "the expression is nested too deep");
	for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]) && !p->error; i++) {
		if (at[0] == signs[i].sign[0] && !(at[0] == '!' && at[1] == '=')) {
			p->at++;
			parse_unary(p, ret);
			ret->real = -ret->real;
			ret->is_literal &= signs[i].code == DT_OP_NEG;
			if (ret->kind != OPERAND_REAL || !ret->is_literal) {
				make_number(p, ret, at);
				ops_add(&ret->ops, signs[i].code, 0, 0, 0);
			}
			p->depth--;
			return;
		}
	}
	if (!p->error && accept(p, "*")) {
		parse_unary(p, ret);
		dereference(p, ret, at);
	} else if (!p->error && accept(p, "+")) {
		parse_unary(p, ret);
	} else if (!p->error) {
		parse_postfix(p, ret);
	}
	p->depth--;
}

static const struct binary {
	const char *sign;
	unsigned level;
	enum dt_op_code code, unsigned_code;
} binaries[] = {
	/* longer signs first: the first that fits counts */
	{ "||", 1, DT_OP_SKIP, DT_OP_SKIP },	{ "&&", 2, DT_OP_SKIP_ZERO, DT_OP_SKIP_ZERO },
	{ "==", 6, DT_OP_EQ, DT_OP_EQ },	{ "!=", 6, DT_OP_NE, DT_OP_NE },
	{ "<<", 8, DT_OP_SHL, DT_OP_SHL },	{ ">>", 8, DT_OP_SAR, DT_OP_SHR },
	{ "<=", 7, DT_OP_LE, DT_OP_LEU },	{ ">=", 7, DT_OP_GE, DT_OP_GEU },
	{ "<", 7, DT_OP_LT, DT_OP_LTU },	{ ">", 7, DT_OP_GT, DT_OP_GTU },
	{ "|", 3, DT_OP_OR, DT_OP_OR },		{ "^", 4, DT_OP_XOR, DT_OP_XOR },
	{ "&", 5, DT_OP_AND, DT_OP_AND },	{ "+", 9, DT_OP_ADD, DT_OP_ADD },
	{ "-", 9, DT_OP_SUB, DT_OP_SUB },	{ "*", 10, DT_OP_MUL, DT_OP_MUL },
	{ "/", 10, DT_OP_DIV, DT_OP_DIVU },	{ "%", 10, DT_OP_MOD, DT_OP_MODU },
};

static const struct binary *next_binary(struct parser *p, unsigned level)
{
	skip_space(p);
	for (size_t i = 0; i < sizeof(binaries) / sizeof(binaries[0]); i++) {
		if (strncmp(p->at, binaries[i].sign, strlen(binaries[i].sign)) == 0)
			return binaries[i].level > level ? &binaries[i] : NULL;
	}
	return NULL;
}

/* a && b: 0 unless both. a || b: 1 if one. The second is looked at only if it decides. */
static void combine_logic(const struct binary *binary, struct operand *left, const struct operand *right)
{
	struct value_ops ops = left->ops;
	bool is_and = binary->code == DT_OP_SKIP_ZERO;
	uint32_t length = (uint32_t)right->ops.count + 2; /* with the two that make it 0 or 1 */

	if (!is_and)
		ops_add(&ops, DT_OP_LNOT, 0, 0, 0);
	ops_add(&ops, DT_OP_SKIP_ZERO, 0, 0, length + 1);
	ops_append(&ops, &right->ops);
	ops_add(&ops, DT_OP_LNOT, 0, 0, 0);
	ops_add(&ops, DT_OP_LNOT, 0, 0, 0);
	ops_add(&ops, DT_OP_SKIP, 0, 0, 2);
	ops_const(&ops, !is_and);
	left->ops = ops;
	left->is_unsigned = left->is_literal = false;
}

static bool is_glob(const char *text)
{
	return strpbrk(text, "*?[") != NULL;
}

/* string == "text" */
static void compare_text(struct parser *p, const struct binary *binary, struct operand *place,
			 const char *text, const char *at)
{
	struct operand number = { .kind = OPERAND_NUMBER };
	struct type target = { .kind = TYPE_VOID };
	size_t length = strlen(text) + 1;
	uint32_t offset;
	bool found;

	follow_reference(place);
	if (place->kind == OPERAND_PLACE && place->type.kind != TYPE_TEXT)
		type_target(&place->type, &target);
	if ((binary->code != DT_OP_EQ && binary->code != DT_OP_NE) || !p->texts) {
		fail(p, at, "a string can only be compared with == and !=");
		return;
	}
	if (place->kind != OPERAND_PLACE ||
	    (place->type.kind != TYPE_TEXT &&
	     (target.kind != TYPE_CHAR ||
	      (place->type.kind != TYPE_POINTER && place->type.kind != TYPE_ARRAY)))) {
		fail(p, at, "only a char * or an array of char can be compared with a string");
		return;
	}
	found = place->type.kind == TYPE_POINTER || place->type.kind == TYPE_TEXT ? place_push(&place->place, 8, false, &number.ops) :
						   place_push_address(&place->place, &number.ops);
	if (!found)
		fail(p, at, "it isn't anywhere at this place (optimised out)");
	offset = (uint32_t)p->texts->count;
	for (size_t i = 0; i < length; i++) {
		if (!vec_push(p->texts, text[i]))
			fail(p, at, "out of memory");
	}
	ops_add(&number.ops, DT_OP_MATCH, 0, is_glob(text), offset);
	if (binary->code == DT_OP_NE)
		ops_add(&number.ops, DT_OP_LNOT, 0, 0, 0);
	*place = number;
}

static bool is_float(struct operand *operand)
{
	follow_reference(operand);
	return operand->kind == OPERAND_PLACE && operand->type.kind == TYPE_FLOAT &&
	       (operand->type.size == 4 || operand->type.size == 8);
}

/*
 * A number that is ordered as the floating-point value is: its bits, the magnitude negated where the sign is set (so
 * that -0 is 0).
 */
static int64_t order_of(double value, bool is_single)
{
	float single = (float)value;
	int32_t narrow;
	int64_t bits;

	memcpy(&narrow, &single, sizeof(narrow));
	memcpy(&bits, &value, sizeof(bits));
	if (is_single)
		bits = narrow;
	return bits < 0 ? -(bits & (is_single ? INT32_MAX : INT64_MAX)) : bits;
}

/* (x ^ (sign & magnitude)) - sign, where sign is x >> 63: 0 or -1. */
static bool push_order(const struct operand *operand, struct value_ops *ops)
{
	uint32_t size = (uint32_t)operand->type.size;
	bool found = place_push(&operand->place, size, true, ops) && place_push(&operand->place, size, true, ops);

	ops_const(ops, 63);
	ops_add(ops, DT_OP_SAR, 0, 0, 0);
	ops_const(ops, size == 4 ? INT32_MAX : INT64_MAX);
	ops_add(ops, DT_OP_AND, 0, 0, 0);
	ops_add(ops, DT_OP_XOR, 0, 0, 0);
	found = found && place_push(&operand->place, size, true, ops);
	ops_const(ops, 63);
	ops_add(ops, DT_OP_SAR, 0, 0, 0);
	ops_add(ops, DT_OP_SUB, 0, 0, 0);
	return found;
}

/* What isn't a number at all is larger than infinity in this order, and fits nothing but !=. */
static void compare_float(struct parser *p, const struct binary *binary, struct operand *left,
			  const struct operand *right, bool swapped, const char *at)
{
	struct operand number = { .kind = OPERAND_NUMBER };
	bool is_single = left->type.size == 4;
	enum dt_op_code code = binary->code;

	if (!right->is_literal || binary->level < 6 || binary->level > 7) {
		fail(p, at, "a floating-point value can only be compared with a number that is written out");
		return;
	}
	if (swapped) /* 1 < x is x > 1 */
		code = code == DT_OP_LT ? DT_OP_GT : code == DT_OP_GT ? DT_OP_LT :
		       code == DT_OP_LE ? DT_OP_GE : code == DT_OP_GE ? DT_OP_LE : code;
	if (!push_order(left, &number.ops))
		fail(p, at, "it isn't anywhere at this place (optimised out)");
	ops_const(&number.ops, (uint64_t)order_of(right->real, is_single));
	ops_add(&number.ops, code, 0, 0, 0);
	for (int sign = -1; sign <= 1 && code != DT_OP_NE; sign += 2) {
		push_order(left, &number.ops);
		ops_const(&number.ops, (uint64_t)order_of(sign * __builtin_inf(), is_single));
		ops_add(&number.ops, sign < 0 ? DT_OP_GE : DT_OP_LE, 0, 0, 0);
		ops_add(&number.ops, DT_OP_AND, 0, 0, 0);
	}
	*left = number;
}

static void combine(struct parser *p, const struct binary *binary, struct operand *left,
		    struct operand *right, const char *at)
{
	bool is_unsigned;

	if (is_float(left)) {
		compare_float(p, binary, left, right, false, at);
		return;
	}
	if (is_float(right)) {
		struct operand value = *right;

		compare_float(p, binary, &value, left, true, at);
		*left = value;
		return;
	}

	if (left->kind == OPERAND_TEXT && right->kind == OPERAND_PLACE) {
		struct operand swapped = *right;

		compare_text(p, binary, &swapped, left->text, at);
		*left = swapped;
		return;
	}
	if (right->kind == OPERAND_TEXT) {
		compare_text(p, binary, left, right->text, at);
		return;
	}
	make_number(p, left, at);
	make_number(p, right, at);
	if (p->error)
		return;
	if (binary->level <= 2) {
		combine_logic(binary, left, right);
		return;
	}
	is_unsigned = left->is_unsigned || right->is_unsigned;
	ops_append(&left->ops, &right->ops);
	ops_add(&left->ops, is_unsigned ? binary->unsigned_code : binary->code, 0, 0, 0);
	left->is_unsigned = is_unsigned && binary->level != 6 && binary->level != 7;
	left->is_literal = false;
}

static void parse_expression(struct parser *p, unsigned level, struct operand *ret)
{
	const struct binary *binary;

	parse_unary(p, ret);
	while (!p->error && (binary = next_binary(p, level))) {
		_cleanup_free_ struct operand *right = calloc(1, sizeof(*right));
		const char *at = p->at;

		p->at += strlen(binary->sign);
		if (!right) {
			fail(p, at, "out of memory");
			return;
		}
		parse_expression(p, binary->level, right);
		if (!p->error)
			combine(p, binary, ret, right, at);
	}
}

/* ---- what is wanted --------------------------------------------------------------------------------------------- */

static struct error *parse_all(struct parser *p, struct operand *ret)
{
	parse_expression(p, 0, ret);
	skip_space(p);
	if (!p->error && *p->at)
		fail(p, p->at, "this can't be understood here");
	return p->error;
}

struct error *expr_variable(const char *text, const struct expr_names *names, struct type *ret_type,
			    struct value_place *ret_place)
{
	struct parser parser = { .text = text, .at = text, .names = names };
	struct operand operand = { 0 };
	struct error *error = parse_all(&parser, &operand);

	if (error)
		return error;
	if (operand.kind == OPERAND_NUMBER) {
		*ret_type = (struct type){ .kind = TYPE_INT, .size = 8, .is_signed = !operand.is_unsigned };
		*ret_place = (struct value_place){ .kind = PLACE_VALUE, .ops = operand.ops };
		return NULL;
	}
	*ret_type = operand.type;
	*ret_place = operand.place;
	return NULL;
}

struct error *expr_condition(const char *text, const struct expr_names *names,
			     struct value_ops *ret_ops, struct value_texts *texts)
{
	struct parser parser = { .text = text, .at = text, .names = names, .texts = texts };
	struct operand operand = { 0 };
	struct error *error = parse_all(&parser, &operand);

	if (error)
		return error;
	make_number(&parser, &operand, text);
	if (parser.error)
		return parser.error;
	if (operand.ops.failed)
		return error_new(ERROR_USAGE, "the expression is too long");
	*ret_ops = operand.ops;
	return NULL;
}
