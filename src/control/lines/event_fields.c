#include "event_fields.h"

#include <assert.h>
#include <string.h>

/* ---- values ---------------------------------------------------------------------------------- */

static uint64_t load(const struct event_cursor *cursor, size_t size)
{
	uint64_t value = 0;

	assert(size <= sizeof(value));
	if (cursor->at + size <= cursor->end)
		memcpy(&value, cursor->event + cursor->at, size);
	return value;
}

static int64_t sign_extend(uint64_t value, size_t size)
{
	unsigned shift = 64 - 8 * (unsigned)size;

	return (int64_t)(value << shift) >> shift;
}

static void align(struct event_cursor *cursor, const struct event_field *field)
{
	size_t size = field->size ? field->size : 1;

	if (field->offset)
		cursor->at = field->offset;
	else
		cursor->at = (cursor->at + size - 1) / size * size;
}

static void add_enum(struct event_line *line, const struct event_field *field, uint64_t value)
{
	int64_t number = field->is_signed ? sign_extend(value, field->size) : (int64_t)value;
	const char *label = event_field_label(field, number);

	if (label && !event_line_label(line, label))
		return;
	if (field->is_signed)
		event_line_signed(line, number, 10, field->size * 8u);
	else
		event_line_unsigned(line, value, 10);
	if (label)
		event_line_label_end(line);
}

static void add_number(struct event_line *line, const struct event_field *field,
		       struct event_cursor *cursor)
{
	uint64_t value = load(cursor, field->size);

	cursor->at += field->size;
	switch (field->type) {
	case FIELD_INT:
		event_line_signed(line, sign_extend(value, field->size), 10, field->size * 8u);
		break;
	case FIELD_FLOAT:
		event_line_float(line, value, field->size);
		break;
	case FIELD_ENUM:
		add_enum(line, field, value);
		break;
	default:
		event_line_unsigned(line, value, field->type == FIELD_HEX ? 16 : 10);
	}
}

static void add_frames(struct event_line *line, struct event_cursor *cursor)
{
	cursor->at = (cursor->at + 3) & ~3ULL;
	uint64_t count = load(cursor, 4);

	cursor->at = (cursor->at + 4 + 7) & ~7ULL;
	event_line_open(line, '[');
	for (uint64_t i = 0; i < count && cursor->at + 8 <= cursor->end; i++, cursor->at += 8)
		event_line_frame(line, load(cursor, 8), i > 0);
	event_line_close(line, '[');
}

static void add_value(struct event_line *line, const struct event_field *field,
		      struct event_cursor *cursor)
{
	align(cursor, field);
	if (!field->count) {
		add_number(line, field, cursor);
		return;
	}
	event_line_open(line, '[');
	for (unsigned i = 0; i < field->count; i++) {
		event_line_element(line);
		add_number(line, field, cursor);
	}
	event_line_close(line, '[');
}

/* ---- fields ---------------------------------------------------------------------------------- */

/* `name`: NULL for an element of a list. */
static void add_key(struct event_line *line, const char *name)
{
	if (name)
		event_line_key(line, name);
	else
		event_line_element(line);
}

static void add_string(struct event_line *line, const char *name, struct event_cursor *cursor)
{
	size_t room = cursor->end > cursor->at ? cursor->end - cursor->at : 0;
	const char *start = (const char *)cursor->event + cursor->at;
	size_t length = room ? strnlen(start, room) : 0;

	cursor->at += length + 1;
	if (name && event_line_is_silent(name, true, length))
		return;
	add_key(line, name);
	event_line_string(line, room ? start : "", length);
}

/* Elements have no names of their own. */
static void add_list(struct event_line *line, const struct event_fields *all, size_t index,
		     size_t end, struct event_cursor *cursor)
{
	cursor->at = (cursor->at + 3) & ~3ULL;
	uint64_t count = load(cursor, 4);

	cursor->at += 4;
	align(cursor, &all->fields[index]);
	event_line_open(line, '[');
	for (uint64_t i = 0; i < count && cursor->at < cursor->end; i++)
		event_fields_add(line, all, index + 1, end, true, cursor);
	event_line_close(line, '[');
}

static void add_field(struct event_line *line, const struct event_field *field, const char *name,
		      struct event_cursor *cursor)
{
	switch (field->type) {
	case FIELD_END:
		event_line_close(line, '{');
		break;
	case FIELD_STRUCT: /* its size is its alignment */
		align(cursor, field);
		add_key(line, name);
		event_line_open(line, '{');
		break;
	case FIELD_STRING:
		add_string(line, name, cursor);
		break;
	case FIELD_FRAMES:
		add_key(line, name);
		add_frames(line, cursor);
		break;
	default:
		add_key(line, name);
		add_value(line, field, cursor);
	}
}

void event_fields_add(struct event_line *line, const struct event_fields *all, size_t from,
		      size_t to, bool is_element, struct event_cursor *cursor)
{
	for (size_t i = from; i < to; i++) {
		const char *name = is_element && i == from ? NULL : all->names[i];

		if (all->fields[i].type == FIELD_LIST) {
			size_t end = event_field_find_end(all->fields, all->count, i);

			add_key(line, name);
			add_list(line, all, i, end, cursor);
			i = end;
		} else {
			add_field(line, &all->fields[i], name, cursor);
		}
	}
}
