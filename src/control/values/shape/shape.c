/*
 * shape.c - from a type to fields: one row of a table per kind of type. Structs, arrays and
 * references add fields of further types.
 */
#include "shape.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/layout.h"
#include "shape_fields.h"

#define STORES_MAX 64
#define LABELS_MAX 4096
#define STEPS_MAX 1024
#define ELEMENTS_MAX 64 /* of an array */

void shape_init(struct shape *shape, struct debug *debug, uint32_t string_max)
{
	*shape = (struct shape){ .debug = debug,
				 .string_max = string_max,
				 .depth_max = SHAPE_DEPTH_MAX };
}

void shape_free(struct shape *shape)
{
	event_fields_free(shape->fields, shape->field_count);
	vec_free(&shape->stores);
	vec_free(&shape->guards);
	vec_free(&shape->codes);
	vec_free(&shape->lists);
	vec_free(&shape->texts);
	*shape = (struct shape){ 0 };
}

/* ---- fields ---------------------------------------------------------------------------------- */

struct event_field *shape_field(struct shape *shape, const char *name, enum field_type type,
				     uint8_t size)
{
	struct event_field field = { .type = type, .size = size };

	snprintf(field.name, sizeof(field.name), "%s", name);
	if (!vec_grow((void **)&shape->fields, &shape->field_room, shape->field_count, 1,
		      sizeof(field))) {
		shape->failed = true;
		return NULL;
	}
	shape->fields[shape->field_count] = field;
	return &shape->fields[shape->field_count++];
}

struct value_store *shape_store(struct shape *shape, enum dt_op_code code, uint8_t size,
				     const struct value_place *place)
{
	struct value_store store = { .place = *place,
				     .code = (uint8_t)code,
				     .size = size,
				     .load = size,
				     .field = (uint16_t)(shape->field_count - 1),
				     .guard = shape->guard,
				     .blamed = shape->blamed };

	if (!vec_push(&shape->stores, store)) {
		shape->failed = true;
		return NULL;
	}
	return vec_last(&shape->stores);
}

void shape_label(struct shape *shape, struct event_field *field, const char *name, int64_t value)
{
	struct field_label *labels =
		realloc(field->labels, (field->label_count + 1) * sizeof(*labels));

	if (!labels) {
		shape->failed = true;
		return;
	}
	field->labels = labels;
	labels[field->label_count].value = value;
	labels[field->label_count].name = strdup(name);
	shape->failed |= !labels[field->label_count].name;
	field->label_count += labels[field->label_count].name != NULL;
}

/* A byte that is always 0, with `note` as its label. */
void shape_note(struct shape *shape, const char *name, const char *note)
{
	static const struct value_place nothing = { .kind = PLACE_GONE };
	struct event_field *field = shape_field(shape, name, FIELD_ENUM, 1);

	if (field)
		shape_label(shape, field, note, 0);
	shape_store(shape, DT_OP_STORE, 1, &nothing);
}

void shape_gone(struct shape *shape, const char *name)
{
	shape_note(shape, name, "<optimised out>");
}

/* A number; `size` is 1, 2, 4 or 8; `load`: the bytes that hold it. */
static struct event_field *add_bits(struct shape *shape, const char *name, enum field_type type,
				    uint8_t size, uint8_t load, bool is_signed,
				    const struct value_place *place)
{
	struct event_field *field;
	struct value_store *store;

	if (!place_has(place, load)) {
		shape_gone(shape, name);
		return NULL;
	}
	field = shape_field(shape, name, type, size);
	store = shape_store(shape, DT_OP_STORE, size, place);
	if (!field || !store)
		return NULL;
	field->is_signed = store->is_signed = is_signed;
	store->load = load;
	return field;
}

struct event_field *shape_number(struct shape *shape, const char *name, enum field_type type,
				      uint8_t size, bool is_signed, const struct value_place *place)
{
	return add_bits(shape, name, type, size, size, is_signed, place);
}

