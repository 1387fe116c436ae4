/* operand.c - from places to numbers. */
#include "operand.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "control/base/cleanup.h"

/* ---- errors ---------------------------------------------------------------------------------- */

void parser_fail(struct parser *p, const char *at, const char *format, ...)
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

/* ---- operands -------------------------------------------------------------------------------- */

void operand_set_number(struct operand *operand, uint64_t value, uint8_t size, bool is_unsigned)
{
	*operand = (struct operand){ .kind = OPERAND_NUMBER,
				     .size = size,
				     .is_unsigned = is_unsigned };
	ops_const(&operand->ops, value);
}

void operand_follow_reference(struct operand *operand)
{
	struct value_place behind;

	if (operand->kind != OPERAND_PLACE || operand->type.kind != TYPE_REFERENCE)
		return;
	place_behind(&operand->place, &behind);
	type_target(&operand->type, &operand->type);
	operand->place = behind;
}

void operand_guard_ops(const struct operand *place, struct value_ops *ops)
{
	struct value_ops all = place->guard;

	if (!all.count)
		return;
	ops_add(&all, DT_OP_SKIP_ZERO, 0, 0, (uint32_t)ops->count + 1);
	ops_append(&all, ops);
	ops_add(&all, DT_OP_SKIP, 0, 0, 2);
	ops_const(&all, 0);
	*ops = all;
}

void operand_guard(struct operand *operand, const struct value_ops *guard)
{
	struct value_ops both = *guard;

	operand_guard_ops(operand, &both);
	operand->guard = both;
}

void operand_guard_place(struct operand *operand)
{
	struct value_place place = { .kind = operand->place.kind };

	if (!operand->guard.count)
		return;
	ops_append(&place.ops, &operand->guard);
	ops_add(&place.ops, DT_OP_CHECK, 0, 0, 0);
	if (place.kind == PLACE_PIECES) {
		uint64_t size = operand->type.size;

		place.kind = PLACE_VALUE;
		if (size > 8 || !place_push(&operand->place, (uint32_t)size, false, &place.ops))
			return;
	} else {
		ops_append(&place.ops, &operand->place.ops);
	}
	operand->place = place;
}

/* Loads an integer of any size: those smaller than an int become ints. */
static bool load_number(const struct operand *operand, struct operand *ret)
{
	const struct type *type = &operand->type;

	ret->size = type->size > 4 ? 8 : 4;
	ret->is_unsigned = !type->is_signed && type->size >= 4;
	return place_push(&operand->place, (uint32_t)type->size, type->is_signed, &ret->ops);
}

static bool load_real(const struct operand *operand, struct operand *ret)
{
	ret->kind = OPERAND_REAL;
	ret->size = operand->type.size <= 4 ? 4 : 8;
	return value_real(&operand->type, &operand->place, &ret->ops);
}

void operand_make_value(struct parser *p, struct operand *operand, const char *at)
{
	struct operand number = { .kind = OPERAND_NUMBER, .size = 8, .is_unsigned = true };
	const struct type *type = &operand->type;
	bool found = false;

	operand_follow_reference(operand);
	operand_follow_holder(p, operand);
	if (p->error || operand->kind == OPERAND_NUMBER || operand->kind == OPERAND_REAL)
		return;
	if (operand->is_variant_name)
		parser_fail(p, at, "a variant is compared with its name (== \"Some\")");
	else if (operand->kind == OPERAND_TEXT)
		parser_fail(p, at, "strings can be compared with == and != only");
	else if (type->kind == TYPE_ARRAY)
		found = place_push_address(&operand->place, &number.ops);
	else if (type->kind == TYPE_FLOAT && !value_is_quadruple(type))
		found = load_real(operand, &number);
	else if (type->kind != TYPE_INT && type->kind != TYPE_BOOL && type->kind != TYPE_CHAR &&
		 type->kind != TYPE_ENUM && type->kind != TYPE_POINTER)
		parser_fail(p, at,
			    type->kind == TYPE_FLOAT ?
				    "more bits than a double has" :
				    "not a number (name one of its members)");
	else if (type->size > 8)
		parser_fail(p, at, "more than 64 bits");
	else
		found = load_number(operand, &number);
	if (!found)
		parser_fail(p, at, "no value at this place (optimised out)");
	operand_guard_ops(operand, &number.ops);
	*operand = number;
}

void operand_make_number(struct parser *p, struct operand *operand, const char *at)
{
	operand_make_value(p, operand, at);
	if (operand->kind == OPERAND_REAL)
		parser_fail(
			p, at,
			"only integers are allowed here (cast it: (long)x)");
}

void operand_make_truth(struct parser *p, struct operand *operand, const char *at)
{
	operand_make_value(p, operand, at);
	if (operand->kind != OPERAND_REAL)
		return;
	ops_const(&operand->ops, 0);
	ops_add(&operand->ops, DT_OP_REAL_NE, 0, 0, 0);
	operand->kind = OPERAND_NUMBER;
	operand->size = 4;
	operand->is_unsigned = operand->is_literal = false;
}

void operand_cut(struct operand *operand)
{
	if (operand->kind == OPERAND_NUMBER && operand->size == 4)
		ops_add(&operand->ops, DT_OP_BITS, 0, 32, !operand->is_unsigned);
}

/* A literal gets a new constant instead of an operation. */
void operand_convert(struct operand *operand, uint8_t size, bool is_unsigned)
{
	bool is_same = operand->size == size && operand->is_unsigned == is_unsigned;

	if (operand->kind != OPERAND_NUMBER || is_same)
		return;
	operand->size = size;
	operand->is_unsigned = is_unsigned;
	if (size == 8)
		return; /* already extended */
	if (operand->is_literal) {
		uint32_t low = (uint32_t)operand->value;

		operand_set_number(operand, is_unsigned ? low : (uint64_t)(int64_t)(int32_t)low,
				   size, is_unsigned);
		return;
	}
	operand_cut(operand);
}

void operand_make_real(struct operand *operand, uint8_t size)
{
	if (operand->kind == OPERAND_NUMBER)
		ops_add(&operand->ops, DT_OP_REAL_FROM, operand->is_unsigned, size == 4, 0);
	operand->kind = OPERAND_REAL;
	operand->size = size;
	operand->is_literal = false;
}
