/* value_place.c - loads values from their places. */
#include <string.h>

#include "value_place.h"

#define HW_RSP 4

void place_from_abi(const struct abi_value *abi, struct value_place *ret_place)
{
	struct value_place place = { .kind = PLACE_GONE };

	if (abi->is_known && abi->count) {
		place.kind = PLACE_PIECES;
		place.count = abi->count;
		memcpy(place.pieces, abi->pieces, sizeof(abi->pieces));
	}
	if (abi->is_known && abi->is_behind)
		place_behind(&place, ret_place);
	else
		*ret_place = place;
}

static void member_of_pieces(const struct value_place *place, uint64_t offset,
			     struct value_place *ret_place)
{
	struct value_place part = { .kind = PLACE_PIECES };

	for (size_t i = 0; i < place->count; i++) {
		struct abi_piece piece = place->pieces[i];
		uint32_t skip;

		if (piece.offset + piece.size <= offset)
			continue;
		skip = offset > piece.offset ? (uint32_t)offset - piece.offset : 0;
		/* In a register, disp counts from its first byte. */
		piece.disp += (int32_t)skip;
		piece.offset += skip;
		piece.size -= skip;
		piece.offset -= (uint32_t)offset;
		part.pieces[part.count++] = piece;
	}
	if (part.count == 0)
		part.kind = PLACE_GONE;
	*ret_place = part;
}

void place_member(const struct value_place *place, uint64_t offset, struct value_place *ret_place)
{
	struct value_place part = *place;

	switch (place->kind) {
	case PLACE_PIECES:
		member_of_pieces(place, offset, ret_place);
		return;
	case PLACE_MEMORY:
		if (offset > INT32_MAX)
			part.kind = PLACE_GONE;
		else if (offset)
			ops_add(&part.ops, DT_OP_OFFSET, 0, 0, (uint32_t)offset);
		break;
	case PLACE_VALUE:
		if (offset >= 8)
			part.kind = PLACE_GONE;
		else if (offset)
			ops_add(&part.ops, DT_OP_BITS, (uint8_t)(offset * 8), 0, 0);
		break;
	default:
		break;
	}
	*ret_place = part;
}

/* The piece that holds the first `size` bytes; NULL: not in one piece. */
static const struct abi_piece *whole_piece(const struct value_place *place, uint32_t size)
{
	for (size_t i = 0; i < place->count; i++) {
		if (place->pieces[i].offset == 0 && place->pieces[i].size >= size)
			return &place->pieces[i];
	}
	return NULL;
}

/* The piece that holds byte `at`; NULL: none. */
static const struct abi_piece *piece_at(const struct value_place *place, uint32_t at)
{
	for (size_t i = 0; i < place->count; i++) {
		const struct abi_piece *piece = &place->pieces[i];

		if (piece->where != ABI_X87 && at >= piece->offset &&
		    at - piece->offset < piece->size)
			return piece;
	}
	return NULL;
}

bool place_has(const struct value_place *place, uint32_t size)
{
	const struct abi_piece *piece;

	if (place->kind != PLACE_PIECES)
		return place->kind != PLACE_GONE;
	if (whole_piece(place, size))
		return true;
	for (uint32_t at = 0; at < size && size <= 8; at = piece->offset + piece->size) {
		piece = piece_at(place, at);
		if (!piece)
			return false;
	}
	return size <= 8;
}

static bool push_piece(const struct abi_piece *piece, uint32_t size, bool is_signed,
		       struct value_ops *ops)
{
	uint32_t skip = (uint32_t)piece->disp;

	switch (piece->where) {
	case ABI_INT:
		ops_add(ops, DT_OP_REG, piece->reg, 0, 0);
		break;
	case ABI_SSE:
		ops_add(ops, DT_OP_XMM, piece->reg, (uint16_t)(skip / 8), 0);
		skip %= 8;
		break;
	case ABI_KEPT:
		ops_add(ops, DT_OP_KEPT, (uint8_t)(piece->reg + skip / 8), 0, 0);
		skip %= 8;
		break;
	case ABI_CONSTANT:
		ops_const(ops, piece->value);
		break;
	case ABI_STACK:
		ops_add(ops, DT_OP_REG, HW_RSP, 0, 0);
		ops_add(ops, DT_OP_OFFSET, 0, 0, (uint32_t)piece->disp);
		ops_add(ops, DT_OP_LOAD, (uint8_t)size, is_signed, 0);
		return true;
	default:
		return false;
	}
	if (skip || size < 8)
		ops_add(ops, DT_OP_BITS, (uint8_t)(skip * 8), (uint16_t)(size * 8), is_signed);
	return true;
}

