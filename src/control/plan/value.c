/*
 * value.c - from a type to fields: each kind of type has a row in a table, and structs, arrays and references
 * lead to others.
 */
#include "value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../shared/layout.h"

#define DEPTH_MAX 8 /* structs in structs */
#define STORES_MAX 64
#define LABELS_MAX 4096
#define STEPS_MAX 1024
#define ELEMENTS_MAX 64 /* of an array */

void shape_init(struct shape *shape, struct debug *debug, uint32_t string_max)
{
	*shape = (struct shape){ .debug = debug, .string_max = string_max };
}

void shape_free(struct shape *shape)
{
	event_fields_free(shape->fields, shape->field_count);
	vec_free(&shape->stores);
	vec_free(&shape->texts);
	*shape = (struct shape){ 0 };
}

/* ---- fields ------------------------------------------------------------------------------------- */

static struct event_field *add_field(struct shape *shape, const char *name, enum field_type type,
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

static struct value_store *add_store(struct shape *shape, enum dt_op_code code, uint8_t size,
				     const struct value_place *place)
{
	struct value_store store = { .place = *place, .code = (uint8_t)code, .size = size,
				     .load = size, .field = (uint16_t)(shape->field_count - 1) };

	if (!vec_push(&shape->stores, store)) {
		shape->failed = true;
		return NULL;
	}
	return vec_last(&shape->stores);
}

static void add_label(struct shape *shape, struct event_field *field, const char *name, int64_t value)
{
	struct field_label *labels = realloc(field->labels, (field->label_count + 1) * sizeof(*labels));

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

/* A byte that is always 0, with a name that says why. */
static void add_note(struct shape *shape, const char *name, const char *note)
{
	static const struct value_place nothing = { .kind = PLACE_GONE };
	struct event_field *field = add_field(shape, name, FIELD_ENUM, 1);

	if (field)
		add_label(shape, field, note, 0);
	add_store(shape, DT_OP_STORE, 1, &nothing);
}

static void add_gone(struct shape *shape, const char *name)
{
	add_note(shape, name, "<optimised out>");
}

/* A number; `size` is 1, 2, 4 or 8; `load`: the bytes that hold it. */
static struct event_field *add_bits(struct shape *shape, const char *name, enum field_type type,
				    uint8_t size, uint8_t load, bool is_signed,
				    const struct value_place *place)
{
	struct event_field *field;
	struct value_store *store;

	if (!place_has(place, load)) {
		add_gone(shape, name);
		return NULL;
	}
	field = add_field(shape, name, type, size);
	store = add_store(shape, DT_OP_STORE, size, place);
	if (!field || !store)
		return NULL;
	field->is_signed = store->is_signed = is_signed;
	store->load = load;
	return field;
}

static struct event_field *add_number(struct shape *shape, const char *name, enum field_type type,
				      uint8_t size, bool is_signed, const struct value_place *place)
{
	return add_bits(shape, name, type, size, size, is_signed, place);
}

void shape_add_number(struct shape *shape, const char *name, enum field_type type, uint8_t size,
		      const struct value_place *place)
{
	add_number(shape, name, type, size, type == FIELD_INT, place);
}

static bool is_number_size(uint64_t size)
{
	return size == 1 || size == 2 || size == 4 || size == 8;
}

/* Words of 8 bytes, in base 16: for what no field type can show. */
static void add_words(struct shape *shape, const char *name, uint64_t size,
		      const struct value_place *place)
{
	struct event_field *field;
	size_t words = (size_t)(size / 8);

	if (!place_has(place, 8) || words == 0 || words > ELEMENTS_MAX) {
		add_gone(shape, name);
		return;
	}
	field = add_field(shape, name, FIELD_HEX, 8);
	if (field)
		field->count = (uint16_t)words;
	for (size_t i = 0; i < words; i++) {
		struct value_place part;

		place_member(place, i * 8, &part);
		add_store(shape, DT_OP_STORE, 8, &part);
	}
}

/* ---- strings -------------------------------------------------------------------------------------- */

static void add_text(struct shape *shape, const char *name, const struct value_place *address,
		     const struct value_place *length, enum dt_string mode)
{
	struct value_store *store;

	if (!place_has(address, 8) || (mode && !place_has(length, 8))) {
		add_gone(shape, name);
		return;
	}
	add_field(shape, name, FIELD_STRING, 0);
	store = add_store(shape, DT_OP_STRING, 1, address);
	if (!store)
		return;
	store->count = (uint16_t)shape->string_max;
	store->load = 1;
	store->mode = (uint8_t)mode;
	if (mode)
		store->length = *length;
	shape->is_gathered = true;
}

/* Characters of two bytes or four. */
static bool is_wide(const struct type *type)
{
	return type->name && type->kind == TYPE_INT && (type->size == 2 || type->size == 4) &&
	       (strcmp(type->name, "wchar_t") == 0 || strcmp(type->name, "char16_t") == 0 ||
		strcmp(type->name, "char32_t") == 0);
}

static void add_wide_text(struct shape *shape, const char *name, const struct value_place *pointer, uint8_t unit)
{
	add_text(shape, name, pointer, NULL, DT_STRING_NUL);
	if (!shape->failed && vec_last(&shape->stores)->code == DT_OP_STRING)
		vec_last(&shape->stores)->load = unit;
}

void shape_add_string(struct shape *shape, const char *name, const struct value_place *pointer)
{
	add_text(shape, name, pointer, NULL, DT_STRING_NUL);
}

void shape_add_special(struct shape *shape, const char *name, enum dt_op_code code, uint16_t count)
{
	static const struct value_place nothing = { .kind = PLACE_GONE };
	struct value_store *store;

	add_field(shape, name, code == DT_OP_BACKTRACE ? FIELD_FRAMES : FIELD_STRING, 0);
	store = add_store(shape, code, 1, &nothing);
	if (store)
		store->count = count;
	shape->is_gathered = true;
}

/* Classes and structs that are text: the members that hold the address and the length. */
static const struct {
	const char *type; /* its name begins so */
	const char *address, *length; /* members, and members of these */
} text_types[] = {
	/* libstdc++; clang leaves out what is in _M_dataplus: the pointer, at its beginning */
	{ "basic_string<char", "_M_dataplus", "_M_string_length" },
	{ "basic_string_view<char", "_M_str", "_M_len" },
	{ "&str", "data_ptr", "length" }, /* Rust */
	{ "&mut str", "data_ptr", "length" },
	{ "&[u8]", "data_ptr", "length" },
	{ "&mut [u8]", "data_ptr", "length" },
	{ "String", "vec.buf.inner.ptr.pointer.pointer", "vec.len" },
	{ "String", "vec.buf.ptr.pointer.pointer", "vec.len" }, /* before 1.83 */
};

/* a.b.c: where it is in the type. */
static bool find_path(const struct type *type, const char *path, uint64_t *ret_offset)
{
	struct type here = *type;
	uint64_t offset = 0;

	while (*path) {
		size_t length = strcspn(path, ".");
		struct member member;
		char name[32];

		snprintf(name, sizeof(name), "%.*s", (int)length, path);
		if (!type_find_member(&here, name, &member))
			return false;
		offset += member.offset;
		here = member.type;
		path += length + (path[length] == '.');
	}
	*ret_offset = offset;
	return true;
}

bool value_text(const struct type *type, const struct value_place *place, struct value_place *ret_address,
		struct value_place *ret_length)
{
	Dwarf_Die die = type->die;
	const char *called = debug_name(&die);

	for (size_t i = 0; called && i < sizeof(text_types) / sizeof(text_types[0]); i++) {
		uint64_t address, length;

		if (strncmp(called, text_types[i].type, strlen(text_types[i].type)) != 0 ||
		    !find_path(type, text_types[i].address, &address) ||
		    !find_path(type, text_types[i].length, &length))
			continue;
		place_member(place, address, ret_address);
		place_member(place, length, ret_length);
		return true;
	}
	return false;
}

static bool add_text_type(struct shape *shape, const char *name, const struct type *type,
			  const struct value_place *place)
{
	struct value_place address, length;

	if (!value_text(type, place, &address, &length))
		return false;
	add_text(shape, name, &address, &length, DT_STRING_COUNTED);
	return true;
}

/* ---- kinds of types ---------------------------------------------------------------------------------- */

static void add_value(struct shape *shape, const char *name, const struct type *type,
		      const struct value_place *place, unsigned depth);

static void add_int(struct shape *shape, const char *name, const struct type *type,
		    const struct value_place *place, unsigned depth)
{
	if (is_number_size(type->size))
		add_number(shape, name, type->is_signed ? FIELD_INT : FIELD_UINT, (uint8_t)type->size,
			   type->is_signed, place);
	else
		add_words(shape, name, type->size, place);
}

static void add_bool(struct shape *shape, const char *name, const struct type *type,
		     const struct value_place *place, unsigned depth)
{
	struct event_field *field =
		is_number_size(type->size) ?
			add_number(shape, name, FIELD_ENUM, (uint8_t)type->size, false, place) :
			NULL;

	if (field) {
		add_label(shape, field, "false", 0);
		add_label(shape, field, "true", 1);
	}
}

static void add_enum(struct shape *shape, const char *name, const struct type *type,
		     const struct value_place *place, unsigned depth)
{
	struct member_walk walk = { .started = false };
	struct event_field *field;
	const char *label;
	int64_t value;

	if (!is_number_size(type->size)) {
		add_gone(shape, name);
		return;
	}
	field = add_number(shape, name, FIELD_ENUM, (uint8_t)type->size, type->is_signed, place);
	while (field && field->label_count < LABELS_MAX &&
	       type_next_label(type, &walk, &label, &value)) {
		if (!type->is_signed && type->size < 8)
			value &= (int64_t)((1ULL << 8 * type->size) - 1);
		add_label(shape, field, label, value);
	}
	if (field && !field->label_count)
		field->type = type->is_signed ? FIELD_INT : FIELD_UINT;
}

static void add_long_double(struct shape *shape, const char *name, const struct value_place *place)
{
	struct value_ops ops = { .count = 0 };

	if (!place_push_address(place, &ops)) {
		add_gone(shape, name);
		return;
	}
	add_field(shape, name, FIELD_FLOAT, 8);
	add_store(shape, DT_OP_X87, 8, place);
	shape->is_gathered = true;
}

static void add_float(struct shape *shape, const char *name, const struct type *type,
		      const struct value_place *place, unsigned depth)
{
	if (type->size == 4 || type->size == 8)
		add_number(shape, name, FIELD_FLOAT, (uint8_t)type->size, false, place);
	else if (type->size == 2)
		add_number(shape, name, FIELD_HEX, 2, false, place);
	else if (type->size == 16 && type->name && strstr(type->name, "128"))
		add_words(shape, name, type->size, place);
	else
		add_long_double(shape, name, place);
}

static void begin_struct(struct shape *shape, const char *name, size_t *ret_index)
{
	*ret_index = shape->field_count;
	add_field(shape, name, FIELD_STRUCT, 1);
}

/* The struct's alignment is that of its strictest member, as readers of the trace have it. */
static void end_struct(struct shape *shape, const char *name, size_t index)
{
	uint8_t align = 1;

	for (size_t i = index + 1; i < shape->field_count && !shape->failed; i++) {
		uint8_t size = shape->fields[i].type == FIELD_FRAMES ? 8 : shape->fields[i].size;

		if (shape->fields[i].type != FIELD_END && size > align)
			align = size;
	}
	if (!shape->failed)
		shape->fields[index].size = align;
	add_field(shape, name, FIELD_END, 0);
}

static void add_complex(struct shape *shape, const char *name, const struct type *type,
			const struct value_place *place, unsigned depth)
{
	struct type part = { .kind = TYPE_FLOAT, .size = type->size / 2 };
	struct value_place imaginary;
	size_t index;

	if (place->kind == PLACE_GONE) {
		add_gone(shape, name);
		return;
	}
	begin_struct(shape, name, &index);
	place_member(place, part.size, &imaginary);
	add_float(shape, "real", &part, place, depth);
	add_float(shape, "imag", &part, &imaginary, depth);
	end_struct(shape, name, index);
}

static void add_pointer(struct shape *shape, const char *name, const struct type *type,
			const struct value_place *place, unsigned depth)
{
	struct type target;

	type_target(type, &target);
	if (target.kind == TYPE_CHAR)
		shape_add_string(shape, name, place);
	else if (is_wide(&target))
		add_wide_text(shape, name, place, (uint8_t)target.size);
	else
		add_number(shape, name, FIELD_HEX, 8, false, place);
}

/* What a reference refers to, where that is a number or a string; else where it is. */
static void add_reference(struct shape *shape, const char *name, const struct type *type,
			  const struct value_place *place, unsigned depth)
{
	struct value_place behind;
	struct type target;

	type_target(type, &target);
	type_complete(shape->debug, &target);
	place_behind(place, &behind);
	if (target.kind == TYPE_STRUCT && add_text_type(shape, name, &target, &behind)) {
		shape->is_gathered = true;
	} else if (target.kind >= TYPE_INT && target.kind <= TYPE_POINTER && depth < DEPTH_MAX) {
		add_value(shape, name, &target, &behind, depth + 1);
		shape->is_gathered = true;
	} else {
		add_number(shape, name, FIELD_HEX, 8, false, place);
	}
}

static void add_bit_field(struct shape *shape, const char *name, const struct member *member,
			  const struct value_place *place)
{
	uint32_t bytes = (member->bit_offset + member->bit_size + 7) / 8, bits = member->bit_size;
	uint8_t size = (uint8_t)(bits <= 8 ? 1 : bits <= 16 ? 2 : bits <= 32 ? 4 : 8);
	bool is_signed = member->type.is_signed;
	struct event_field *field;

	if (bytes > 8 || place->kind == PLACE_GONE) {
		add_gone(shape, name);
		return;
	}
	field = add_bits(shape, name, is_signed ? FIELD_INT : FIELD_UINT, size, (uint8_t)bytes, is_signed,
			 place);
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
			add_note(shape, "more", "<not recorded>");
			return;
		}
		place_member(place, member.offset, &part);
		if (member.bit_size)
			add_bit_field(shape, member.name ? member.name : "bits", &member, &part);
		else if ((member.is_base || !member.name) && member.type.kind >= TYPE_STRUCT)
			add_members(shape, &member.type, &part, depth + 1);
		else
			add_value(shape, member.name ? member.name : "member", &member.type, &part,
				  depth + 1);
	}
}

