#include "trace_layout.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/align.h"

#define HEADER 8u
#define NS 1000000000

static void free_fields(struct layout_fields *fields)
{
	for (size_t i = 0; i < fields->count; i++) {
		struct layout_field *field = &fields->items[i];

		for (size_t j = 0; j < field->labels.count; j++)
			free(field->labels.items[j].name);
		vec_free(&field->labels);
		free_fields(&field->members);
		free(field->name);
	}
	vec_free(fields);
}

void trace_layout_free(struct trace_layout *layout)
{
	for (size_t i = 0; i < layout->environment.count; i++) {
		free(layout->environment.items[i].name);
		free(layout->environment.items[i].text);
	}
	vec_free(&layout->environment);
	for (size_t i = 0; i < layout->events.count; i++) {
		struct layout_event *event = layout->events.items[i];

		if (!event)
			continue;
		free_fields(&event->fields);
		free(event->name);
		free(event);
	}
	vec_free(&layout->events);
}

const char *trace_layout_variable(const struct trace_layout *layout, const char *name)
{
	for (size_t i = 0; i < layout->environment.count; i++)
		if (!strcmp(layout->environment.items[i].name, name))
			return layout->environment.items[i].text;
	return NULL;
}

/* ---- time ----------------------------------------------------------------------------------- */

uint64_t trace_layout_duration(const struct trace_layout *layout, uint64_t cycles)
{
	double ns = 1e9 * (double)cycles / (double)layout->frequency;

	if (layout->frequency == NS)
		return cycles;
	return ns >= 0x1p63 ? INT64_MAX : (uint64_t)ns;
}

int64_t trace_layout_ns(const struct trace_layout *layout, uint64_t cycles)
{
	int64_t ns;

	if (__builtin_add_overflow(layout->base_ns, trace_layout_duration(layout, cycles), &ns))
		return INT64_MAX;
	return ns;
}

/* ---- sizes ---------------------------------------------------------------------------------- */

/* Adds the fields' least sizes, without alignment, and tells whether all are fixed. */
static bool settle_fields(struct layout_fields *fields, uint64_t *size, bool *is_fixed);

static bool settle_field(struct layout_field *field, uint64_t *ret_element, bool *is_fixed)
{
	uint64_t element = field->size;

	if (field->kind == LAYOUT_STRING) {
		element = 1;
		*is_fixed = false;
	}
	if (field->kind == LAYOUT_STRUCT) {
		element = 0;
		if (!settle_fields(&field->members, &element, is_fixed))
			return false;
	}
	if (field->array != LAYOUT_ONE && !element)
		return false; /* Z2 */
	*is_fixed &= field->array != LAYOUT_COUNTED;
	*ret_element = element;
	return true;
}

static bool settle_fields(struct layout_fields *fields, uint64_t *size, bool *is_fixed)
{
	for (size_t i = 0; i < fields->count; i++) {
		struct layout_field *field = &fields->items[i];
		uint64_t element = 0;

		if (!settle_field(field, &element, is_fixed))
			return false;
		if (field->array == LAYOUT_FIXED)
			*size += element * field->count;
		else if (field->array == LAYOUT_ONE)
			*size += element;
		if (*size > LAYOUT_EVENT_MAX)
			return false; /* Z1 */
	}
	return true;
}

/* The length of the text before its ending; 0: it has another one, or nothing before it. */
static size_t stem_of(const char *text, const char *end)
{
	size_t length = strlen(text), tail = strlen(end);

	return length > tail && strcmp(text + length - tail, end) == 0 ? length - tail : 0;
}

static bool has_duration(const struct layout_event *event)
{
	for (size_t i = 0; i < event->fields.count; i++) {
		const struct layout_field *field = &event->fields.items[i];

		if (field->array == LAYOUT_ONE && field->size == 8 &&
		    strcmp(field->name, "duration") == 0)
			return true;
	}
	return false;
}

static void settle_part(struct layout_event *event)
{
	event->part = LAYOUT_BARE;
	if ((event->stem = stem_of(event->name, "_entry")))
		event->part = LAYOUT_ENTRY;
	else if ((event->stem = stem_of(event->name, "_exit")) && has_duration(event))
		event->part = LAYOUT_EXIT;
	else
		event->stem = strlen(event->name);
}

bool trace_layout_settle(struct layout_event *event)
{
	static const uint8_t nothing[LAYOUT_EVENT_MAX];
	uint64_t size = HEADER;

	settle_part(event);
	event->is_fixed = true;
	if (!settle_fields(&event->fields, &size, &event->is_fixed))
		return false;
	/* An event of zeros is the smallest: empty strings, no elements. */
	bool is_fixed = event->is_fixed;
	event->is_fixed = false;
	event->least = (uint32_t)layout_measure(event, nothing, sizeof(nothing));
	event->is_fixed = is_fixed;
	return event->least != 0;
}

bool layout_is_exit_of(const struct layout_event *entry, const struct layout_event *exit)
{
	return entry->part == LAYOUT_ENTRY && exit->part == LAYOUT_EXIT &&
	       entry->stem == exit->stem && memcmp(entry->name, exit->name, exit->stem) == 0;
}

const struct layout_event *layout_exit_of(const struct trace_layout *layout,
					  const struct layout_event *entry)
{
	const struct layout_event *next = entry->id + 1 < layout->events.count ?
						  layout->events.items[entry->id + 1] :
						  NULL;

	return next && layout_is_exit_of(entry, next) ? next : NULL;
}

bool layout_ends_unseen(const struct layout_fates *fates)
{
	return fates->missed > 0;
}

