/*
 * view_field.c - walk a field of libbabeltrace2's, for event_line.h.
 */
#include <string.h>

#include "control/base/plain_text.h"
#include "view.h"

/* ---- numbers ------------------------------------------------------------------------------- */

static unsigned int base_of(const bt_field *field)
{
	switch (bt_field_class_integer_get_preferred_display_base(
		bt_field_borrow_class_const(field))) {
	case BT_FIELD_CLASS_INTEGER_PREFERRED_DISPLAY_BASE_HEXADECIMAL:
		return 16;
	case BT_FIELD_CLASS_INTEGER_PREFERRED_DISPLAY_BASE_OCTAL:
		return 8;
	case BT_FIELD_CLASS_INTEGER_PREFERRED_DISPLAY_BASE_BINARY:
		return 2;
	default:
		return 10;
	}
}

static void print_unsigned(struct viewer *viewer, const bt_field *field)
{
	event_line_unsigned(&viewer->line, bt_field_integer_unsigned_get_value(field),
			    base_of(field));
}

static void print_signed(struct viewer *viewer, const bt_field *field)
{
	event_line_signed(&viewer->line, bt_field_integer_signed_get_value(field), base_of(field),
			  (unsigned)bt_field_class_integer_get_field_value_range(
				  bt_field_borrow_class_const(field)));
}

/* A value without a label is a number. */
static void print_enumeration(struct viewer *viewer, const bt_field *field, bool is_signed)
{
	bt_field_class_enumeration_mapping_label_array labels = NULL;
	uint64_t count = 0;

	if (is_signed)
		bt_field_enumeration_signed_get_mapping_labels(field, &labels, &count);
	else
		bt_field_enumeration_unsigned_get_mapping_labels(field, &labels, &count);
	if (count && !event_line_label(&viewer->line, labels[0]))
		return;
	(is_signed ? print_signed : print_unsigned)(viewer, field);
	if (count)
		event_line_label_end(&viewer->line);
}

static void print_unsigned_enumeration(struct viewer *viewer, const bt_field *field)
{
	print_enumeration(viewer, field, false);
}

static void print_signed_enumeration(struct viewer *viewer, const bt_field *field)
{
	print_enumeration(viewer, field, true);
}

static void print_single(struct viewer *viewer, const bt_field *field)
{
	event_line_real(&viewer->line, (double)bt_field_real_single_precision_get_value(field),
			true);
}

static void print_double(struct viewer *viewer, const bt_field *field)
{
	event_line_real(&viewer->line, bt_field_real_double_precision_get_value(field), false);
}

static void print_bool(struct viewer *viewer, const bt_field *field)
{
	text_add(&viewer->line.text, bt_field_bool_get_value(field) ? "true" : "false");
}

static void print_bits(struct viewer *viewer, const bt_field *field)
{
	event_line_unsigned(&viewer->line, bt_field_bit_array_get_value_as_integer(field), 16);
}

/* ---- compounds ----------------------------------------------------------------------------- */

static void print_string(struct viewer *viewer, const bt_field *field)
{
	event_line_string(&viewer->line, bt_field_string_get_value(field),
			  bt_field_string_get_length(field));
}

static void print_array(struct viewer *viewer, const bt_field *field)
{
	uint64_t length = bt_field_array_get_length(field);

	event_line_open(&viewer->line, '[');
	for (uint64_t i = 0; i < length; i++) {
		event_line_element(&viewer->line);
		view_field_value(viewer,
				 bt_field_array_borrow_element_field_by_index_const(field, i));
	}
	event_line_close(&viewer->line, '[');
}

static void print_structure(struct viewer *viewer, const bt_field *field)
{
	event_line_open(&viewer->line, '{');
	view_field_members(viewer, field);
	event_line_close(&viewer->line, '{');
}

static void print_option(struct viewer *viewer, const bt_field *field)
{
	const bt_field *content = bt_field_option_borrow_field_const(field);

	if (content)
		view_field_value(viewer, content);
	else
		text_add(&viewer->line.text, viewer->line.json ? "null" : "none");
}