static bool is_empty(const struct type *type)
{
	struct member_walk walk = { .started = false };
	struct member member;

	return type->size <= 1 && !type_next_member(type, &walk, &member);
}

static void add_struct(struct shape *shape, const char *name, const struct type *type,
		       const struct value_place *place, unsigned depth)
{
	struct type complete = *type;
	size_t index;

	if (shape->debug)
		type_complete(shape->debug, &complete);
	if (is_empty(&complete)) {
		add_note(shape, name, "<empty>");
		return;
	}
	if (place->kind == PLACE_GONE) {
		add_gone(shape, name);
		return;
	}
	if (add_text_type(shape, name, &complete, place))
		return;
	if (depth >= DEPTH_MAX) {
		add_note(shape, name, "<not recorded>");
		return;
	}
	begin_struct(shape, name, &index);
	add_members(shape, &complete, place, depth);
	if (!shape->failed && shape->field_count == index + 1)
		add_note(shape, "nothing", "<empty>");
	end_struct(shape, name, index);
}

/* Structs: one of their numbers, by number. */
static void add_structs(struct shape *shape, const char *name, const struct type *element, uint64_t count,
			const struct value_place *place, unsigned depth)
{
	size_t index;

	if (depth >= DEPTH_MAX || !element->size) {
		add_note(shape, name, "<not recorded>");
		return;
	}
	begin_struct(shape, name, &index);
	for (uint64_t i = 0; i < count && !shape->failed; i++) {
		struct value_place part;
		char number[24];

		if (shape->stores.count >= STORES_MAX || ++shape->steps > STEPS_MAX) {
			add_note(shape, "more", "<not recorded>");
			break;
		}
		snprintf(number, sizeof(number), "%u", (unsigned)i);
		place_member(place, i * element->size, &part);
		add_value(shape, number, element, &part, depth + 1);
	}
	end_struct(shape, name, index);
}

