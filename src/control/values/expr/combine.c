/*
 * combine.c - operators with two sides: numbers, texts, floating-point values, logic.
 */
#include <stdlib.h>
#include <string.h>

#include "operand.h"

#define NO_REAL DT_OP_END

static const struct binary binaries[] = {
	/* longer signs first: the first match wins */
	{ "||", 1, DT_OP_SKIP, DT_OP_SKIP, NO_REAL },
	{ "&&", 2, DT_OP_SKIP_ZERO, DT_OP_SKIP_ZERO, NO_REAL },
	{ "==", LEVEL_EQUAL, DT_OP_EQ, DT_OP_EQ, DT_OP_REAL_EQ },
	{ "!=", LEVEL_EQUAL, DT_OP_NE, DT_OP_NE, DT_OP_REAL_NE },
	{ "<<", LEVEL_SHIFT, DT_OP_SHL, DT_OP_SHL, NO_REAL },
	{ ">>", LEVEL_SHIFT, DT_OP_SAR, DT_OP_SHR, NO_REAL },
	{ "<=", LEVEL_ORDER, DT_OP_LE, DT_OP_LEU, DT_OP_REAL_LE },
	{ ">=", LEVEL_ORDER, DT_OP_GE, DT_OP_GEU, DT_OP_REAL_GE },
	{ "<", LEVEL_ORDER, DT_OP_LT, DT_OP_LTU, DT_OP_REAL_LT },
	{ ">", LEVEL_ORDER, DT_OP_GT, DT_OP_GTU, DT_OP_REAL_GT },
	{ "|", 3, DT_OP_OR, DT_OP_OR, NO_REAL },
	{ "^", 4, DT_OP_XOR, DT_OP_XOR, NO_REAL },
	{ "&", 5, DT_OP_AND, DT_OP_AND, NO_REAL },
	{ "+", 9, DT_OP_ADD, DT_OP_ADD, DT_OP_REAL_ADD },
	{ "-", 9, DT_OP_SUB, DT_OP_SUB, DT_OP_REAL_SUB },
	{ "*", 10, DT_OP_MUL, DT_OP_MUL, DT_OP_REAL_MUL },
	{ "/", 10, DT_OP_DIV, DT_OP_DIVU, DT_OP_REAL_DIV },
	{ "%", 10, DT_OP_MOD, DT_OP_MODU, NO_REAL },
};

const struct binary *binary_at(const char *text, unsigned level)
{
	for (size_t i = 0; i < sizeof(binaries) / sizeof(binaries[0]); i++) {
		if (strncmp(text, binaries[i].sign, strlen(binaries[i].sign)) == 0)
			return binaries[i].level > level ? &binaries[i] : NULL;
	}
	return NULL;
}

/* a && b, a || b: 0 or 1. Evaluates the second side only if it decides. */
static void combine_logic(const struct binary *binary, struct operand *left,
			  const struct operand *right)
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
	left->size = 4;
	left->is_unsigned = left->is_literal = false;
}

static bool is_glob(const char *text)
{
	return strpbrk(text, "*?[") != NULL;
}

/* A string on the program's stack: its address, and its length if it has one. */
struct pushed_text {
	struct value_ops ops;
	bool is_text; /* comparable with a text */
	bool is_counted;
	bool is_there;
};

static struct pushed_text push_text(const struct parser *p, const struct operand *place)
{
	struct pushed_text text = { .is_text = true };
	struct type target = { .kind = TYPE_VOID };
	struct value_place address, length;

	if (place->kind != OPERAND_PLACE)
		return (struct pushed_text){ .is_text = false };
	if (place->type.kind == TYPE_ENUM && p->names->has_paths) { /* its label */
		ops_const(&text.ops, place->place.ops.items[0].a);
		text.is_there = true;
		return text;
	}
	if (place->type.kind != TYPE_TEXT)
		type_target(&place->type, &target);
	if (place->type.kind == TYPE_TEXT ||
	    (place->type.kind == TYPE_POINTER && target.kind == TYPE_CHAR)) {
		text.is_there = place_push(&place->place, 8, false, &text.ops);
	} else if (place->type.kind == TYPE_ARRAY && target.kind == TYPE_CHAR) {
		text.is_there = place_push_address(&place->place, &text.ops);
	} else if (place->type.kind == TYPE_STRUCT &&
		   value_text(&place->type, &place->place, &address, &length)) {
		text.is_counted = true;
		text.is_there = place_push(&address, 8, false, &text.ops) &&
				place_push(&length, 8, false, &text.ops);
	} else {
		text.is_text = false;
	}
	return text;
}

