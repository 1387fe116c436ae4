/*
 * combine.c - operators with two sides: numbers, texts, floating-point values, logic.
 */
#include <stdlib.h>
#include <string.h>

#include "operand.h"

static const struct binary binaries[] = {
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

const struct binary *binary_at(const char *text, unsigned level)
{
	for (size_t i = 0; i < sizeof(binaries) / sizeof(binaries[0]); i++) {
		if (strncmp(text, binaries[i].sign, strlen(binaries[i].sign)) == 0)
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

/* A string's address, and its length if it has one, on the program's stack. */
struct pushed_text {
	struct value_ops ops;
	bool is_text; /* can be compared with one */
	bool is_counted;
	bool is_there;
};

static struct pushed_text push_text(const struct operand *place)
{
	struct pushed_text text = { .is_text = true };
	struct type target = { .kind = TYPE_VOID };
	struct value_place address, length;

	if (place->kind != OPERAND_PLACE)
		return (struct pushed_text){ .is_text = false };
	if (place->type.kind != TYPE_TEXT)
		type_target(&place->type, &target);
	if (place->type.kind == TYPE_TEXT || (place->type.kind == TYPE_POINTER && target.kind == TYPE_CHAR)) {
		text.is_there = place_push(&place->place, 8, false, &text.ops);
	} else if (place->type.kind == TYPE_ARRAY && target.kind == TYPE_CHAR) {
		text.is_there = place_push_address(&place->place, &text.ops);
	} else if (place->type.kind == TYPE_STRUCT && value_text(&place->type, &place->place, &address, &length)) {
		text.is_counted = true;
		text.is_there = place_push(&address, 8, false, &text.ops) && place_push(&length, 8, false, &text.ops);
	} else {
		text.is_text = false;
	}
	return text;
}

/* string == "text" */
static void compare_text(struct parser *p, const struct binary *binary, struct operand *place,
			 const char *text, const char *at)
{
	struct operand number = { .kind = OPERAND_NUMBER };
	size_t length = strlen(text) + 1;
	struct pushed_text pushed;
	uint32_t offset;

	operand_follow_reference(place);
	if ((binary->code != DT_OP_EQ && binary->code != DT_OP_NE) || !p->texts) {
		parser_fail(p, at, "a string can only be compared with == and !=");
		return;
	}
	pushed = push_text(place);
	if (!pushed.is_text) {
		parser_fail(p, at, "only a char *, an array of char or a string class can be compared with a string");
		return;
	}
	if (!pushed.is_there)
		parser_fail(p, at, "it isn't anywhere at this place (optimised out)");
	number.ops = pushed.ops;
	offset = (uint32_t)p->texts->count;
	for (size_t i = 0; i < length; i++) {
		if (!vec_push(p->texts, text[i]))
			parser_fail(p, at, "out of memory");
	}
	ops_add(&number.ops, DT_OP_MATCH, pushed.is_counted, is_glob(text), offset);
	if (binary->code == DT_OP_NE)
		ops_add(&number.ops, DT_OP_LNOT, 0, 0, 0);
	*place = number;
}

static bool is_float(struct operand *operand)
{
	operand_follow_reference(operand);
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
		parser_fail(p, at, "a floating-point value can only be compared with a number that is written out");
		return;
	}
	if (swapped) /* 1 < x is x > 1 */
		code = code == DT_OP_LT ? DT_OP_GT : code == DT_OP_GT ? DT_OP_LT :
		       code == DT_OP_LE ? DT_OP_GE : code == DT_OP_GE ? DT_OP_LE : code;
	if (!push_order(left, &number.ops))
		parser_fail(p, at, "it isn't anywhere at this place (optimised out)");
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

void binary_combine(struct parser *p, const struct binary *binary, struct operand *left,
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
	operand_make_number(p, left, at);
	operand_make_number(p, right, at);
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
