/*
 * shape_variant.c - enumerations with values in them (Rust): the variant's name, and its content.
 *
 * An event has the fields of all variants. Fields of other variants are 0: a guard, which compares
 * the tag, precedes each store.
 */
#include "shape_fields.h"

#define STORES_MAX 64
#define STEPS_MAX 1024

/* Counts variants with a value of the tag, and variants without. */
static void count_variants(const struct type *type, size_t *ret_numbered, int64_t *ret_last,
			   size_t *ret_others)
{
	struct member_walk walk = { .started = false };
	struct variant variant;

	*ret_numbered = *ret_others = 0;
	while (type_next_variant(type, &walk, &variant)) {
		++*(variant.has_value ? ret_numbered : ret_others);
		if (variant.has_value)
			*ret_last = variant.value;
	}
}

/* Pushes whether the tag has this value. */
static bool push_is(const struct member *tag, const struct value_place *place, int64_t value,
		    bool is_equal, struct value_ops *ops)
{
	uint64_t mask = tag->type.size < 8 ? (1ULL << 8 * tag->type.size) - 1 : ~0ULL;

	if (!place_push(place, (uint32_t)tag->type.size, false, ops))
		return false;
	ops_const(ops, (uint64_t)value & mask);
	ops_add(ops, is_equal ? DT_OP_EQ : DT_OP_NE, 0, 0, 0);
	return !ops->failed;
}

/* The variant's name: by the tag; of two variants with the tag inside one, by whether it is the
 * other. */
static void add_variant_name(struct shape *shape, const struct type *type, const struct member *tag,
			     const struct value_place *at)
{
	struct value_place is_other = { .kind = PLACE_VALUE };
	struct member_walk walk = { .started = false };
	size_t numbered, others;
	struct event_field *field;
	struct variant variant;
	int64_t last = 0;
	bool by_tag;

	count_variants(type, &numbered, &last, &others);
	by_tag = numbered != 1 || others != 1 || !push_is(tag, at, last, true, &is_other.ops);
	field = by_tag ? shape_number(shape, "variant", FIELD_ENUM, (uint8_t)tag->type.size, false,
				      at) :
			 shape_number(shape, "variant", FIELD_ENUM, 1, false, &is_other);
	while (field && type_next_variant(type, &walk, &variant)) {
		if (variant.member.name && (variant.has_value || !by_tag))
			shape_label(shape, field, variant.member.name,
				    by_tag ? variant.value : variant.has_value);
	}
}

/* Fields of other variants are 0. */
static void add_variant(struct shape *shape, const struct type *type, const struct variant *variant,
			const struct member *tag, const struct value_place *at,
			const struct value_place *place, unsigned depth)
{
	struct value_ops guard = { .count = 0 };
	uint16_t outer = shape->guard;
	size_t numbered, others;
	int64_t last = 0;

	count_variants(type, &numbered, &last, &others);
	if (outer)
		ops_append(&guard, &shape->guards.items[outer - 1]);
	if ((!variant->has_value && (numbered != 1 || others != 1)) ||
	    !push_is(tag, at, variant->has_value ? variant->value : last, variant->has_value,
		     &guard))
		return;
	if (outer)
		ops_add(&guard, DT_OP_AND, 0, 0, 0);
	if (!vec_push(&shape->guards, guard)) {
		shape->failed = true;
		return;
	}
	shape->guard = (uint16_t)shape->guards.count;
	shape->is_gathered = true;
	shape_value(shape, variant->member.name ? variant->member.name : "value",
		    &variant->member.type, place, depth + 1);
	shape->guard = outer;
}

static bool has_members(const struct type *type)
{
	struct member_walk walk = { .started = false };
	struct member member;

	while (type_next_member(type, &walk, &member)) {
		if (member.type.size)
			return true;
	}
	return false;
}

void shape_variants(struct shape *shape, const struct type *type, const struct member *tag,
		    const struct value_place *place, unsigned depth)
{
	struct member_walk walk = { .started = false };
	struct variant variant;
	struct value_place at;

	place_member(place, tag->offset, &at);
	if (!value_is_number_size(tag->type.size) || !place_has(&at, (uint32_t)tag->type.size)) {
		shape_note(shape, "variant", "<optimised out>");
		return;
	}
	add_variant_name(shape, type, tag, &at);
	while (type_next_variant(type, &walk, &variant) && !shape->failed) {
		struct value_place part;

		if (shape->stores.count >= STORES_MAX || ++shape->steps > STEPS_MAX)
			return;
		place_member(place, variant.member.offset, &part);
		if (has_members(&variant.member.type))
			add_variant(shape, type, &variant, tag, &at, &part, depth);
	}
}