/* Numbers, element by element from registers, as one copy from memory. */
static void add_elements(struct shape *shape, const char *name, const struct type *element,
			 uint64_t count, const struct value_place *place)
{
	size_t before = shape->field_count;
	struct value_ops ops = { .count = 0 };
	bool in_memory = place_push_address(place, &ops);
	struct value_store *store;

	if (element->kind == TYPE_POINTER) /* its number, not what it points to */
		add_number(shape, name, FIELD_HEX, 8, false, place);
	else
		add_value(shape, name, element, place, DEPTH_MAX);
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
		store = add_store(shape, DT_OP_STORE, (uint8_t)element->size, &part);
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
		add_gone(shape, name);
		return;
	}
	if (element.kind == TYPE_CHAR && place_push_address(place, &address.ops)) {
		ops_const(&length.ops, count);
		add_text(shape, name, &address, &length, DT_STRING_BOUNDED);
	} else if (element.kind == TYPE_STRUCT || element.kind == TYPE_UNION || element.kind == TYPE_COMPLEX) {
		add_structs(shape, name, &element, count, place, depth);
	} else if (element.kind < TYPE_INT || element.kind > TYPE_POINTER || !is_number_size(element.size)) {
		add_note(shape, name, "<not recorded>");
	} else {
		struct type number = element;

		if (number.kind == TYPE_CHAR)
			number.kind = TYPE_INT;
		add_elements(shape, name, &number, count < ELEMENTS_MAX ? count : ELEMENTS_MAX, place);
	}
}

