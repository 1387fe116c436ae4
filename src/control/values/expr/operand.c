/* operand.c - from places to numbers; members and indices. */
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
	if (p->error || operand->kind == OPERAND_NUMBER || operand->kind == OPERAND_REAL)
		return;
	if (operand->kind == OPERAND_TEXT)
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

/* ---- members, indices ------------------------------------------------------------------------ */

void operand_dereference(struct parser *p, struct operand *operand, const char *at)
{
	struct value_place behind;
	struct type target;

	operand_follow_reference(operand);
	if (operand->kind != OPERAND_PLACE ||
	    (operand->type.kind != TYPE_POINTER && operand->type.kind != TYPE_ARRAY)) {
		parser_fail(p, at, "not a pointer");
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

void operand_select_member(struct parser *p, struct operand *operand, const char *name,
			   const char *at)
{
	struct value_place part;
	struct member member;

	operand_follow_reference(operand);
	if (p->names->debug)
		type_complete(p->names->debug, &operand->type);
	if (operand->kind != OPERAND_PLACE || !type_find_member(&operand->type, name, &member)) {
		parser_fail(p, at, "%s has no member '%s'",
			    operand->type.name ? operand->type.name : "the value before it",
			    name);
		return;
	}
	place_member(&operand->place, member.offset, &part);
	if (member.bit_size) {
		struct operand number = { .kind = OPERAND_NUMBER };
		uint32_t bytes = (member.bit_offset + member.bit_size + 7) / 8;

		if (!place_push(&part, bytes, false, &number.ops))
			parser_fail(p, at, "no value at this place (optimised out)");
		ops_add(&number.ops, DT_OP_BITS, (uint8_t)member.bit_offset,
			(uint16_t)member.bit_size, member.type.is_signed);
		number.size = member.bit_size > 32 ? 8 : 4;
		number.is_unsigned = !member.type.is_signed && member.bit_size >= 32;
		*operand = number;
		return;
	}
	operand->place = part;
	operand->type = member.type;
}

void operand_select_element(struct parser *p, struct operand *operand, struct operand *index,
			    const char *at)
{
	struct value_place place = { .kind = PLACE_MEMORY };

	operand_dereference(p, operand, at);
	operand_make_number(p, index, at);
	if (p->error)
		return;
	if (operand->type.size == 0 || operand->type.size > INT32_MAX ||
	    !place_push_address(&operand->place, &place.ops)) {
		parser_fail(p, at, "cannot find its elements");
		return;
	}
	ops_append(&place.ops, &index->ops);
	ops_const(&place.ops, operand->type.size);
	ops_add(&place.ops, DT_OP_MUL, 0, 0, 0);
	ops_add(&place.ops, DT_OP_ADD, 0, 0, 0);
	operand->place = place;
}

void operand_take_address(struct parser *p, struct operand *operand, const char *at)
{
	struct value_place address = { .kind = PLACE_VALUE };
	struct type pointer;

	operand_follow_reference(operand);
	if (p->error)
		return;
	if (operand->kind != OPERAND_PLACE || (!operand->type.die.addr && !operand->type.base) ||
	    !place_push_address(&operand->place, &address.ops)) {
		parser_fail(p, at, "no address: a number, or in a register");
		return;
	}
	type_add_pointer(&operand->type, &pointer);
	operand->type = pointer;
	operand->place = address;
}
