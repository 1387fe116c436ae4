/*
 * view_field.c - the value of a field as text or JSON.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options/table_text.h"
#include "control/base/cleanup.h"
#include "view.h"
#include "view_frames.h"

static void quote(struct viewer *viewer, const char *bytes, size_t length)
{
	(viewer->json ? quote_json : quote_c)(&viewer->text, bytes, length);
}

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
	uint64_t value = bt_field_integer_unsigned_get_value(field);
	unsigned int base = viewer->json ? 10 : base_of(field);

	if (base == 10)
		text_unsigned(&viewer->text, value);
	else
		text_based(&viewer->text, value, base);
}

/* In a base other than ten, a negative number shows its bits. */
static void print_signed(struct viewer *viewer, const bt_field *field)
{
	int64_t value = bt_field_integer_signed_get_value(field);
	unsigned int base = viewer->json ? 10 : base_of(field);
	uint64_t bits =
		bt_field_class_integer_get_field_value_range(bt_field_borrow_class_const(field));

	if (base == 10)
		text_signed(&viewer->text, value);
	else
		text_based(&viewer->text, (uint64_t)value & (~0ULL >> (64 - bits)), base);
}

/* Prints "LABEL (NUMBER)", in JSON only the label; a value without a label is a number. */
static void print_enumeration(struct viewer *viewer, const bt_field *field, bool is_signed)
{
	bt_field_class_enumeration_mapping_label_array labels = NULL;
	uint64_t count = 0;

	if (is_signed)
		bt_field_enumeration_signed_get_mapping_labels(field, &labels, &count);
	else
		bt_field_enumeration_unsigned_get_mapping_labels(field, &labels, &count);
	if (!count) {
		(is_signed ? print_signed : print_unsigned)(viewer, field);
		return;
	}
	if (viewer->json) {
		quote(viewer, labels[0], strlen(labels[0]));
		return;
	}
	text_foreign(&viewer->text, labels[0]);
	text_add(&viewer->text, " (");
	(is_signed ? print_signed : print_unsigned)(viewer, field);
	text_add(&viewer->text, ")");
}

static void print_unsigned_enumeration(struct viewer *viewer, const bt_field *field)
{
	print_enumeration(viewer, field, false);
}

static void print_signed_enumeration(struct viewer *viewer, const bt_field *field)
{
	print_enumeration(viewer, field, true);
}

/* Prints the shortest text that reads back as the same number. JSON has no NaN and infinity: these
 * become strings. */
void view_field_real(struct viewer *viewer, double value, bool is_single)
{
	char text[40];

	if (viewer->json && !isfinite(value)) {
		text_add(&viewer->text, isnan(value) ? "\"NaN\""
					: value > 0  ? "\"Infinity\""
						     : "\"-Infinity\"");
		return;
	}
	for (int digits = is_single ? 6 : 15; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, value);
		if (is_single ? strtof(text, NULL) == (float)value : strtod(text, NULL) == value)
			break;
	}
	text_own(&viewer->text, text);
}

static void print_single(struct viewer *viewer, const bt_field *field)
{
	view_field_real(viewer, (double)bt_field_real_single_precision_get_value(field), true);
}

static void print_double(struct viewer *viewer, const bt_field *field)
{
	view_field_real(viewer, bt_field_real_double_precision_get_value(field), false);
}

static void print_bool(struct viewer *viewer, const bt_field *field)
{
	text_add(&viewer->text, bt_field_bool_get_value(field) ? "true" : "false");
}

static void print_bits(struct viewer *viewer, const bt_field *field)
{
	uint64_t value = bt_field_bit_array_get_value_as_integer(field);

	if (viewer->json)
		text_unsigned(&viewer->text, value);
	else
		text_based(&viewer->text, value, 16);
}

/* ---- compounds ----------------------------------------------------------------------------- */

static void print_string(struct viewer *viewer, const bt_field *field)
{
	quote(viewer, bt_field_string_get_value(field), bt_field_string_get_length(field));
}

static void print_array(struct viewer *viewer, const bt_field *field)
{
	uint64_t length = bt_field_array_get_length(field);

	text_add(&viewer->text, viewer->json ? "[" : length ? "[ " : "[");
	for (uint64_t i = 0; i < length; i++) {
		if (i)
			text_add(&viewer->text, viewer->json ? "," : ", ");
		view_field_value(viewer,
				 bt_field_array_borrow_element_field_by_index_const(field, i));
	}
	text_add(&viewer->text, viewer->json ? "]" : length ? " ]" : "]");
}

static void print_structure(struct viewer *viewer, const bt_field *field)
{
	text_add(&viewer->text, viewer->json ? "{" : "{ ");
	view_field_members(viewer, field, false);
	text_add(&viewer->text, viewer->json ? "}" : " }");
}

static void print_option(struct viewer *viewer, const bt_field *field)
{
	const bt_field *content = bt_field_option_borrow_field_const(field);

	if (content)
		view_field_value(viewer, content);
	else
		text_add(&viewer->text, viewer->json ? "null" : "none");
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
	text_add(&viewer->text, viewer->json ? "null" : "?");
}

static void print_key(struct viewer *viewer, const char *name)
{
	if (viewer->json) {
		quote(viewer, name, strlen(name));
		text_add(&viewer->text, ":");
		return;
	}
	text_own(&viewer->text, viewer->colours.key);
	text_foreign(&viewer->text, name);
	text_own(&viewer->text, viewer->colours.off);
	text_add(&viewer->text, " = ");
}

static bool ends_with(const char *text, const char *end)
{
	size_t length = strlen(text), tail = strlen(end);

	return length >= tail && strcmp(text + length - tail, end) == 0;
}

/* Fields without information: an empty "unreadable", the length of the following array, gaps. */
static bool is_silent(const char *name, const bt_field *field)
{
	if (bt_field_class_type_is(bt_field_get_class_type(field), BT_FIELD_CLASS_TYPE_STRING))
		return strcmp(name, "unreadable") == 0 && bt_field_string_get_length(field) == 0;
	return ends_with(name, "__length") || strncmp(name, "_unused_", strlen("_unused_")) == 0;
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
	_cleanup_(strbuf_free) struct strbuf frame = { 0 };

	text_add(&viewer->text, viewer->json ? "[" : "[ ");
	for (uint64_t i = 0; i < length; i++) {
		const bt_field *element =
			bt_field_array_borrow_element_field_by_index_const(field, i);

		if (i)
			text_add(&viewer->text, viewer->json ? "," : ", ");
		frame.length = 0;
		frames_print(viewer->frames, bt_field_integer_unsigned_get_value(element),
			     viewer->cycles, i > 0, &frame);
		if (viewer->json)
			quote(viewer, frame.text ? frame.text : "", frame.length);
		else
			text_foreign(&viewer->text, frame.text ? frame.text : "");
	}
	text_add(&viewer->text, viewer->json ? "]" : " ]");
}

bool view_field_members(struct viewer *viewer, const bt_field *structure, bool any)
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
		if (any)
			text_add(&viewer->text, viewer->json ? "," : ", ");
		print_key(viewer, name);
		if (is_backtrace(name, field))
			print_backtrace(viewer, field);
		else
			view_field_value(viewer, field);
		any = true;
	}
	return any;
}
