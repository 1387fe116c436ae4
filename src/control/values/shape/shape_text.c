/*
 * shape_text.c - strings: which types are text, and where their bytes and their length are.
 */
#include <stdio.h>
#include <string.h>

#include "elements.h"

void shape_text(struct shape *shape, const char *name, const struct value_place *address,
		const struct value_place *length, enum dt_string mode)
{
	struct value_store *store;

	if (!place_has(address, 8) || (mode && !place_has(length, 8))) {
		shape_gone(shape, name);
		return;
	}
	shape_field(shape, name, FIELD_STRING, 0);
	store = shape_store(shape, DT_OP_STRING, 1, address);
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
bool value_is_wide(const struct type *type)
{
	return type->name && type->kind == TYPE_INT && (type->size == 2 || type->size == 4) &&
	       (strcmp(type->name, "wchar_t") == 0 || strcmp(type->name, "char16_t") == 0 ||
		strcmp(type->name, "char32_t") == 0);
}

void shape_wide_text(struct shape *shape, const char *name, const struct value_place *pointer,
		     uint8_t unit)
{
	shape_text(shape, name, pointer, NULL, DT_STRING_NUL);
	if (!shape->failed && vec_last(&shape->stores)->code == DT_OP_STRING)
		vec_last(&shape->stores)->load = unit;
}

void shape_wide_number(struct shape *shape, const char *name, bool is_signed,
		       const struct value_place *place)
{
	struct value_store *store;
	struct value_place high;

	place_member(place, 8, &high);
	if (!place_has(place, 8) || !place_has(&high, 8)) {
		shape_gone(shape, name);
		return;
	}
	shape_field(shape, name, FIELD_STRING, 0);
	store = shape_store(shape, DT_OP_WIDE, 1, place);
	if (store)
		store->is_signed = is_signed;
	shape->is_gathered = true;
}

void shape_add_string(struct shape *shape, const char *name, const struct value_place *pointer)
{
	shape_text(shape, name, pointer, NULL, DT_STRING_NUL);
}

void shape_add_special(struct shape *shape, const char *name, enum dt_op_code code, uint16_t count)
{
	static const struct value_place nothing = { .kind = PLACE_GONE };
	struct value_store *store;

	shape_field(shape, name, code == DT_OP_BACKTRACE ? FIELD_FRAMES : FIELD_STRING, 0);
	store = shape_store(shape, code, 1, &nothing);
	if (store)
		store->count = count;
	shape->is_gathered = true;
}

/* Classes and structs that are text, with the members that hold the address and the length. */
static const struct {
	const char *type; /* start of its name */
	const char *address, *length; /* paths of members */
	uint64_t size; /* of the type, and `type` is its whole name; 0: any */
} text_types[] = {
	/* libstdc++; clang doesn't describe _M_dataplus, which begins with the pointer */
	{ "basic_string<", "_M_dataplus", "_M_string_length", 0 },
	{ "basic_string_view<", "_M_str", "_M_len", 0 },
	{ "basic_string_view<", "__data", "__size", 0 }, /* libc++ */
	{ "basic_string_view<", "__data_", "__size_", 0 },
	{ "&str", "data_ptr", "length", 0 }, /* Rust */
	{ "&mut str", "data_ptr", "length", 0 },
	{ "&[u8]", "data_ptr", "length", 0 },
	{ "&mut [u8]", "data_ptr", "length", 0 },
	{ "String", "vec.buf.inner.ptr.pointer.pointer", "vec.len", 0 },
	{ "String", "vec.buf.ptr.pointer.pointer", "vec.len", 0 }, /* before 1.83 */
	{ "Vec<u8", "buf.inner.ptr.pointer.pointer", "len", 0 },
	{ "Vec<u8", "buf.ptr.pointer.pointer", "len", 0 },
	{ "Box<str", "data_ptr", "length", 0 },
	{ "Option<&str>", "Some.__0.data_ptr", "Some.__0.length", 0 },
	{ "string", "str", "len", 16 }, /* Go */
	{ "[]uint8", "array", "len", 24 },
};

bool shape_find_path(const struct type *type, const char *path, uint64_t *ret_offset,
		     struct type *ret_type)
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
	if (ret_type)
		*ret_type = here;
	return true;
}

/* Bytes of a character of a template's text; other types have bytes. */
static uint8_t unit_of(const struct type *type, const char *called)
{
	static const struct {
		const char *name;
		uint8_t size;
	} units[] = { { "wchar_t", 4 }, { "char16_t", 2 }, { "char32_t", 4 } };
	const char *argument = strchr(called, '<');

	if (strncmp(called, "basic_string", strlen("basic_string")) != 0 || !argument)
		return 1;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		size_t length = strlen(units[i].name);

		if (strncmp(argument + 1, units[i].name, length) == 0 &&
		    strchr(",>", argument[1 + length]))
			return units[i].size;
	}
	/* char and char8_t; nobody knows how to show others */
	return strncmp(argument + 1, "char", 4) == 0 ? 1 : 0;
}

/* Finds the text; *ret_unit: bytes of a character. */
static bool find_text(const struct type *type, const struct value_place *place, uint8_t *ret_unit,
		      struct value_place *ret_address, struct value_place *ret_length)
{
	Dwarf_Die die = type->die;
	const char *called = debug_name(&die);

	if (!called)
		return false;
	*ret_unit = unit_of(type, called);
	for (size_t i = 0; *ret_unit && i < sizeof(text_types) / sizeof(text_types[0]); i++) {
		uint64_t address, length;

		if (strncmp(called, text_types[i].type, strlen(text_types[i].type)) != 0 ||
		    (text_types[i].size && (type->size != text_types[i].size ||
					    strcmp(called, text_types[i].type) != 0)) ||
		    !shape_find_path(type, text_types[i].address, &address, NULL) ||
		    !shape_find_path(type, text_types[i].length, &length, NULL))
			continue;
		place_member(place, address, ret_address);
		place_member(place, length, ret_length);
		return true;
	}
	return *ret_unit && strncmp(called, "basic_string<", strlen("basic_string<")) == 0 &&
	       libcxx_string(type, place, *ret_unit, ret_address, ret_length);
}

bool value_text(const struct type *type, const struct value_place *place,
		struct value_place *ret_address, struct value_place *ret_length)
{
	uint8_t unit;

	return find_text(type, place, &unit, ret_address, ret_length) && unit == 1;
}

bool shape_text_type(struct shape *shape, const char *name, const struct type *type,
		     const struct value_place *place)
{
	struct value_place address, length;
	Dwarf_Die die = type->die;
	uint8_t unit;

	if (!find_text(type, place, &unit, &address, &length))
		return false;
	bool optional = strncmp(debug_name(&die), "Option<", strlen("Option<")) == 0;
	shape_text(shape, name, &address, &length,
		   optional ? DT_STRING_OPTIONAL : DT_STRING_COUNTED);
	if (!shape->failed && vec_last(&shape->stores)->code == DT_OP_STRING)
		vec_last(&shape->stores)->load = unit;
	return true;
}
