/*
 * view_filter_bt.c - fields of libbabeltrace2's events, for filters.
 */
#include <babeltrace2/babeltrace.h>
#include <stdlib.h>
#include <string.h>

#include "view_filter.h"

#define WORD_MAX 128

static const bt_field *member_of(const bt_field *structure, const char *name)
{
	if (!structure || bt_field_get_class_type(structure) != BT_FIELD_CLASS_TYPE_STRUCTURE)
		return NULL;
	return bt_field_structure_borrow_member_field_by_name_const(structure, name);
}

static const bt_field *element_of(const bt_field *array, uint64_t index)
{
	if (!array ||
	    !bt_field_class_type_is(bt_field_get_class_type(array), BT_FIELD_CLASS_TYPE_ARRAY) ||
	    index >= bt_field_array_get_length(array))
		return NULL;
	return bt_field_array_borrow_element_field_by_index_const(array, index);
}

/* Finds the field that a path begins with; $tid and $pid are in the packet's context. */
static const bt_field *first_field(const bt_event *event, const char *name)
{
	const bt_packet *packet = bt_event_borrow_packet_const(event);
	const bt_field *parts[] = {
		bt_event_borrow_payload_field_const(event),
		bt_event_borrow_specific_context_field_const(event),
		bt_event_borrow_common_context_field_const(event),
	};

	if (name[0] == '$')
		return packet ? member_of(bt_packet_borrow_context_field_const(packet), name + 1) :
				NULL;
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		const bt_field *field = member_of(parts[i], name);

		if (field)
			return field;
	}
	return NULL;
}

static const bt_field *find_field(const bt_event *event, const char *path)
{
	const bt_field *field = NULL;

	for (bool first = true; *path; first = false) {
		size_t length = strcspn(path, ".[");
		char name[WORD_MAX];

		if (path[0] == '[') {
			char *end;

			field = element_of(field, strtoull(path + 1, &end, 0));
			path = *end == ']' ? end + 1 : end;
		} else {
			if (length >= sizeof(name))
				return NULL;
			memcpy(name, path, length);
			name[length] = '\0';
			field = first ? first_field(event, name) : member_of(field, name);
			path += length;
		}
		path += *path == '.';
		if (!field)
			return NULL;
	}
	return field;
}

static const char *event_name(const void *event)
{
	const char *name = bt_event_class_get_name(bt_event_borrow_class_const(event));

	return name ? name : "";
}

static void set_label(const bt_field *field, bt_field_class_type type, struct filter_value *value)
{
	bt_field_class_enumeration_mapping_label_array labels;
	uint64_t count = 0;
	bt_field_enumeration_get_mapping_labels_status status = 0;

	value->is_enum = bt_field_class_type_is(type, BT_FIELD_CLASS_TYPE_ENUMERATION);
	if (type == BT_FIELD_CLASS_TYPE_UNSIGNED_ENUMERATION)
		status = bt_field_enumeration_unsigned_get_mapping_labels(field, &labels, &count);
	else if (type == BT_FIELD_CLASS_TYPE_SIGNED_ENUMERATION)
		status = bt_field_enumeration_signed_get_mapping_labels(field, &labels, &count);
	if (status == BT_FIELD_ENUMERATION_GET_MAPPING_LABELS_STATUS_OK && count)
		value->text = labels[0];
}

/* Reads a field that has a single value. */
static bool find_value(const void *event, const char *path, struct filter_value *ret_value)
{
	const bt_field *field = find_field(event, path);
	bt_field_class_type type = field ? bt_field_get_class_type(field) : 0;
	struct filter_value value = { 0 };

	if (!field)
		return false;
	if (type == BT_FIELD_CLASS_TYPE_BOOL) {
		value.number = bt_field_bool_get_value(field);
	} else if (type == BT_FIELD_CLASS_TYPE_STRING) {
		value.kind = FILTER_TEXT;
		/* an empty one may still have the text of an earlier event (babeltrace2 2.0.4) */
		value.text = bt_field_string_get_length(field) ? bt_field_string_get_value(field) :
								 "";
	} else if (type == BT_FIELD_CLASS_TYPE_SINGLE_PRECISION_REAL) {
		float number = bt_field_real_single_precision_get_value(field);

		value.kind = FILTER_SINGLE;
		memcpy(&value.number, &number, sizeof(number));
	} else if (type == BT_FIELD_CLASS_TYPE_DOUBLE_PRECISION_REAL) {
		double number = bt_field_real_double_precision_get_value(field);

		value.kind = FILTER_DOUBLE;
		memcpy(&value.number, &number, sizeof(number));
	} else if (bt_field_class_type_is(type, BT_FIELD_CLASS_TYPE_SIGNED_INTEGER)) {
		value.kind = FILTER_SIGNED;
		value.number = (uint64_t)bt_field_integer_signed_get_value(field);
	} else if (bt_field_class_type_is(type, BT_FIELD_CLASS_TYPE_UNSIGNED_INTEGER)) {
		value.number = bt_field_integer_unsigned_get_value(field);
	} else {
		return false;
	}
	set_label(field, type, &value);
	*ret_value = value;
	return true;
}