static bool is_wide_text(const struct operand *operand)
{
	struct type target;

	if (operand->kind != OPERAND_PLACE ||
	    (operand->type.kind != TYPE_POINTER && operand->type.kind != TYPE_ARRAY))
		return false;
	type_target(&operand->type, &target);
	return value_is_wide(&target);
}

/* enumeration.variant == "Name" */
static void compare_variant(struct parser *p, const struct binary *binary, struct operand *place,
			    const char *name, const char *at)
{
	struct operand number = { .kind = OPERAND_NUMBER, .size = 4 };

	if (binary->code != DT_OP_EQ && binary->code != DT_OP_NE)
		parser_fail(p, at, "names of variants can be compared with == and != only");
	else if (!value_is_variant(&place->type, &place->place, name, &number.ops))
		parser_fail(p, at, "no variant '%s'", name);
	operand_guard_ops(place, &number.ops);
	if (binary->code == DT_OP_NE)
		ops_add(&number.ops, DT_OP_LNOT, 0, 0, 0);
	*place = number;
}

/* string == "text" */
static void compare_text(struct parser *p, const struct binary *binary, struct operand *place,
			 const char *text, const char *at)
{
	struct operand number = { .kind = OPERAND_NUMBER, .size = 4 };
	size_t length = strlen(text) + 1;
	struct pushed_text pushed;
	uint32_t offset;

	operand_follow_reference(place);
	if (place->is_variant_name) {
		compare_variant(p, binary, place, text, at);
		return;
	}
	if ((binary->code != DT_OP_EQ && binary->code != DT_OP_NE) || !p->texts) {
		parser_fail(p, at, "strings can be compared with == and != only");
		return;
	}
	pushed = push_text(p, place);
	if (!pushed.is_text) {
		parser_fail(p, at,
			    is_wide_text(place) ?
				    "a text of wide characters cannot be compared" :
				    "not a string: cannot be compared with one (cast it: (char *)x)");
		return;
	}
	if (!pushed.is_there)
		parser_fail(p, at, "no value at this place (optimised out)");
	number.ops = pushed.ops;
	offset = (uint32_t)p->texts->count;
	for (size_t i = 0; i < length; i++) {
		if (!vec_push(p->texts, text[i]))
			parser_fail(p, at, "out of memory");
	}
	ops_add(&number.ops, DT_OP_MATCH, pushed.is_counted, is_glob(text), offset);
	operand_guard_ops(place, &number.ops);
	if (binary->code == DT_OP_NE)
		ops_add(&number.ops, DT_OP_LNOT, 0, 0, 0);
	*place = number;
}

/* ---- pointers -------------------------------------------------------------------------------- */

static bool is_pointer(struct parser *p, struct operand *operand)
{
	operand_follow_holder(p, operand);
	return operand->kind == OPERAND_PLACE &&
	       (operand->type.kind == TYPE_POINTER || operand->type.kind == TYPE_ARRAY);
}

/* Bytes by which pointer + 1 moves. */
static uint64_t step_of(struct parser *p, const struct type *pointer, struct type *ret_target)
{
	type_target(pointer, ret_target);
	if (p->names->debug)
		type_complete(p->names->debug, ret_target);
	return ret_target->size ? ret_target->size : 1; /* void: a byte, as in gcc */
}

/* pointer + number, pointer - number */
static void move_pointer(struct parser *p, enum dt_op_code code, struct operand *pointer,
			 struct operand *number, const char *at)
{
	struct operand moved = { .kind = OPERAND_PLACE, .place = { .kind = PLACE_VALUE } };
	struct type target;
	uint64_t step = step_of(p, &pointer->type, &target);

	moved.type = pointer->type;
	if (pointer->type.kind == TYPE_ARRAY) {
		moved.type = (struct type){ .kind = TYPE_POINTER, .size = 8 };
		if (target.die.addr || target.base)
			type_add_pointer(&target, &moved.type);
	}
	operand_make_value(p, pointer, at);
	operand_make_number(p, number, at);
	moved.place.ops = pointer->ops;
	ops_append(&moved.place.ops, &number->ops);
	if (step != 1) {
		ops_const(&moved.place.ops, step);
		ops_add(&moved.place.ops, DT_OP_MUL, 0, 0, 0);
	}
	ops_add(&moved.place.ops, code, 0, 0, 0);
	*pointer = moved;
}