static void print_variant(struct viewer *viewer, const bt_field *field)
{
	view_field_value(viewer, bt_field_variant_borrow_selected_option_field_const(field));
}

/* The first matching row counts: enumerations are integers too. */
static const struct {
	bt_field_class_type type;
	void (*print)(struct viewer *viewer, const bt_field *field);
} printers[] = {
	{ BT_FIELD_CLASS_TYPE_UNSIGNED_ENUMERATION, print_unsigned_enumeration },
	{ BT_FIELD_CLASS_TYPE_SIGNED_ENUMERATION, print_signed_enumeration },
	{ BT_FIELD_CLASS_TYPE_UNSIGNED_INTEGER, print_unsigned },
	{ BT_FIELD_CLASS_TYPE_SIGNED_INTEGER, print_signed },
	{ BT_FIELD_CLASS_TYPE_STRING, print_string },
	{ BT_FIELD_CLASS_TYPE_SINGLE_PRECISION_REAL, print_single },
	{ BT_FIELD_CLASS_TYPE_DOUBLE_PRECISION_REAL, print_double },
	{ BT_FIELD_CLASS_TYPE_BOOL, print_bool },
	{ BT_FIELD_CLASS_TYPE_BIT_ARRAY, print_bits },
	{ BT_FIELD_CLASS_TYPE_STRUCTURE, print_structure },
	{ BT_FIELD_CLASS_TYPE_ARRAY, print_array },
	{ BT_FIELD_CLASS_TYPE_OPTION, print_option },
	{ BT_FIELD_CLASS_TYPE_VARIANT, print_variant },
};

void view_field_value(struct viewer *viewer, const bt_field *field)
{
	bt_field_class_type type = bt_field_get_class_type(field);

	for (size_t i = 0; i < sizeof(printers) / sizeof(*printers); i++) {
		if (bt_field_class_type_is(type, printers[i].type)) {
			printers[i].print(viewer, field);
			return;
		}
	}
	text_add(&viewer->line.text, viewer->line.json ? "null" : "?");
}

static bool is_silent(const char *name, const bt_field *field)
{
	bool is_string =
		bt_field_class_type_is(bt_field_get_class_type(field), BT_FIELD_CLASS_TYPE_STRING);

	return event_line_is_silent(name, is_string,
				    is_string ? bt_field_string_get_length(field) : 0);
}

static bool is_backtrace(const char *name, const bt_field *field)
{
	return strcmp(name, "backtrace") == 0 &&
	       bt_field_class_type_is(bt_field_get_class_type(field), BT_FIELD_CLASS_TYPE_ARRAY);
}

/* Prints addresses as functions: the first is the probe's, the others are return addresses. */
static void print_backtrace(struct viewer *viewer, const bt_field *field)
{
	uint64_t length = bt_field_array_get_length(field);

	event_line_open(&viewer->line, '[');
	for (uint64_t i = 0; i < length; i++) {
		const bt_field *element =
			bt_field_array_borrow_element_field_by_index_const(field, i);

		event_line_frame(&viewer->line, bt_field_integer_unsigned_get_value(element),
				 i > 0);
	}
	event_line_close(&viewer->line, '[');
}

void view_field_members(struct viewer *viewer, const bt_field *structure)
{
	const bt_field_class *class = bt_field_borrow_class_const(structure);
	uint64_t count = bt_field_class_structure_get_member_count(class);

	for (uint64_t i = 0; i < count; i++) {
		const bt_field_class_structure_member *member =
			bt_field_class_structure_borrow_member_by_index_const(class, i);

		const char *name = bt_field_class_structure_member_get_name(member);
		const bt_field *field =
			bt_field_structure_borrow_member_field_by_index_const(structure, i);

		if (is_silent(name, field))
			continue;
		event_line_key(&viewer->line, name);
		if (is_backtrace(name, field))
			print_backtrace(viewer, field);
		else
			view_field_value(viewer, field);
	}
}
