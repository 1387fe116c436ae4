/* event.c - names, sizes and comparison of events. */
#include "event.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/align.h"

void event_fields_free(struct event_field *fields, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		for (size_t j = 0; j < fields[i].label_count; j++)
			free(fields[i].labels[j].name);
		free(fields[i].labels);
	}
	free(fields);
}

void event_types_free(struct event_types *types)
{
	for (size_t i = 0; i < types->count; i++) {
		free(types->items[i].name);
		free(types->items[i].labels);
		event_fields_free(types->items[i].fields, types->items[i].field_count);
	}
	free(types->items);
	*types = (struct event_types){ 0 };
}

/* ---- names ----------------------------------------------------------------------------------- */

static char identifier_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ? c : '_';
}

static bool have_same_name(const struct event_field *a, const struct event_field *b)
{
	size_t i = 0;

	while (i < sizeof(a->name) && a->name[i] && b->name[i] &&
	       identifier_char(a->name[i]) == identifier_char(b->name[i]))
		i++;
	return i == sizeof(a->name) || (!a->name[i] && !b->name[i]);
}

/* Does a field before this one, in the same struct, have its name? */
static bool is_taken(const struct event_field *fields, size_t index)
{
	/* skips the struct that ends here */
	size_t depth = fields[index].type == FIELD_END;

	for (size_t i = index; i-- > 0;) {
		const struct event_field *other = &fields[i];

		if (event_field_opens(other) && depth == 0)
			return false;
		depth -= event_field_opens(other);
		if (depth == 0 && !event_field_opens(other) &&
		    have_same_name(other, &fields[index]))
			return true;
		depth += other->type == FIELD_END;
	}
	return false;
}

void event_field_name(const struct event_field *fields, size_t index,
		      char ret_name[EVENT_NAME_MAX])
{
	const struct event_field *field = &fields[index];
	size_t length = 0;

	while (length < sizeof(field->name) && field->name[length]) {
		ret_name[length] = identifier_char(field->name[length]);
		length++;
	}
	ret_name[length] = '\0';
	if (is_taken(fields, index))
		snprintf(ret_name + length, EVENT_NAME_MAX - length, "__%zu", index);
}

bool event_field_opens(const struct event_field *field)
{
	return field->type == FIELD_STRUCT || field->type == FIELD_LIST;
}

bool event_field_is_character(const struct event_field *field)
{
	return field->type == FIELD_ENUM && field->label_count &&
	       field->labels[0].name[0] == '\'';
}

size_t event_field_find_begin(const struct event_field *fields, size_t end)
{
	size_t at = end, depth = 1;

	while (depth && at-- > 0) {
		depth += fields[at].type == FIELD_END;
		depth -= event_field_opens(&fields[at]);
	}
	return depth ? end : at;
}

size_t event_field_find_end(const struct event_field *fields, size_t count, size_t begin)
{
	size_t at = begin, depth = 1;

	while (depth && ++at < count) {
		depth += event_field_opens(&fields[at]);
		depth -= fields[at].type == FIELD_END;
	}
	return depth ? begin : at;
}

const char (*event_type_labels(struct event_type *type))[EVENT_NAME_MAX]
{
	if (!type->labels)
		type->labels = calloc(type->field_count + 1, sizeof(*type->labels));
	else
		return (const char(*)[EVENT_NAME_MAX])type->labels;
	for (size_t i = 0; i < type->field_count && type->labels; i++) {
		event_field_name(type->fields, i, type->labels[i]);
		if (type->fields[i].type == FIELD_END)
			memmove(type->labels[event_field_find_begin(type->fields, i)],
				type->labels[i], EVENT_NAME_MAX);
	}
	return (const char(*)[EVENT_NAME_MAX])type->labels;
}

const char *event_field_label(const struct event_field *field, int64_t value)
{
	for (size_t i = 0; i < field->label_count; i++) {
		if (field->labels[i].value == value)
			return field->labels[i].name;
	}
	return NULL;
}

/* ---- sizes ----------------------------------------------------------------------------------- */

size_t event_field_end(const struct event_field *field)
{
	if (event_field_opens(field) || field->type == FIELD_END)
		return field->offset;
	return field->offset + (size_t)field->size * (field->count ? field->count : 1);
}

/* Bytes of an array of addresses with its count before it, from `at` on; 0: too many. */
static size_t measure_frames(const uint8_t *bytes, size_t at, size_t size)
{
	size_t start = (at + 3) / 4 * 4, first = (start + 4 + 7) / 8 * 8;
	uint32_t count;

	if (start + 4 > size)
		return 0;
	memcpy(&count, bytes + start, sizeof(count));
	return count <= size / 8 && first + (size_t)count * 8 <= size ? first + (size_t)count * 8 :
									0;
}

size_t event_measure_string(const void *event, size_t at, size_t size)
{
	const char *bytes = event, *found = at < size ? memchr(bytes + at, 0, size - at) : NULL;

	return found ? (size_t)(found - bytes) + 1 : 0;
}

struct measure {
	const struct event_type *type;
	const uint8_t *bytes;
	size_t size;
};

