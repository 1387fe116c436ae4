#include "operand.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "../base/cleanup.h"

/* ---- errors --------------------------------------------------------------------------------------- */

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

/* ---- operands ------------------------------------------------------------------------------------------ */

void operand_set_number(struct operand *operand, uint64_t value, bool is_unsigned)
{
	*operand = (struct operand){ .kind = OPERAND_NUMBER, .is_unsigned = is_unsigned };
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

void operand_make_number(struct parser *p, struct operand *operand, const char *at)
{
	struct operand number = { .kind = OPERAND_NUMBER };
	const struct type *type = &operand->type;
	bool found;

	operand_follow_reference(operand);
	if (p->error || operand->kind == OPERAND_NUMBER)
		return;
	if (operand->kind == OPERAND_TEXT || operand->kind == OPERAND_REAL) {
		parser_fail(p, at, operand->kind == OPERAND_TEXT ?
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
		parser_fail(p, at, "a floating-point value can only be compared with a number");
		return;
	default:
		parser_fail(p, at, "this isn't a number: name one of its members");
		return;
	}
	if (!found)
		parser_fail(p, at, "it isn't anywhere at this place (optimised out)");
	number.is_unsigned = !type->is_signed;
	if (type->size < 8)
		number.is_unsigned = false; /* it fits a signed one */
	*operand = number;
}

/* ---- members, indices ---------------------------------------------------------------------------------------- */

void operand_dereference(struct parser *p, struct operand *operand, const char *at)
{
	struct value_place behind;
	struct type target;

	operand_follow_reference(operand);
	if (operand->kind != OPERAND_PLACE ||
	    (operand->type.kind != TYPE_POINTER && operand->type.kind != TYPE_ARRAY)) {
		parser_fail(p, at, "this isn't a pointer");
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

void operand_select_member(struct parser *p, struct operand *operand, const char *name, const char *at)
{
	struct value_place part;
	struct member member;

	operand_follow_reference(operand);
	if (p->names->debug)
		type_complete(p->names->debug, &operand->type);
	if (operand->kind != OPERAND_PLACE || !type_find_member(&operand->type, name, &member)) {
		parser_fail(p, at, "%s has no member '%s'",
			    operand->type.name ? operand->type.name : "what stands before this", name);
		return;
	}
	place_member(&operand->place, member.offset, &part);
	if (member.bit_size) {
		struct operand number = { .kind = OPERAND_NUMBER };
		uint32_t bytes = (member.bit_offset + member.bit_size + 7) / 8;

		if (!place_push(&part, bytes, false, &number.ops))
			parser_fail(p, at, "it isn't anywhere at this place (optimised out)");
		ops_add(&number.ops, DT_OP_BITS, (uint8_t)member.bit_offset, (uint16_t)member.bit_size,
			member.type.is_signed);
		*operand = number;
		return;
	}
	operand->place = part;
	operand->type = member.type;
}

void operand_select_element(struct parser *p, struct operand *operand, const struct operand *index, const char *at)
{
	struct value_place place = { .kind = PLACE_MEMORY };

	operand_dereference(p, operand, at);
	if (p->error)
		return;
	if (operand->type.size == 0 || operand->type.size > INT32_MAX ||
	    !place_push_address(&operand->place, &place.ops)) {
		parser_fail(p, at, "its elements can't be found");
		return;
	}
	ops_append(&place.ops, &index->ops);
	ops_const(&place.ops, operand->type.size);
	ops_add(&place.ops, DT_OP_MUL, 0, 0, 0);
	ops_add(&place.ops, DT_OP_ADD, 0, 0, 0);
	operand->place = place;
}
