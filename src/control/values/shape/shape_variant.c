/*
 * shape_variant.c - enumerations with values in them (Rust): the variant's name, and its content.
 *
 * An event has the fields of all variants. Fields of other variants are 0: a guard, which compares
 * the tag, precedes each store.
 */
#include <string.h>

#include "shape_fields.h"

#define STORES_MAX 64
#define STEPS_MAX 1024

/*
 * The values of the tag that name a variant each. At most one variant has none of its own: where
 * the tag lies in a field of that variant, it may be anything else there.
 */
struct tag_values {
	uint64_t first, mask;
	uint64_t span; /* from the first to the last; 0: they aren't consecutive */
	bool has_rest; /* is there a variant without a value of its own? */
};

static struct tag_values find_values(const struct type *type, const struct member *tag)
{
	uint64_t mask = tag->type.size < 8 ? (1ULL << 8 * tag->type.size) - 1 : ~0ULL;
	uint64_t first = ~0ULL, last = 0, numbered = 0, others = 0;
	struct member_walk walk = { .started = false };
	struct variant variant;

	while (type_next_variant(type, &walk, &variant)) {
		uint64_t value = (uint64_t)variant.value & mask;

		if (!variant.has_value) {
			others++;
			continue;
		}
		numbered++;
		first = value < first ? value : first;
		last = value > last ? value : last;
	}
	/* rustc may leave out the number of the variant without a value */
	bool consecutive = numbered && others <= 1 && last - first <= numbered;
	return (struct tag_values){ .first = first,
				    .mask = mask,
				    .span = consecutive ? last - first + 1 : 0,
				    .has_rest = others == 1 && consecutive };
}

/* Pushes whether the tag has this value. */
static bool push_is(const struct member *tag, const struct value_place *place, uint64_t value,
		    struct value_ops *ops)
{
	if (!place_push(place, (uint32_t)tag->type.size, false, ops))
		return false;
	ops_const(ops, value);
	ops_add(ops, DT_OP_EQ, 0, 0, 0);
	return !ops->failed;
}

/* Pushes the tag's distance from the first value. */
static bool push_number(const struct member *tag, const struct tag_values *values,
			const struct value_place *place, struct value_ops *ops)
{
	if (!place_push(place, (uint32_t)tag->type.size, false, ops))
		return false;
	ops_const(ops, values->first);
	ops_add(ops, DT_OP_SUB, 0, 0, 0);
	ops_const(ops, values->mask);
	ops_add(ops, DT_OP_AND, 0, 0, 0);
	return !ops->failed;
}

/* Pushes whether the tag has none of the values. */
static bool push_is_rest(const struct member *tag, const struct tag_values *values,
			 const struct value_place *place, struct value_ops *ops)
{
	if (!push_number(tag, values, place, ops))
		return false;
	ops_const(ops, values->span);
	ops_add(ops, DT_OP_GEU, 0, 0, 0);
	return !ops->failed;
}

/* Pushes 1 for the first value, 2 for the next, 0 for none of them. */
static bool push_index(const struct member *tag, const struct tag_values *values,
		       const struct value_place *place, struct value_ops *ops)
{
	if (!push_number(tag, values, place, ops))
		return false;
	ops_add(ops, DT_OP_PICK, 0, 0, 0);
	ops_const(ops, values->span);
	ops_add(ops, DT_OP_LTU, 0, 0, 0);
	ops_add(ops, DT_OP_SWAP, 0, 0, 0);
	ops_add(ops, DT_OP_OFFSET, 0, 0, 1);
	ops_add(ops, DT_OP_MUL, 0, 0, 0);
	return !ops->failed;
}

/* Adds the variant's name: by the tag itself if each variant has a value, else by its index. */
static void add_variant_name(struct shape *shape, const struct type *type, const struct member *tag,
			     const struct tag_values *values, const struct value_place *at)
{
	struct value_place index = { .kind = PLACE_VALUE };
	struct member_walk walk = { .started = false };
	struct event_field *field;
	struct variant variant;
	bool by_tag = !values->has_rest || !push_index(tag, values, at, &index.ops);

	field = by_tag ? shape_number(shape, "variant", FIELD_ENUM, (uint8_t)tag->type.size, false,
				      at) :
			 shape_number(shape, "variant", FIELD_ENUM, values->span <= 255 ? 1 : 8,
				      false, &index);
	while (field && type_next_variant(type, &walk, &variant)) {
		uint64_t value = (uint64_t)variant.value;

		if (!by_tag)
			value = variant.has_value ? ((value - values->first) & values->mask) + 1 :
						    0;
		if (variant.member.name && (variant.has_value || !by_tag))
			shape_label(shape, field, variant.member.name, (int64_t)value);
	}
}

/* Pushes whether the tag says that it is this variant. */
static bool push_has(const struct member *tag, const struct tag_values *values,
		     const struct variant *variant, const struct value_place *at,
		     struct value_ops *ops)
{
	if (variant->has_value)
		return push_is(tag, at, (uint64_t)variant->value & values->mask, ops);
	return values->has_rest && push_is_rest(tag, values, at, ops);
}

bool value_is_variant(const struct type *type, const struct value_place *place, const char *name,
		      struct value_ops *ops)
{
	struct member_walk walk = { .started = false };
	struct tag_values values;
	struct variant variant;
	struct value_place at;
	struct member tag;

	if (!type_find_tag(type, &tag) || !value_is_number_size(tag.type.size))
		return false;
	place_member(place, tag.offset, &at);
	values = find_values(type, &tag);
	while (type_next_variant(type, &walk, &variant)) {
		if (variant.member.name && strcmp(variant.member.name, name) == 0)
			return push_has(&tag, &values, &variant, &at, ops);
	}
	return false;
}

/* Fields of other variants are 0. */
static void add_variant(struct shape *shape, const struct variant *variant,
			const struct member *tag, const struct tag_values *values,
			const struct value_place *at, const struct value_place *place,
			unsigned depth)
{
	struct value_ops guard = { .count = 0 };
	uint16_t outer = shape->guard;

	if (outer)
		ops_append(&guard, &shape->guards.items[outer - 1]);
	if (!push_has(tag, values, variant, at, &guard))
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
	struct tag_values values;
	struct variant variant;
	struct value_place at;

	place_member(place, tag->offset, &at);
	if (!value_is_number_size(tag->type.size) || !place_has(&at, (uint32_t)tag->type.size)) {
		shape_note(shape, "variant", "<optimised out>");
		return;
	}
	values = find_values(type, tag);
	add_variant_name(shape, type, tag, &values, &at);
	while (type_next_variant(type, &walk, &variant) && !shape->failed) {
		struct value_place part;

		if (shape->stores.count >= STORES_MAX || ++shape->steps > STEPS_MAX)
			return;
		place_member(place, variant.member.offset, &part);
		if (has_members(&variant.member.type))
			add_variant(shape, &variant, tag, &values, &at, &part, depth);
	}
}