void shape_add_number(struct shape *shape, const char *name, enum field_type type, uint8_t size,
		      const struct value_place *place)
{
	shape_number(shape, name, type, size, type == FIELD_INT, place);
}

bool value_is_number_size(uint64_t size)
{
	return size == 1 || size == 2 || size == 4 || size == 8;
}

/* Words of 8 bytes, in base 16: for types that no field type can show. */
static void add_words(struct shape *shape, const char *name, uint64_t size,
		      const struct value_place *place)
{
	struct event_field *field;
	size_t words = (size_t)(size / 8);

	if (!place_has(place, 8) || words == 0 || words > ELEMENTS_MAX) {
		shape_gone(shape, name);
		return;
	}
	field = shape_field(shape, name, FIELD_HEX, 8);
	if (field)
		field->count = (uint16_t)words;
	for (size_t i = 0; i < words; i++) {
		struct value_place part;

		place_member(place, i * 8, &part);
		shape_store(shape, DT_OP_STORE, 8, &part);
	}
}

/* ---- kinds of types -------------------------------------------------------------------------- */

static void add_int(struct shape *shape, const char *name, const struct type *type,
		    const struct value_place *place, unsigned depth)
{
	if (value_is_number_size(type->size))
		shape_number(shape, name, type->is_signed ? FIELD_INT : FIELD_UINT,
			     (uint8_t)type->size, type->is_signed, place);
	else if (type->size == 16)
		shape_wide_number(shape, name, type->is_signed, place);
	else
		add_words(shape, name, type->size, place);
}

static const struct {
	char value;
	const char *name;
} escapes[] = { { 0, "'\\0'" },	 { 7, "'\\a'" },  { 8, "'\\b'" },	{ 9, "'\\t'" },
		{ 10, "'\\n'" }, { 11, "'\\v'" }, { 12, "'\\f'" }, { 13, "'\\r'" },
		{ 27, "'\\e'" }, { '\'', "'\\''" }, { '\\', "'\\\\'" } };

/* A number with the character as its name, where it has one. */
static void add_char(struct shape *shape, const char *name, const struct type *type,
		     const struct value_place *place, unsigned depth)
{
	struct event_field *field;

	if (type->size != 1) {
		add_int(shape, name, type, place, depth);
		return;
	}
	field = shape_number(shape, name, FIELD_ENUM, 1, type->is_signed, place);
	for (size_t i = 0; field && i < sizeof(escapes) / sizeof(escapes[0]); i++)
		shape_label(shape, field, escapes[i].name, escapes[i].value);
	for (char c = ' '; field && c <= '~'; c++) {
		char label[] = { '\'', c, '\'', '\0' };

		if (c != '\'' && c != '\\')
			shape_label(shape, field, label, c);
	}
}

void shape_bool(struct shape *shape, const char *name, uint8_t size,
		const struct value_place *place)
{
	struct event_field *field = shape_number(shape, name, FIELD_ENUM, size, false, place);

	if (field) {
		shape_label(shape, field, "false", 0);
		shape_label(shape, field, "true", 1);
	}
}

static void add_bool(struct shape *shape, const char *name, const struct type *type,
		     const struct value_place *place, unsigned depth)
{
	if (value_is_number_size(type->size))
		shape_bool(shape, name, (uint8_t)type->size, place);
}

static void add_enum(struct shape *shape, const char *name, const struct type *type,
		     const struct value_place *place, unsigned depth)
{
	struct member_walk walk = { .started = false };
	struct event_field *field;
	const char *label;
	int64_t value;

	if (!value_is_number_size(type->size)) {
		shape_gone(shape, name);
		return;
	}
	field = shape_number(shape, name, FIELD_ENUM, (uint8_t)type->size, type->is_signed, place);
	while (field && field->label_count < LABELS_MAX &&
	       type_next_label(type, &walk, &label, &value)) {
		if (!type->is_signed && type->size < 8)
			value &= (int64_t)((1ULL << 8 * type->size) - 1);
		shape_label(shape, field, label, value);
	}
	if (field && !field->label_count)
		field->type = type->is_signed ? FIELD_INT : FIELD_UINT;
}