static bool has_field(const void *event, const char *path)
{
	return find_field(event, path) != NULL;
}

/* The value of a label of this enumeration; false: no enumeration, or it has no such label. */
static bool label_of(const bt_field_class *class, const char *name, int64_t *ret_value)
{
	const bt_field_class_enumeration_unsigned_mapping *number = NULL;
	const bt_field_class_enumeration_signed_mapping *integer = NULL;
	bt_field_class_type type = bt_field_class_get_type(class);

	if (type == BT_FIELD_CLASS_TYPE_UNSIGNED_ENUMERATION)
		number = bt_field_class_enumeration_unsigned_borrow_mapping_by_label_const(class,
											   name);
	else if (type == BT_FIELD_CLASS_TYPE_SIGNED_ENUMERATION)
		integer = bt_field_class_enumeration_signed_borrow_mapping_by_label_const(class,
											  name);
	if (number)
		*ret_value = (int64_t)bt_integer_range_unsigned_get_lower(
			bt_integer_range_set_unsigned_borrow_range_by_index_const(
				bt_field_class_enumeration_unsigned_mapping_borrow_ranges_const(
					number),
				0));
	else if (integer)
		*ret_value = bt_integer_range_signed_get_lower(
			bt_integer_range_set_signed_borrow_range_by_index_const(
				bt_field_class_enumeration_signed_mapping_borrow_ranges_const(
					integer),
				0));
	return number || integer;
}

/* Looks for a label in a type and in what it is made of. Returns the number of values that have it,
 * of which two are enough. */
static unsigned add_label(const bt_field_class *class, const char *name, unsigned found,
			  int64_t *value)
{
	bt_field_class_type type = bt_field_class_get_type(class);
	int64_t one;

	if (bt_field_class_type_is(type, BT_FIELD_CLASS_TYPE_ARRAY))
		return add_label(bt_field_class_array_borrow_element_field_class_const(class), name,
				 found, value);
	if (type == BT_FIELD_CLASS_TYPE_STRUCTURE) {
		uint64_t count = bt_field_class_structure_get_member_count(class);

		for (uint64_t i = 0; i < count && found < 2; i++)
			found = add_label(
				bt_field_class_structure_member_borrow_field_class_const(
					bt_field_class_structure_borrow_member_by_index_const(
						class, i)),
				name, found, value);
	} else if (label_of(class, name, &one) && !(found && *value == one)) {
		found++;
		*value = one;
	}
	return found;
}

static unsigned find_label(const void *event, const char *name, int64_t *ret_value)
{
	const bt_field *payload = bt_event_borrow_payload_field_const(event);

	return payload ? add_label(bt_field_borrow_class_const(payload), name, 0, ret_value) : 0;
}

static const char *field_name(const void *event, size_t index)
{
	const bt_field *payload = bt_event_borrow_payload_field_const(event);
	const bt_field_class *class = payload ? bt_field_borrow_class_const(payload) : NULL;

	if (!class || index >= bt_field_class_structure_get_member_count(class))
		return NULL;
	return bt_field_class_structure_member_get_name(
		bt_field_class_structure_borrow_member_by_index_const(class, index));
}

static const void *event_class(const void *event)
{
	return bt_event_borrow_class_const(event);
}

const struct filter_source view_filter_bt = {
	.find = find_value,
	.has = has_field,
	.find_label = find_label,
	.name = event_name,
	.field = field_name,
	.class = event_class,
};