static size_t measure_fields(const struct measure *m, size_t from, size_t to, size_t at);

/* Bytes of a list, from `at` on; 0: too many. Every element has a byte at least. */
static size_t measure_list(const struct measure *m, size_t index, size_t end, size_t at)
{
	size_t start = (at + 3) / 4 * 4, align = m->type->fields[index].size;
	uint32_t count;

	if (start + 4 > m->size)
		return 0;
	memcpy(&count, m->bytes + start, sizeof(count));
	at = start + 4;
	at = align ? align_up(at, align) : at;
	if (count > m->size)
		return 0;
	for (uint32_t i = 0; i < count && at; i++)
		at = measure_fields(m, index + 1, end, at);
	return at <= m->size ? at : 0;
}

/* Offset after the fields, which begin at `at`; 0: they don't fit. */
static size_t measure_fields(const struct measure *m, size_t from, size_t to, size_t at)
{
	const uint8_t *bytes = m->bytes;

	for (size_t i = from; i < to && at; i++) {
		const struct event_field *field = &m->type->fields[i];
		size_t align = field->size ? field->size : 1, last;

		switch (field->type) {
		case FIELD_STRING:
			at = event_measure_short(bytes, at, m->size);
			break;
		case FIELD_FRAMES:
			at = measure_frames(bytes, at, m->size);
			break;
		case FIELD_LIST:
			last = event_field_find_end(m->type->fields, m->type->field_count, i);
			at = measure_list(m, i, last, at);
			i = last;
			break;
		case FIELD_END:
			break;
		case FIELD_STRUCT: /* its size is its alignment */
			at = align_up(at, align);
			break;
		default:
			at = align_up(at, align);
			at += (size_t)field->size * (field->count ? field->count : 1);
		}
		if (at > m->size)
			at = 0;
	}
	return at;
}

size_t event_measure_fields(const struct event_type *type, const void *event, size_t size)
{
	struct measure m = { .type = type, .bytes = event, .size = size };
	size_t at = type->fixed_end ? type->fixed_end : sizeof(uint64_t);

	return at <= size ? measure_fields(&m, type->fixed_count, type->field_count, at) : 0;
}

static bool is_fixed(const struct event_field *field)
{
	return field->type != FIELD_STRING && field->type != FIELD_FRAMES &&
	       field->type != FIELD_LIST;
}

void event_type_learn(struct event_type *type)
{
	struct measure m = { .type = type, .size = UINT16_MAX };
	size_t count = 0;

	while (count < type->field_count && count < UINT16_MAX && is_fixed(&type->fields[count]))
		count++;
	size_t end = measure_fields(&m, 0, count, sizeof(uint64_t));
	if (!end) /* too long for an event */
		return;
	type->fixed_count = (uint16_t)count;
	type->fixed_end = (uint16_t)end;
	while (count < type->field_count && type->fields[count].type == FIELD_STRING)
		count++;
	type->is_plain = count == type->field_count;
}

uint32_t event_type_pool_size(const struct event_type *type)
{
	return type->size && type->is_pair ? type->size + (type - 1)->size : type->size;
}

static size_t measure_any(const struct event_type *type, const uint8_t *event, size_t size)
{
	if (type->is_variable)
		return event_measure(type, event, size);
	return type->size <= size ? type->size : 0;
}

/* Either event is measured as if a header were in the word before its fields. */
size_t event_measure_entry(const struct event_type *exit, const void *event, size_t size)
{
	size_t head = sizeof(uint64_t);
	size_t entry =
		size > head ? measure_any(exit - 1, (const uint8_t *)event + head, size - head) : 0;

	return (entry + 7) / 8 * 8;
}

size_t event_measure_pair(const struct event_type *exit, const void *event, size_t size,
			  size_t *ret_all)
{
	size_t entry = event_measure_entry(exit, event, size);
	size_t rest = entry && entry <= size ?
			      measure_any(exit, (const uint8_t *)event + entry, size - entry) :
			      0;

	*ret_all = rest ? entry + rest : 0;
	return rest ? entry : 0;
}

static bool same_labels(const struct event_field *a, const struct event_field *b)
{
	if (a->label_count != b->label_count)
		return false;
	for (size_t i = 0; i < a->label_count; i++) {
		if (a->labels[i].value != b->labels[i].value ||
		    strcmp(a->labels[i].name, b->labels[i].name) != 0)
			return false;
	}
	return true;
}

static bool same_field(const struct event_field *a, const struct event_field *b)
{
	return a->type == b->type && a->size == b->size && a->offset == b->offset &&
	       a->count == b->count && a->is_signed == b->is_signed &&
	       strcmp(a->name, b->name) == 0 && same_labels(a, b);
}

bool event_type_is_same(const struct event_type *a, const struct event_type *b)
{
	if (a->size != b->size || a->is_variable != b->is_variable || a->is_pair != b->is_pair ||
	    a->field_count != b->field_count || strcmp(a->name, b->name) != 0)
		return false;
	for (size_t i = 0; i < a->field_count; i++) {
		if (!same_field(&a->fields[i], &b->fields[i]))
			return false;
	}
	return true;
}