bool layout_never_exits(const struct layout_fates *fates)
{
	return layout_ends_unseen(fates) && !fates->exits;
}

enum layout_fate layout_fate(const struct layout_fates *fates, bool is_end)
{
	if (!layout_ends_unseen(fates))
		return is_end ? FATE_INSIDE : FATE_UNWOUND;
	return fates->unwound || (is_end && fates->inside) ? FATE_UNKNOWN : FATE_MISSED;
}

/* ---- measuring ------------------------------------------------------------------------------ */

struct measure {
	const uint8_t *bytes;
	size_t at, size; /* at > size: doesn't fit */
};

static void measure_fields(struct measure *m, const struct layout_fields *fields);

static void measure_element(struct measure *m, const struct layout_field *field)
{
	if (field->kind == LAYOUT_STRUCT) {
		m->at = align_up(m->at, field->align);
		measure_fields(m, &field->members);
	} else if (field->kind == LAYOUT_STRING) {
		const uint8_t *end =
			m->at < m->size ? memchr(m->bytes + m->at, 0, m->size - m->at) : NULL;

		m->at = end ? (size_t)(end - m->bytes) + 1 : m->size + 1;
	} else {
		m->at = align_up(m->at, field->align) + field->size;
	}
}

static void measure_fields(struct measure *m, const struct layout_fields *fields)
{
	uint32_t last = 0;

	for (size_t i = 0; i < fields->count && m->at <= m->size; i++) {
		const struct layout_field *field = &fields->items[i];
		uint32_t count = field->array == LAYOUT_ONE   ? 1 :
				 field->array == LAYOUT_FIXED ? field->count :
								last;

		m->at = align_up(m->at, field->align); /* also of an array without elements */
		if (field->array != LAYOUT_ONE && count > m->size) {
			m->at = m->size + 1;
			return;
		}
		for (uint32_t j = 0; j < count && m->at <= m->size; j++)
			measure_element(m, field);
		if (m->at <= m->size && field->array == LAYOUT_ONE && field->size)
			last = (uint32_t)layout_number(field, m->bytes + m->at - field->size);
	}
}

size_t layout_measure(const struct layout_event *type, const uint8_t *event, size_t size)
{
	struct measure m = { .bytes = event, .at = HEADER, .size = size };

	if (size < HEADER || (type->is_fixed && type->least > size))
		return 0;
	if (type->is_fixed)
		return type->least;
	measure_fields(&m, &type->fields);
	return m.at <= size ? m.at : 0;
}

/* ---- walking -------------------------------------------------------------------------------- */

struct layout_walk layout_walk_event(const struct layout_event *type, const uint8_t *event)
{
	return (struct layout_walk){ .fields = &type->fields, .event = event, .at = HEADER };
}

struct layout_walk layout_walk_members(const struct layout_field *field, const uint8_t *event,
				       const uint8_t *element)
{
	assert(field->kind == LAYOUT_STRUCT);
	return (struct layout_walk){ .fields = &field->members, .event = event,
				     .at = align_up((size_t)(element - event), field->align) };
}

const uint8_t *layout_skip(const struct layout_field *field, const uint8_t *event,
			   const uint8_t *element)
{
	struct measure m = { .bytes = event,
			     .at = (size_t)(element - event),
			     .size = SIZE_MAX / 2 };

	if (field->size && !field->members.items)
		return element + field->size; /* keeps its alignment */
	measure_element(&m, field);
	return event + m.at;
}

bool layout_walk_next(struct layout_walk *walk, struct layout_place *ret_place)
{
	if (walk->index >= walk->fields->count)
		return false;
	const struct layout_field *field = &walk->fields->items[walk->index++];
	uint32_t count = field->array == LAYOUT_ONE   ? 1 :
			 field->array == LAYOUT_FIXED ? field->count :
							walk->last;

	walk->at = align_up(walk->at, field->align);
	*ret_place = (struct layout_place){ field, walk->event + walk->at, count };
	if (field->size) {
		walk->at += (size_t)field->size * count;
		if (field->array == LAYOUT_ONE)
			walk->last = (uint32_t)layout_number(field, ret_place->bytes);
		return true;
	}
	const uint8_t *end = ret_place->bytes;
	for (uint32_t i = 0; i < count; i++)
		end = layout_skip(field, walk->event, end);
	walk->at = (size_t)(end - walk->event);
	return true;
}

/* ---- values --------------------------------------------------------------------------------- */

uint64_t layout_number(const struct layout_field *field, const uint8_t *element)
{
	uint64_t value = 0;

	switch (field->size) {
	case 1: value = *element; break;
	case 2: value = (uint64_t)element[0] | (uint64_t)element[1] << 8; break;
	case 4: memcpy(&value, element, 4); break;
	case 8: memcpy(&value, element, 8); break;
	default: return 0;
	}
	unsigned unused = 64 - 8u * field->size;
	return field->is_signed ? (uint64_t)((int64_t)(value << unused) >> unused) : value;
}

const char *layout_label(const struct layout_field *field, uint64_t number)
{
	for (size_t i = 0; i < field->labels.count; i++)
		if ((uint64_t)field->labels.items[i].value == number)
			return field->labels.items[i].name;
	return NULL;
}

bool layout_find(const struct layout_event *type, const uint8_t *event, const char *name,
		 struct layout_place *ret_place)
{
	struct layout_walk walk = layout_walk_event(type, event);

	while (layout_walk_next(&walk, ret_place))
		if (!strcmp(ret_place->field->name, name))
			return true;
	return false;
}
