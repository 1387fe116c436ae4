/*
 * view_filter_own.c - fields of our own reader's events, for filters.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "control/ctf/read/trace_merge.h"
#include "view_filter.h"

#define WORD_MAX 128

/* $tid and others: members of a packet's context. */
static const struct {
	const char *name;
	size_t offset;
} context[] = {
	{ "$tid", offsetof(struct metadata_packet, tid) },
	{ "$pid", offsetof(struct metadata_packet, pid) },
	{ "$vtid", offsetof(struct metadata_packet, vtid) },
	{ "$vpid", offsetof(struct metadata_packet, vpid) },
};

static bool find_context(const struct metadata_packet *head, const char *name,
			 struct filter_value *ret_value)
{
	for (size_t i = 0; i < sizeof(context) / sizeof(context[0]); i++) {
		if (strcmp(context[i].name, name) != 0)
			continue;
		*ret_value = (struct filter_value){ .kind = FILTER_UNSIGNED };
		memcpy(&ret_value->number, (const char *)head + context[i].offset,
		       sizeof(head->tid));
		return true;
	}
	return false;
}

/* A field, or one element of an array. */
struct found {
	struct layout_place place;
	bool is_element;
};

static bool find_member(struct layout_walk walk, const char *name, struct found *ret_found)
{
	while (layout_walk_next(&walk, &ret_found->place)) {
		if (strcmp(ret_found->place.field->name, name) != 0)
			continue;
		ret_found->is_element = false;
		return true;
	}
	return false;
}

static bool is_array(const struct found *found)
{
	return found->place.field->array != LAYOUT_ONE && !found->is_element;
}

static bool find_element(const uint8_t *event, uint64_t index, struct found *found)
{
	if (!is_array(found) || index >= found->place.count)
		return false;
	for (uint64_t i = 0; i < index; i++)
		found->place.bytes = layout_skip(found->place.field, event, found->place.bytes);
	found->is_element = true;
	return true;
}

static bool find_field(const struct packet_cursor *cursor, const char *path, struct found *found)
{
	for (bool first = true; *path; first = false) {
		size_t length = strcspn(path, ".[");
		char name[WORD_MAX];

		if (path[0] == '[') {
			char *end;
			uint64_t index = strtoull(path + 1, &end, 0);

			if (first || !find_element(cursor->event, index, found))
				return false;
			path = *end == ']' ? end + 1 : end;
			path += *path == '.';
			continue;
		}
		if (length >= sizeof(name))
			return false;
		memcpy(name, path, length);
		name[length] = '\0';
		path += length;
		path += *path == '.';
		if (!first && (is_array(found) || found->place.field->kind != LAYOUT_STRUCT))
			return false;
		if (!find_member(first ? layout_walk_event(cursor->type, cursor->event) :
					 layout_walk_members(found->place.field, cursor->event,
							     found->place.bytes),
				 name, found))
			return false;
	}
	return true;
}

static bool find_value(const void *event, const char *path, struct filter_value *ret_value)
{
	const struct packet_cursor *cursor = event;
	struct found found = { 0 };

	if (path[0] == '$')
		return find_context(&cursor->head, path, ret_value);
	if (!*path || !find_field(cursor, path, &found) || is_array(&found) ||
	    found.place.field->kind == LAYOUT_STRUCT)
		return false;
	const struct layout_field *field = found.place.field;
	*ret_value = (struct filter_value){
		.kind = field->kind == LAYOUT_STRING ? FILTER_TEXT :
			field->kind == LAYOUT_FLOAT  ? (field->size == 4 ? FILTER_SINGLE :
									  FILTER_DOUBLE) :
			field->is_signed	     ? FILTER_SIGNED :
						       FILTER_UNSIGNED,
		.number = layout_number(field, found.place.bytes),
		.text = field->kind == LAYOUT_STRING ? (const char *)found.place.bytes : NULL,
		.is_enum = field->kind == LAYOUT_ENUM,
	};
	if (ret_value->is_enum)
		ret_value->text = layout_label(field, ret_value->number);
	return true;
}

bool view_filter_place(const void *event, const char *path, struct layout_place *ret_place)
{
	struct found found = { 0 };

	if (!*path || !find_field(event, path, &found) || found.is_element || is_array(&found))
		return false;
	*ret_place = found.place;
	return true;
}

static bool has_field(const void *event, const char *path)
{
	struct found found = { 0 };

	return *path && find_field(event, path, &found);
}

/* Looks for a label in the fields and in their members. Returns the number of values that have it,
 * of which two are enough. */
static unsigned add_label(const struct layout_fields *fields, const char *name, unsigned found,
			  int64_t *value)
{
	for (size_t i = 0; i < fields->count && found < 2; i++) {
		const struct layout_field *field = &fields->items[i];

		for (size_t j = 0; j < field->labels.count; j++) {
			const struct layout_label *label = &field->labels.items[j];

			if (strcmp(label->name, name) != 0 || (found && *value == label->value))
				continue;
			found++;
			*value = label->value;
		}
		found = add_label(&field->members, name, found, value);
	}
	return found;
}

static unsigned find_label(const void *event, const char *name, int64_t *ret_value)
{
	const struct layout_event *type = ((const struct packet_cursor *)event)->type;

	return add_label(&type->fields, name, 0, ret_value);
}

static const char *event_name(const void *event)
{
	return ((const struct packet_cursor *)event)->type->name;
}

static const char *field_name(const void *event, size_t index)
{
	const struct layout_fields *fields = &((const struct packet_cursor *)event)->type->fields;

	return index < fields->count ? fields->items[index].name : NULL;
}

static const void *event_class(const void *event)
{
	return ((const struct packet_cursor *)event)->type;
}

const struct filter_source view_filter_own = {
	.find = find_value,
	.has = has_field,
	.find_label = find_label,
	.name = event_name,
	.field = field_name,
	.class = event_class,
};