/* A number without a type in CTF becomes a double, or a single if that is exact. */
static void add_converted(struct shape *shape, const char *name, const struct type *type,
			  const struct value_place *place)
{
	struct value_place real = { .kind = PLACE_VALUE };

	if (!value_real(type, place, &real.ops)) {
		shape_gone(shape, name);
		return;
	}
	if (type->size == 2)
		ops_add(&real.ops, DT_OP_REAL_NARROW, 0, 0, 0);
	shape_number(shape, name, FIELD_FLOAT, type->size == 2 ? 4 : 8, false, &real);
}

static void add_float(struct shape *shape, const char *name, const struct type *type,
		      const struct value_place *place, unsigned depth)
{
	if (type->size == 4 || type->size == 8)
		shape_number(shape, name, FIELD_FLOAT, (uint8_t)type->size, false, place);
	else if (value_is_quadruple(type))
		add_words(shape, name, type->size, place);
	else
		add_converted(shape, name, type, place);
}

void shape_begin_struct(struct shape *shape, const char *name, size_t *ret_index)
{
	*ret_index = shape->field_count;
	shape_field(shape, name, FIELD_STRUCT, 1);
}

/* Readers of the trace align a struct as its strictest member. */
void shape_end_struct(struct shape *shape, const char *name, size_t index)
{
	uint8_t align = 1;

	for (size_t i = index + 1; i < shape->field_count && !shape->failed; i++) {
		uint8_t size = shape->fields[i].type == FIELD_FRAMES ? 8 : shape->fields[i].size;

		if (shape->fields[i].type == FIELD_LIST && size < 4) /* its count */
			size = 4;
		if (shape->fields[i].type != FIELD_END && size > align)
			align = size;
	}
	if (!shape->failed)
		shape->fields[index].size = align;
	shape_field(shape, name, FIELD_END, 0);
}

static void add_complex(struct shape *shape, const char *name, const struct type *type,
			const struct value_place *place, unsigned depth)
{
	struct type part = { .kind = TYPE_FLOAT, .size = type->size / 2 };
	struct value_place imaginary;
	size_t index;

	if (place->kind == PLACE_GONE) {
		shape_gone(shape, name);
		return;
	}
	shape_begin_struct(shape, name, &index);
	place_member(place, part.size, &imaginary);
	add_float(shape, "real", &part, place, depth);
	add_float(shape, "imag", &part, &imaginary, depth);
	shape_end_struct(shape, name, index);
}

static void add_bit_field(struct shape *shape, const char *name, const struct member *member,
			  const struct value_place *place)
{
	uint32_t bytes = (member->bit_offset + member->bit_size + 7) / 8, bits = member->bit_size;
	uint8_t size = (uint8_t)(bits <= 8 ? 1 : bits <= 16 ? 2 : bits <= 32 ? 4 : 8);
	bool is_signed = member->type.is_signed;
	struct event_field *field;

	if (bytes > 8 || place->kind == PLACE_GONE) {
		shape_gone(shape, name);
		return;
	}
	field = add_bits(shape, name, is_signed ? FIELD_INT : FIELD_UINT, size, (uint8_t)bytes,
			 is_signed, place);
	if (!field || shape->failed)
		return;
	vec_last(&shape->stores)->bit_offset = (uint8_t)member->bit_offset;
	vec_last(&shape->stores)->bit_size = (uint8_t)member->bit_size;
}

