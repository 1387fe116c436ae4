/* operand_member.c - members, indices, targets of pointers. */
#include <string.h>

#include "operand.h"

#define FOLLOWED_MAX 4 /* pointers to pointers that a member is searched behind */

/* Completes a struct, behind references. False: the operand is none, or can't be looked into. */
static bool complete_struct(struct parser *p, struct operand *operand)
{
	operand_follow_reference(operand);
	if (operand->kind != OPERAND_PLACE || operand->type.kind != TYPE_STRUCT ||
	    !p->names->debug)
		return false;
	type_complete(p->names->debug, &operand->type);
	return true;
}

bool operand_follow_holder(struct parser *p, struct operand *operand)
{
	struct value_place pointer;
	struct type target;

	if (!complete_struct(p, operand) ||
	    !value_points(&operand->type, &operand->place, p->names->debug, &target, &pointer))
		return false;
	type_add_pointer(&target, &operand->type);
	operand->place = pointer;
	return true;
}

/* Replaces an optional by its value; false: it is none. */
static bool open_optional(struct operand *operand)
{
	struct value_ops guard = { .count = 0 };
	struct value_place value, has;
	struct type type;

	if (operand->kind != OPERAND_PLACE || operand->type.kind != TYPE_STRUCT ||
	    !value_optional(&operand->type, &operand->place, &type, &value, &has) ||
	    !place_push(&has, 1, false, &guard))
		return false;
	operand_guard(operand, &guard);
	operand->type = type;
	operand->place = value;
	return true;
}

static bool points(struct parser *p, struct operand *operand)
{
	return operand_follow_holder(p, operand) ||
	       (operand->kind == OPERAND_PLACE && operand->type.kind == TYPE_POINTER);
}

void operand_dereference(struct parser *p, struct operand *operand, const char *at)
{
	struct value_place behind;
	struct type target;

	operand_follow_reference(operand);
	if (p->names->debug && operand->kind == OPERAND_PLACE)
		type_complete(p->names->debug, &operand->type);
	if (open_optional(operand))
		return;
	if (!points(p, operand) &&
	    (operand->kind != OPERAND_PLACE || operand->type.kind != TYPE_ARRAY)) {
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

static void select_bits(struct parser *p, struct operand *operand, const struct member *member,
			const struct value_place *part, const char *at)
{
	struct operand number = { .kind = OPERAND_NUMBER };
	uint32_t bytes = (member->bit_offset + member->bit_size + 7) / 8;

	if (!place_push(part, bytes, false, &number.ops))
		parser_fail(p, at, "no value at this place (optimised out)");
	ops_add(&number.ops, DT_OP_BITS, (uint8_t)member->bit_offset, (uint16_t)member->bit_size,
		member->type.is_signed);
	operand_guard_ops(operand, &number.ops);
	number.size = member->bit_size > 32 ? 8 : 4;
	number.is_unsigned = !member->type.is_signed && member->bit_size >= 32;
	*operand = number;
}

/* A member by the name that it has in events, of a type that has no such member itself. */
static bool select_shown(struct parser *p, struct operand *operand, const char *name)
{
	struct operand number = { .kind = OPERAND_NUMBER, .size = 8, .is_unsigned = true };
	struct value_place value, has;
	struct member tag;
	struct type type;

	if (operand->type.kind != TYPE_STRUCT)
		return false;
	if (strcmp(name, "variant") == 0 && type_find_tag(&operand->type, &tag)) {
		operand->is_variant_name = true;
		return true;
	}
	if (strcmp(name, "value") == 0)
		return open_optional(operand);
	if (strcmp(name, "has_value") == 0 &&
	    value_optional(&operand->type, &operand->place, &type, &value, &has)) {
		operand->type = (struct type){ .kind = TYPE_BOOL, .size = 1, .name = "bool" };
		operand->place = has;
		return true;
	}
	if (strcmp(name, "size") != 0 ||
	    !value_count(&operand->type, &operand->place, p->names->debug, &number.ops))
		return false;
	operand_guard_ops(operand, &number.ops);
	*operand = number;
	return true;
}

static void select_found(struct parser *p, struct operand *operand, const struct member *member,
			 const char *at)
{
	struct value_ops guard = { .count = 0 };
	struct value_place part;

	/* other variants have other values at the same place */
	if (member->name &&
	    value_is_variant(&operand->type, &operand->place, member->name, &guard))
		operand_guard(operand, &guard);
	place_member(&operand->place, member->offset, &part);
	if (member->bit_size) {
		select_bits(p, operand, member, &part, at);
		return;
	}
	operand->place = part;
	operand->type = member->type;
}

/* Rust's a.b follows pointers, and C++'s a->b has been made a.b. */
void operand_select_member(struct parser *p, struct operand *operand, const char *name,
			   const char *at)
{
	struct member member;
	struct operand whole;

	operand_follow_reference(operand);
	whole = *operand;
	for (unsigned i = 0; operand->kind == OPERAND_PLACE && i < FOLLOWED_MAX; i++) {
		if (p->names->debug)
			type_complete(p->names->debug, &operand->type);
		if (type_find_member(&operand->type, name, &member)) {
			select_found(p, operand, &member, at);
			return;
		}
		if (select_shown(p, operand, name))
			return;
		if (!points(p, operand))
			break;
		operand_dereference(p, operand, at);
	}
	parser_fail(p, at, "%s has no member '%s'",
		    whole.type.name ? whole.type.name : "the value before it", name);
}

/* The pointer and the number of a container's elements; false: none, or not in a row. */
static bool select_in_container(struct parser *p, struct operand *operand, struct operand *index,
				const char *at)
{
	struct value_place place = { .kind = PLACE_MEMORY };
	struct type element;

	if (!complete_struct(p, operand))
		return false;
	operand_make_number(p, index, at);
	if (p->error)
		return true;
	ops_append(&place.ops, &index->ops);
	if (!value_element(&operand->type, &operand->place, p->names->debug, &place.ops, &element))
		return false;
	operand->type = element;
	operand->place = place;
	return true;
}

/* An element by a written number, wherever the array is: maybe in registers. */
static bool select_written(struct operand *operand, const struct operand *index)
{
	struct value_place part;

	if (!index->is_literal || index->kind != OPERAND_NUMBER || index->value > INT32_MAX)
		return false;
	place_member(&operand->place, index->value * operand->type.size, &part);
	if (!place_has(&part, (uint32_t)operand->type.size))
		return false;
	operand->place = part;
	return true;
}

void operand_select_element(struct parser *p, struct operand *operand, struct operand *index,
			    const char *at)
{
	struct value_place place = { .kind = PLACE_MEMORY };

	if (select_in_container(p, operand, index, at))
		return;
	if (operand->kind == OPERAND_PLACE && operand->type.kind == TYPE_STRUCT &&
	    !points(p, operand)) {
		parser_fail(p, at, "not a pointer, and no elements in a row");
		return;
	}
	operand_dereference(p, operand, at);
	if (p->error || operand->type.size == 0 || operand->type.size > INT32_MAX) {
		parser_fail(p, at, "its elements have no size");
		return;
	}
	if (operand->place.kind == PLACE_PIECES && select_written(operand, index))
		return;
	operand_make_number(p, index, at);
	if (p->error)
		return;
	if (!place_push_address(&operand->place, &place.ops)) {
		parser_fail(p, at,
			    index->is_literal ? "no such element" :
						"in registers: an index has to be a number here");
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
