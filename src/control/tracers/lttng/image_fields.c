#include "image_fields.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Other characters make LTTng's metadata, and so the whole trace, unreadable. */
static void clean_name(char *to, size_t room, const char *from)
{
	size_t i = 0;

	for (; from[i] && i + 1 < room; i++)
		to[i] = isalnum((unsigned char)from[i]) ? from[i] : '_';
	to[i] = '\0';
}

static const uint8_t bridge_types[] = {
	[FIELD_UINT] = DT_BRIDGE_UINT,	     [FIELD_INT] = DT_BRIDGE_INT,
	[FIELD_HEX] = DT_BRIDGE_HEX,	     [FIELD_FLOAT] = DT_BRIDGE_FLOAT,
	[FIELD_ENUM] = DT_BRIDGE_UINT,	     [FIELD_STRING] = DT_BRIDGE_STRING,
	[FIELD_FRAMES] = DT_BRIDGE_SEQUENCE, [FIELD_LIST] = DT_BRIDGE_LIST,
};

/* Members of structs become fields of their own: outer_inner. */
struct flat {
	char prefix[2 * DT_BRIDGE_FIELD_NAME];
	size_t lengths[8]; /* of the prefix, outside of each struct */
	unsigned depth;
	uint8_t align; /* of the struct that begins here */
};

static void enter_struct(struct flat *flat, const struct event_field *field)
{
	size_t length = strlen(flat->prefix);

	if (flat->depth < sizeof(flat->lengths) / sizeof(flat->lengths[0]))
		flat->lengths[flat->depth] = length;
	flat->depth++;
	snprintf(flat->prefix + length, sizeof(flat->prefix) - length, "%s_", field->name);
	if (field->size > flat->align)
		flat->align = field->size;
}

static void leave_struct(struct flat *flat)
{
	if (flat->depth)
		flat->depth--;
	if (flat->depth < sizeof(flat->lengths) / sizeof(flat->lengths[0]))
		flat->prefix[flat->lengths[flat->depth]] = '\0';
}

static uint8_t type_of(const struct event_field *field)
{
	assert(field->type < sizeof(bridge_types) / sizeof(bridge_types[0]));
	return field->type == FIELD_ENUM && field->is_signed ? DT_BRIDGE_INT :
							       bridge_types[field->type];
}

static void describe_field(const struct event_type *type, size_t index, struct flat *flat,
			   struct dt_bridge_field *to)
{
	const struct event_field *field = &type->fields[index];
	char name[4 * DT_BRIDGE_FIELD_NAME];

	snprintf(name, sizeof(name), "%s%s", flat->prefix, field->name);
	clean_name(to->name, sizeof(to->name), name);
	to->type = type_of(field);
	to->size = field->type == FIELD_FRAMES ? 8 : field->size ? field->size : 1;
	to->element = DT_BRIDGE_HEX;
	to->count = field->count;
	to->offset = field->offset;
	to->align = event_field_opens(field) || field->type == FIELD_FRAMES ? 4 :
		    field->type == FIELD_STRING				    ? 1 :
									      to->size;
	if (flat->align > to->align)
		to->align = flat->align;
	to->source = (uint16_t)index;
	flat->align = 0;
}

/* A field of a list's element, which has its own name, and structs around it. */
static void describe_inside(const struct event_type *type, size_t index,
			    struct dt_bridge_field *to)
{
	const struct event_field *field = &type->fields[index];
	struct flat none = { .prefix = "" };

	if (field->type != FIELD_STRUCT && field->type != FIELD_END) {
		describe_field(type, index, &none, to);
	} else {
		bool is_list = type->fields[event_field_find_begin(type->fields, index)].type ==
			       FIELD_LIST;

		to->type = field->type == FIELD_STRUCT ? DT_BRIDGE_OPEN :
			   is_list		       ? DT_BRIDGE_LIST_END :
							 DT_BRIDGE_CLOSE;
		clean_name(to->name, sizeof(to->name), field->name);
		to->size = to->align = field->size ? field->size : 1;
	}
	to->is_inside = 1;
}

static bool is_number_list(const struct event_type *type, size_t begin, size_t end)
{
	const struct event_field *element = &type->fields[begin + 1];

	return end == begin + 2 && !element->count && element->type != FIELD_FLOAT &&
	       element->type < FIELD_STRING;
}

/* Adds a list: LTTng's sequences are of integers, anything else becomes text. Gives the number of
 * fields; 0: there is no room for them all. */
static uint32_t add_list(const struct event_type *type, size_t begin, size_t end,
			 struct flat *flat, struct dt_bridge_field *to, uint32_t room)
{
	memset(to, 0, sizeof(*to));
	describe_field(type, begin, flat, to);
	if (is_number_list(type, begin, end)) {
		to->type = DT_BRIDGE_SEQUENCE;
		to->element = type_of(&type->fields[begin + 1]);
		return 1;
	}
	if (end - begin >= room)
		return 0;
	for (size_t i = begin + 1; i <= end; i++) {
		memset(&to[i - begin], 0, sizeof(*to));
		describe_inside(type, i, &to[i - begin]);
	}
	return (uint32_t)(end - begin + 1);
}

/* Two fields of one name make the trace unreadable, too. */
static void make_unique(const struct dt_bridge_field *fields, struct dt_bridge_field *last)
{
	for (unsigned n = 2; n < 100; n++) {
		bool taken = false;

		for (const struct dt_bridge_field *other = fields; other < last; other++)
			taken |= !other->is_inside && !strcmp(other->name, last->name);
		if (!taken)
			return;
		snprintf(last->name + (strlen(last->name) < 60 ? strlen(last->name) : 60), 4, "_%u",
			 n);
	}
}

struct dt_bridge_field image_fields_address(void)
{
	return (struct dt_bridge_field){
		.name = "address", .type = DT_BRIDGE_ADDRESS, .size = 8, .align = 1
	};
}

uint32_t image_fields_add(const struct event_type *type, struct dt_bridge_field *fields,
			  uint32_t before, uint32_t room)
{
	struct flat flat = { .prefix = "" };
	uint32_t count = before;

	assert(before <= room);
	for (size_t i = 0; i < type->field_count && count < room; i++) {
		const struct event_field *field = &type->fields[i];

		if (field->type == FIELD_STRUCT) {
			enter_struct(&flat, field);
		} else if (field->type == FIELD_END) {
			leave_struct(&flat);
		} else if (field->type == FIELD_LIST) {
			size_t end = event_field_find_end(type->fields, type->field_count, i);
			uint32_t added = add_list(type, i, end, &flat, &fields[count],
						  room - count);

			if (!added)
				break;
			make_unique(fields, &fields[count]);
			count += added;
			i = end;
		} else {
			memset(&fields[count], 0, sizeof(fields[count]));
			describe_field(type, i, &flat, &fields[count]);
			make_unique(fields, &fields[count]);
			count++;
		}
	}
	return count - before;
}