static void add_members(struct shape *shape, const struct type *type,
			const struct value_place *place, unsigned depth)
{
	struct member_walk walk = { .started = false };
	struct member member;

	while (type_next_member(type, &walk, &member) && !shape->failed) {
		struct value_place part;

		if (shape->stores.count >= STORES_MAX || ++shape->steps > STEPS_MAX) {
			shape_note(shape, "more", "<not recorded>");
			return;
		}
		place_member(place, member.offset, &part);
		if (member.bit_size)
			add_bit_field(shape, member.name ? member.name : "bits", &member, &part);
		else if ((member.is_base || !member.name) && member.type.kind >= TYPE_STRUCT)
			add_members(shape, &member.type, &part, depth + 1);
		else
			shape_value(shape, member.name ? member.name : "member", &member.type,
				    &part, depth + 1);
	}
}

static bool is_empty(const struct type *type)
{
	struct member_walk walk = { .started = false };
	struct member member;

	return type->size <= 1 && !type_next_member(type, &walk, &member) &&
	       !type_find_tag(type, &member);
}

static void add_struct(struct shape *shape, const char *name, const struct type *type,
		       const struct value_place *place, unsigned depth)
{
	struct type complete = *type;
	struct member tag;
	size_t index;

	if (shape->debug)
		type_complete(shape->debug, &complete);
	if (is_empty(&complete)) {
		shape_note(shape, name, "<empty>");
		return;
	}
	if (place->kind == PLACE_GONE) {
		shape_gone(shape, name);
		return;
	}
	if (shape_text_type(shape, name, &complete, place) ||
	    shape_container(shape, name, &complete, place, depth))
		return;
	if (depth >= shape->depth_max) {
		shape_note(shape, name, "<not recorded>");
		return;
	}
	shape_begin_struct(shape, name, &index);
	if (type_find_tag(&complete, &tag))
		shape_variants(shape, &complete, &tag, place, depth);
	else
		add_members(shape, &complete, place, depth);
	if (!shape->failed && shape->field_count == index + 1)
		shape_note(shape, "nothing", "<empty>");
	shape_end_struct(shape, name, index);
}

/* An array of structs: one field per element, named by its index. */
static void add_structs(struct shape *shape, const char *name, const struct type *element,
			uint64_t count, const struct value_place *place, unsigned depth)
{
	size_t index;

	if (depth >= shape->depth_max || !element->size) {
		shape_note(shape, name, "<not recorded>");
		return;
	}
	shape_begin_struct(shape, name, &index);
	for (uint64_t i = 0; i < count && !shape->failed; i++) {
		struct value_place part;
		char number[24];

		if (shape->stores.count >= STORES_MAX || ++shape->steps > STEPS_MAX) {
			shape_note(shape, "more", "<not recorded>");
			break;
		}
		snprintf(number, sizeof(number), "%u", (unsigned)i);
		place_member(place, i * element->size, &part);
		shape_value(shape, number, element, &part, depth + 1);
	}
	shape_end_struct(shape, name, index);
}

/* An array of numbers: element by element from registers, one copy from memory. */
static void add_elements(struct shape *shape, const char *name, const struct type *element,
			 uint64_t count, const struct value_place *place)
{
	size_t before = shape->field_count;
	struct value_ops ops = { .count = 0 };
	bool in_memory = place_push_address(place, &ops);
	struct value_store *store;

	if (element->kind == TYPE_POINTER) /* the address, not its target */
		shape_number(shape, name, FIELD_HEX, 8, false, place);
	else
		shape_value(shape, name, element, place, SHAPE_DEPTH_MAX);
	if (shape->failed || shape->field_count != before + 1 ||
	    shape->fields[before].type >= FIELD_STRING)
		return;
	shape->fields[before].count = (uint16_t)count;
	if (in_memory) {
		store = vec_last(&shape->stores);
		store->code = DT_OP_COPY;
		store->count = (uint16_t)(count * element->size);
		shape->is_gathered = true;
		return;
	}
	for (uint64_t i = 1; i < count; i++) {
		struct value_place part;

		place_member(place, i * element->size, &part);
		store = shape_store(shape, DT_OP_STORE, (uint8_t)element->size, &part);
		if (store)
			store->is_signed = element->is_signed;
	}
}