static void add_vector(struct shape *shape, const char *name, const struct type *type,
		       const struct value_place *place, unsigned depth)
{
	add_words(shape, name, type->size, place);
}

static void add_nothing(struct shape *shape, const char *name, const struct type *type,
			const struct value_place *place, unsigned depth)
{
	add_note(shape, name, "<unknown type>");
}

static void (*const adders[])(struct shape *shape, const char *name, const struct type *type,
			      const struct value_place *place, unsigned depth) = {
	[TYPE_VOID] = add_nothing,    [TYPE_INT] = add_int,	  [TYPE_BOOL] = add_bool,
	[TYPE_CHAR] = add_int,	      [TYPE_FLOAT] = add_float,	  [TYPE_COMPLEX] = add_complex,
	[TYPE_ENUM] = add_enum,	      [TYPE_POINTER] = add_pointer, [TYPE_REFERENCE] = add_reference,
	[TYPE_STRUCT] = add_struct,   [TYPE_UNION] = add_struct,  [TYPE_ARRAY] = add_array,
	[TYPE_VECTOR] = add_vector,   [TYPE_FUNCTION] = add_nothing,
	[TYPE_TEXT] = add_nothing,
};

static void add_value(struct shape *shape, const char *name, const struct type *type,
		      const struct value_place *place, unsigned depth)
{
	if (shape->failed || shape->stores.count >= STORES_MAX)
		return;
	adders[type->kind](shape, name, type, place, depth);
}

void shape_add(struct shape *shape, const char *name, const struct type *type,
	       const struct value_place *place)
{
	add_value(shape, name, type, place, 0);
}
