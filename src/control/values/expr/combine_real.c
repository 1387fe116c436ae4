/*
 * combine_real.c - operators of floating-point numbers.
 */
#include <string.h>

#include "operand.h"

/* ---- comparison with a literal: possible in machine code ------------------------------------- */

#define PLACE_OPS_MOST 16 /* which such a comparison needs nine times */

static bool is_float(struct operand *operand)
{
	operand_follow_reference(operand);
	return operand->kind == OPERAND_PLACE && !operand->guard.count &&
	       operand->place.ops.count <= PLACE_OPS_MOST &&
	       operand->type.kind == TYPE_FLOAT &&
	       (operand->type.size == 4 || operand->type.size == 8);
}

/*
 * An integer with the same order as the floating-point value: its bits, with the magnitude negated
 * if the sign is set (so that -0 is 0).
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
	bool found = place_push(&operand->place, size, true, ops) &&
		     place_push(&operand->place, size, true, ops);

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

/* A NaN is larger than infinity in this order, and only != is true of it. */
static void compare_order(struct parser *p, enum dt_op_code code, struct operand *left,
			  double written, const char *at)
{
	struct operand number = { .kind = OPERAND_NUMBER, .size = 4 };
	bool is_single = left->type.size == 4;

	if (!push_order(left, &number.ops))
		parser_fail(p, at, "no value at this place (optimised out)");
	ops_const(&number.ops, (uint64_t)order_of(written, is_single));
	ops_add(&number.ops, code, 0, 0, 0);
	for (int sign = -1; sign <= 1 && code != DT_OP_NE; sign += 2) {
		push_order(left, &number.ops);
		ops_const(&number.ops, (uint64_t)order_of(sign * __builtin_inf(), is_single));
		ops_add(&number.ops, sign < 0 ? DT_OP_GE : DT_OP_LE, 0, 0, 0);
		ops_add(&number.ops, DT_OP_AND, 0, 0, 0);
	}
	*left = number;
}

/* 1 < x is x > 1 */
static enum dt_op_code turned(enum dt_op_code code)
{
	return code == DT_OP_LT	  ? DT_OP_GT
	       : code == DT_OP_GT ? DT_OP_LT
	       : code == DT_OP_LE ? DT_OP_GE
	       : code == DT_OP_GE ? DT_OP_LE
				  : code;
}

/* Not for a literal that only as a single is infinite. */
static bool is_comparable(struct operand *operand, const struct operand *written)
{
	return is_float(operand) && written->is_literal &&
	       (operand->type.size == 8 || !__builtin_isinf((float)written->real) ||
		__builtin_isinf(written->real));
}

bool combine_written(struct parser *p, const struct binary *binary, struct operand *left,
		     struct operand *right, const char *at)
{
	if (binary->level != LEVEL_EQUAL && binary->level != LEVEL_ORDER)
		return false;
	if (is_comparable(left, right)) {
		compare_order(p, binary->code, left, right->real, at);
		return true;
	}
	if (!is_comparable(right, left))
		return false;
	compare_order(p, turned(binary->code), right, left->real, at);
	*left = *right;
	return true;
}

/* ---- all other operations -------------------------------------------------------------------- */

/* Computes singles as doubles and rounds the result, which equals computing with singles. */
void combine_reals(struct parser *p, const struct binary *binary, struct operand *left,
		   struct operand *right, const char *at)
{
	uint8_t size = (left->kind == OPERAND_REAL && left->size == 8) ||
				       (right->kind == OPERAND_REAL && right->size == 8) ?
			       8 :
			       4;
	bool is_comparison = binary->level == LEVEL_EQUAL || binary->level == LEVEL_ORDER;

	if (binary->real_code == DT_OP_END) {
		parser_fail(
			p, at,
			"%s takes only integers (cast it: (long)x)",
			binary->sign);
		return;
	}
	operand_make_real(left, size);
	operand_make_real(right, size);
	ops_append(&left->ops, &right->ops);
	ops_add(&left->ops, binary->real_code, 0, 0, 0);
	left->is_literal = left->is_unsigned = false;
	if (is_comparison) {
		left->kind = OPERAND_NUMBER;
		left->size = 4;
	} else if (size == 4) {
		ops_add(&left->ops, DT_OP_REAL_NARROW, 0, 0, 0);
		ops_add(&left->ops, DT_OP_REAL_WIDEN, 4, 0, 0);
	}
}