static void add_array(struct shape *shape, const char *name, const struct type *type,
		      const struct value_place *place, unsigned depth)
{
	struct value_place address = { .kind = PLACE_VALUE }, length = { .kind = PLACE_VALUE };
	struct type element;
	uint64_t count = type_count(type, &element);

	if (place->kind == PLACE_GONE || count == 0) {
		shape_gone(shape, name);
		return;
	}
	if (element.kind == TYPE_CHAR && place_push_address(place, &address.ops)) {
		ops_const(&length.ops, count);
		shape_text(shape, name, &address, &length, DT_STRING_BOUNDED);
	} else if (element.kind == TYPE_STRUCT || element.kind == TYPE_UNION ||
		   element.kind == TYPE_COMPLEX ||
		   (element.kind == TYPE_FLOAT && element.size != 4 && element.size != 8)) {
		add_structs(shape, name, &element, count, place, depth);
	} else if (element.kind < TYPE_INT || element.kind > TYPE_POINTER ||
		   !value_is_number_size(element.size)) {
		shape_note(shape, name, "<not recorded>");
	} else {
		struct type number = element;

		if (number.kind == TYPE_CHAR)
			number.kind = TYPE_INT;
		add_elements(shape, name, &number, count < ELEMENTS_MAX ? count : ELEMENTS_MAX,
			     place);
	}
}

/* Elements that have a place: a register's first 16 bytes have. */
static uint64_t count_known(const struct value_place *place, const struct type *element,
			    uint64_t count)
{
	struct value_place part;

	for (; count; count--) {
		place_member(place, (count - 1) * element->size, &part);
		if (place_has(&part, (uint32_t)element->size))
			break;
	}
	return count;
}

static void add_vector(struct shape *shape, const char *name, const struct type *type,
		       const struct value_place *place, unsigned depth)
{
	struct type element;
	uint64_t count = type_count(type, &element);

	if (element.kind == TYPE_CHAR)
		element.kind = TYPE_INT;
	if (!value_is_number_size(element.size) || element.kind < TYPE_INT ||
	    element.kind > TYPE_ENUM || (element.kind == TYPE_FLOAT && element.size < 4)) {
		add_words(shape, name, type->size, place);
		return;
	}
	count = count_known(place, &element, count < ELEMENTS_MAX ? count : ELEMENTS_MAX);
	if (count)
		add_elements(shape, name, &element, count, place);
	else
		shape_gone(shape, name);
}

static void add_nothing(struct shape *shape, const char *name, const struct type *type,
			const struct value_place *place, unsigned depth)
{
	shape_note(shape, name, "<unknown type>");
}

static void (*const adders[])(struct shape *shape, const char *name, const struct type *type,
			      const struct value_place *place, unsigned depth) = {
	[TYPE_VOID] = add_nothing,
	[TYPE_INT] = add_int,
	[TYPE_BOOL] = add_bool,
	[TYPE_CHAR] = add_char,
	[TYPE_FLOAT] = add_float,
	[TYPE_COMPLEX] = add_complex,
	[TYPE_ENUM] = add_enum,
	[TYPE_POINTER] = shape_pointer,
	[TYPE_REFERENCE] = shape_reference,
	[TYPE_STRUCT] = add_struct,
	[TYPE_UNION] = add_struct,
	[TYPE_ARRAY] = add_array,
	[TYPE_VECTOR] = add_vector,
	[TYPE_FUNCTION] = add_nothing,
	[TYPE_TEXT] = add_nothing,
};

void shape_value(struct shape *shape, const char *name, const struct type *type,
		      const struct value_place *place, unsigned depth)
{
	if (shape->failed || shape->stores.count >= STORES_MAX)
		return;
	adders[type->kind](shape, name, type, place, depth);
}

void shape_add(struct shape *shape, const char *name, const struct type *type,
	       const struct value_place *place)
{
	shape_value(shape, name, type, place, 0);
}
