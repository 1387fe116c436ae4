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
	[FIELD_FRAMES] = DT_BRIDGE_SEQUENCE,
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

static void describe_field(const struct event_field *field, struct flat *flat,
			   struct dt_bridge_field *to)
{
	char name[4 * DT_BRIDGE_FIELD_NAME];

	assert(field->type < sizeof(bridge_types) / sizeof(bridge_types[0]));
	snprintf(name, sizeof(name), "%s%s", flat->prefix, field->name);
	clean_name(to->name, sizeof(to->name), name);
	to->type = bridge_types[field->type];
	if (field->type == FIELD_ENUM && field->is_signed)
		to->type = DT_BRIDGE_INT;
	to->size = field->size ? field->size : 1;
	to->count = field->count;
	to->offset = field->offset;
	to->align = field->type == FIELD_FRAMES ? 4 : field->type == FIELD_STRING ? 1 : to->size;
	if (flat->align > to->align)
		to->align = flat->align;
	flat->align = 0;
}

/* Two fields of one name make the trace unreadable, too. */
static void make_unique(const struct dt_bridge_field *fields, struct dt_bridge_field *last)
{
	for (unsigned n = 2; n < 100; n++) {
		bool taken = false;

		for (const struct dt_bridge_field *other = fields; other < last; other++)
			taken |= !strcmp(other->name, last->name);
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
		} else {
			memset(&fields[count], 0, sizeof(fields[count]));
			describe_field(field, &flat, &fields[count]);
			make_unique(fields, &fields[count]);
			count++;
		}
	}
	return count - before;
}