/* pointer - pointer: the number of elements between them. */
static void subtract_pointers(struct parser *p, struct operand *left, struct operand *right,
			      const char *at)
{
	struct type target;
	uint64_t step = step_of(p, &left->type, &target);

	operand_make_value(p, left, at);
	operand_make_value(p, right, at);
	ops_append(&left->ops, &right->ops);
	ops_add(&left->ops, DT_OP_SUB, 0, 0, 0);
	if (step != 1) {
		ops_const(&left->ops, step);
		ops_add(&left->ops, DT_OP_DIV, 0, 0, 0);
	}
	left->is_unsigned = false;
}

/* False: not an operation that moves a pointer. */
static bool combine_pointers(struct parser *p, const struct binary *binary, struct operand *left,
			     struct operand *right, const char *at)
{
	bool left_points = is_pointer(p, left), right_points = is_pointer(p, right);

	if ((binary->code != DT_OP_ADD && binary->code != DT_OP_SUB) ||
	    (!left_points && !right_points))
		return false;
	if (left_points && right_points && binary->code == DT_OP_SUB) {
		subtract_pointers(p, left, right, at);
	} else if (left_points && !right_points) {
		move_pointer(p, binary->code, left, right, at);
	} else if (right_points && !left_points && binary->code == DT_OP_ADD) {
		move_pointer(p, binary->code, right, left, at);
		*left = *right;
	} else {
		parser_fail(p, at, "not an operation for pointers");
	}
	return true;
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* C's usual arithmetic conversions: the larger type, or of two of one size the unsigned one. */
static void balance(struct operand *left, struct operand *right)
{
	uint8_t size = left->size > right->size ? left->size : right->size;
	bool is_unsigned = (left->size == size && left->is_unsigned) ||
			   (right->size == size && right->is_unsigned);

	operand_convert(left, size, is_unsigned);
	operand_convert(right, size, is_unsigned);
}

/* Can the result have more bits than the operands? */
static bool overflows(const struct binary *binary)
{
	return binary->code == DT_OP_ADD || binary->code == DT_OP_SUB ||
	       binary->code == DT_OP_MUL || binary->code == DT_OP_DIV || binary->code == DT_OP_SHL;
}

static void combine_numbers(const struct binary *binary, struct operand *left,
			    struct operand *right)
{
	if (binary->level != LEVEL_SHIFT)
		balance(left, right);
	ops_append(&left->ops, &right->ops);
	ops_add(&left->ops, left->is_unsigned ? binary->unsigned_code : binary->code, 0, 0, 0);
	left->is_literal = false;
	if (binary->level == LEVEL_EQUAL || binary->level == LEVEL_ORDER) {
		left->size = 4;
		left->is_unsigned = false;
	} else if (overflows(binary)) {
		operand_cut(left);
	}
}

/* Also "text" == p. False: neither side is a text. */
static bool combine_texts(struct parser *p, const struct binary *binary, struct operand *left,
			  struct operand *right, const char *at)
{
	if (left->kind == OPERAND_TEXT && right->kind == OPERAND_PLACE) {
		compare_text(p, binary, right, left->text, at);
		*left = *right;
		return true;
	}
	if (right->kind != OPERAND_TEXT)
		return false;
	compare_text(p, binary, left, right->text, at);
	return true;
}

void binary_combine(struct parser *p, const struct binary *binary, struct operand *left,
		    struct operand *right, const char *at)
{
	if (combine_texts(p, binary, left, right, at) ||
	    combine_written(p, binary, left, right, at) ||
	    combine_pointers(p, binary, left, right, at))
		return;
	if (binary->level <= 2) {
		operand_make_truth(p, left, at);
		operand_make_truth(p, right, at);
		if (!p->error)
			combine_logic(binary, left, right);
		return;
	}
	operand_make_value(p, left, at);
	operand_make_value(p, right, at);
	if (p->error)
		return;
	if (left->kind == OPERAND_REAL || right->kind == OPERAND_REAL)
		combine_reals(p, binary, left, right, at);
	else
		combine_numbers(binary, left, right);
}
