/* abi_rust.c - one number, two numbers, or something else. */
#include "abi_rust.h"

#define NUMBERS_MAX 3 /* only one, two or more matter */
#define DEPTH_MAX 16
#define STEPS_MAX 2000

struct numbers {
	struct rust_number items[NUMBERS_MAX];
	size_t count; /* NUMBERS_MAX means that or more */
	bool is_other; /* an array: never a number or a pair */
	bool is_unknown;
	unsigned steps;
};

static void collect(const struct type *type, uint64_t offset, unsigned depth,
		    struct numbers *numbers);

static void add_number(struct numbers *numbers, const struct type *type, uint64_t offset)
{
	bool is_pointer = type->kind == TYPE_POINTER || type->kind == TYPE_REFERENCE;

	if (type->kind < TYPE_INT || type->kind > TYPE_REFERENCE || type->kind == TYPE_COMPLEX ||
	    type->size > 8)
		numbers->is_unknown = true;
	else if (numbers->count < NUMBERS_MAX)
		numbers->items[numbers->count++] =
			(struct rust_number){ offset, type->size,
					      type->kind == TYPE_FLOAT ? TYPE_FLOAT :
					      is_pointer	       ? TYPE_POINTER :
									 TYPE_INT };
}

/* ---- enumerations with values in them -------------------------------------------------------- */

/* If every variant with content has one number, of the same kind and at the same place, the
 * enumeration has that number. */
static void merge_variant(const struct numbers *variant, struct numbers *common)
{
	const struct rust_number *a = &common->items[0], *b = &variant->items[0];

	common->is_unknown |= variant->is_unknown;
	if (variant->count == 0 && !variant->is_other)
		return;
	if (variant->is_other || variant->count != 1) {
		common->is_other = true;
	} else if (common->count == 0) {
		common->items[common->count++] = *b;
	} else if (a->offset != b->offset || a->size != b->size ||
		   (a->kind == TYPE_FLOAT) != (b->kind == TYPE_FLOAT)) {
		common->is_other = true;
	} else {
		/* a pointer and an integer: compilers differ */
		common->is_unknown |= a->kind != b->kind;
	}
}

/* The tag is a number of its own, or a value of the content that no other variant has. */
static void collect_variants(const struct type *type, uint64_t offset, unsigned depth,
			     struct numbers *numbers)
{
	struct numbers common = { .steps = numbers->steps }, whole = { .count = 0 };
	struct member_walk walk = { .started = false };
	size_t unnumbered = 0, filled = 0;
	struct variant variant;
	struct member tag;

	if (!type_find_tag(type, &tag)) {
		numbers->is_unknown = true;
		return;
	}
	while (type_next_variant(type, &walk, &variant)) {
		struct numbers one = { .steps = common.steps };

		collect(&variant.member.type, offset + variant.member.offset, depth + 1, &one);
		common.steps = one.steps;
		filled += one.count || one.is_other;
		if (variant.has_value) {
			merge_variant(&one, &common);
		} else {
			whole = one;
			unnumbered++;
		}
	}
	numbers->steps = common.steps;
	if (unnumbered == 1 && filled <= 1) { /* the tag is in the content */
		*numbers = whole;
	} else if (unnumbered) {
		numbers->is_unknown = true;
	} else {
		*numbers = common;
		numbers->is_other |= numbers->count > 1;
		add_number(numbers, &tag.type, offset + tag.offset);
	}
}

/* ---- values ---------------------------------------------------------------------------------- */

static void collect(const struct type *type, uint64_t offset, unsigned depth,
		    struct numbers *numbers)
{
	struct member_walk walk = { .started = false };
	struct member member;

	if (depth > DEPTH_MAX || ++numbers->steps > STEPS_MAX)
		numbers->is_unknown = true;
	if (type->size == 0 || numbers->is_unknown)
		return;
	if (type->kind == TYPE_ARRAY) {
		numbers->is_other = true;
	} else if (type->kind == TYPE_UNION) {
		numbers->is_unknown = true;
	} else if (type->kind != TYPE_STRUCT) {
		add_number(numbers, type, offset);
	} else if (type_find_tag(type, &member)) {
		struct numbers inner = { .steps = numbers->steps };

		collect_variants(type, offset, depth, &inner);
		numbers->is_other |= inner.is_other;
		numbers->is_unknown |= inner.is_unknown;
		for (size_t i = 0; i < inner.count && numbers->count < NUMBERS_MAX; i++)
			numbers->items[numbers->count++] = inner.items[i];
		numbers->steps = inner.steps;
	} else {
		while (type_next_member(type, &walk, &member))
			collect(&member.type, offset + member.offset, depth + 1, numbers);
	}
}

/* Does the value consist of the two numbers, each at its aligned place? */
static bool is_whole(const struct type *type, const struct rust_number *first,
		     const struct rust_number *second)
{
	uint64_t align = first->size > second->size ? first->size : second->size;
	uint64_t end = (second->offset + second->size + align - 1) / align * align;

	return first->offset == 0 && end == type->size &&
	       second->offset == (first->size + second->size - 1) / second->size * second->size;
}

enum rust_layout rust_layout(const struct type *type, struct rust_number ret_numbers[2])
{
	struct numbers numbers = { .count = 0 };
	struct rust_number *items = numbers.items;

	collect(type, 0, 0, &numbers);
	if (numbers.is_unknown)
		return RUST_UNKNOWN;
	if (numbers.is_other || numbers.count > 2)
		return RUST_OTHER;
	if (numbers.count == 2 && items[0].offset > items[1].offset) {
		struct rust_number first = items[1];

		items[1] = items[0];
		items[0] = first;
	}
	ret_numbers[0] = items[0];
	ret_numbers[1] = items[1];
	if (numbers.count == 1)
		return items[0].offset == 0 && items[0].size == type->size ? RUST_NUMBER :
									     RUST_UNKNOWN;
	return numbers.count == 2 && is_whole(type, &items[0], &items[1]) ? RUST_PAIR :
									    RUST_UNKNOWN;
}