/* Pushes a value across several pieces: a member of a packed struct. */
static bool push_parts(const struct value_place *place, uint32_t size, bool is_signed,
		       struct value_ops *ops)
{
	if (!place_has(place, size))
		return false;
	for (uint32_t at = 0, count; at < size; at += count) {
		struct abi_piece piece = *piece_at(place, at);
		uint32_t skip = at - piece.offset;

		count = piece.size - skip < size - at ? piece.size - skip : size - at;
		piece.disp += (int32_t)skip;
		if (!push_piece(&piece, count, false, ops))
			return false;
		if (!at)
			continue;
		ops_const(ops, at * 8ULL);
		ops_add(ops, DT_OP_SHL, 0, 0, 0);
		ops_add(ops, DT_OP_OR, 0, 0, 0);
	}
	if (size < 8)
		ops_add(ops, DT_OP_BITS, 0, (uint16_t)(size * 8), is_signed);
	return true;
}

bool place_push(const struct value_place *place, uint32_t size, bool is_signed,
		struct value_ops *ops)
{
	const struct abi_piece *piece;

	if (size == 0 || size > 8)
		return false;
	switch (place->kind) {
	case PLACE_PIECES:
		piece = whole_piece(place, size);
		return piece ? push_piece(piece, size, is_signed, ops) :
			       push_parts(place, size, is_signed, ops);
	case PLACE_MEMORY:
		ops_append(ops, &place->ops);
		ops_add(ops, DT_OP_LOAD, (uint8_t)size, is_signed, 0);
		return true;
	case PLACE_VALUE:
		ops_append(ops, &place->ops);
		if (size < 8)
			ops_add(ops, DT_OP_BITS, 0, (uint16_t)(size * 8), is_signed);
		return true;
	default:
		return false;
	}
}

bool place_push_address(const struct value_place *place, struct value_ops *ops)
{
	if (place->kind == PLACE_MEMORY) {
		ops_append(ops, &place->ops);
		return true;
	}
	if (place->kind == PLACE_PIECES && place->count == 1 &&
	    place->pieces[0].where == ABI_STACK) {
		ops_add(ops, DT_OP_REG, HW_RSP, 0, 0);
		ops_add(ops, DT_OP_OFFSET, 0, 0, (uint32_t)place->pieces[0].disp);
		return true;
	}
	if (place->kind == PLACE_PIECES && place->pieces[0].where == ABI_X87 &&
	    place->pieces[0].offset == 0) {
		ops_add(ops, DT_OP_REG, (uint8_t)(DT_REG_ST0 + place->pieces[0].reg), 0, 0);
		return true;
	}
	return false;
}

void place_behind(const struct value_place *place, struct value_place *ret_place)
{
	struct value_place behind = { .kind = PLACE_MEMORY };

	if (!place_push(place, 8, false, &behind.ops))
		behind.kind = PLACE_GONE;
	*ret_place = behind;
}

static bool is_duration(const struct value_place *place)
{
	return place->kind == PLACE_VALUE && place->ops.count == 1 &&
	       place->ops.items[0].code == DT_OP_REG && place->ops.items[0].a == DT_REG_DURATION;
}

bool place_native(const struct value_place *place, uint32_t size, struct tramp_field *ret_field)
{
	const struct abi_piece *piece =
		place->kind == PLACE_PIECES ? whole_piece(place, size > 16 ? 16 : size) : NULL;
	struct tramp_field field = { .size = (uint8_t)size };

	if (is_duration(place)) {
		*ret_field = (struct tramp_field){ .source = SOURCE_DURATION, .size = 8 };
		return true;
	}
	if (!piece)
		return false;
	switch (piece->where) {
	case ABI_INT:
		field.source = SOURCE_REGISTER;
		field.shift = (uint8_t)(piece->disp * 8);
		break;
	case ABI_SSE:
		field.source = SOURCE_XMM;
		/* One instruction stores only from the register's first byte on. */
		if (piece->disp || (size != 4 && size != 8 && size != 16))
			return false;
		break;
	case ABI_STACK:
		field.source = SOURCE_STACK;
		field.disp = piece->disp;
		break;
	default:
		return false;
	}
	field.reg = (enum reg)piece->reg;
	*ret_field = field;
	return true;
}

/* All 128 bits count; a long double has 80. */
bool value_is_quadruple(const struct type *type)
{
	return type->size == 16 && type->name && strstr(type->name, "128");
}

bool value_real(const struct type *type, const struct value_place *place, struct value_ops *ops)
{
	bool is_brain = type->name && strstr(type->name, "bf"); /* __bf16, std::bfloat16_t */

	switch (type->size) {
	case 2:
	case 4:
		if (!place_push(place, (uint32_t)type->size, false, ops))
			return false;
		ops_add(ops, DT_OP_REAL_WIDEN, is_brain ? 3 : (uint8_t)type->size, 0, 0);
		return true;
	case 8:
		return place_push(place, 8, false, ops);
	default:
		if (value_is_quadruple(type) || !place_push_address(place, ops))
			return false;
		ops_add(ops, DT_OP_REAL_LOAD, 0, 0, 0);
		return true;
	}
}
