#include "sync_line.h"

#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "control/base/plain_text.h"
#include "control/base/strbuf.h"
#include "control/base/vec.h"
#include "control/lines/event_line.h"
#include "control/tracers/lttng/image_fields.h"

/* Of one event: a trampoline has no room for more. The names of all values beyond are left out;
 * their numbers are in the line. */
#define TEXT_MAX 16384u
#define LABELS_MAX 256u

struct making {
	VEC(struct dt_line_item) items;
	VEC(struct dt_line_label) labels;
	struct strbuf text;
	bool failed;
};

static void making_free(struct making *making)
{
	vec_free(&making->items);
	vec_free(&making->labels);
	strbuf_free(&making->text);
}

/* Adds a name; returns its offset. */
static uint32_t add_name(struct making *making, const char *name, uint32_t *ret_length)
{
	size_t at = making->text.length;

	text_foreign(&making->text, name);
	*ret_length = (uint32_t)(making->text.length - at);
	return (uint32_t)at;
}

static void add_labels(struct making *making, const struct event_field *field,
		       struct dt_line_item *item)
{
	item->label_first = (uint16_t)making->labels.count;
	for (size_t i = 0; i < field->label_count; i++) {
		struct dt_line_label label = { .value = field->labels[i].value };
		uint32_t length;

		if (making->labels.count >= LABELS_MAX || making->text.length > TEXT_MAX)
			return;
		label.is_note = field->labels[i].name[0] == '<';
		label.name = add_name(making, field->labels[i].name, &length);
		label.length = (uint16_t)length;
		making->failed |= !vec_push(&making->labels, label);
		item->label_count++;
	}
}

static enum dt_line_kind kind_of(const struct event_field *field)
{
	static const enum dt_line_kind kinds[] = {
		[FIELD_UINT] = DT_LINE_UINT,	 [FIELD_INT] = DT_LINE_INT,
		[FIELD_HEX] = DT_LINE_HEX,	 [FIELD_FLOAT] = DT_LINE_REAL,
		[FIELD_ENUM] = DT_LINE_UINT,	 [FIELD_STRING] = DT_LINE_STRING,
		[FIELD_FRAMES] = DT_LINE_FRAMES, [FIELD_STRUCT] = DT_LINE_OPEN,
		[FIELD_END] = DT_LINE_CLOSE,	 [FIELD_LIST] = DT_LINE_LIST,
	};

	return field->type == FIELD_ENUM && field->is_signed ? DT_LINE_INT : kinds[field->type];
}

static void add_item(struct making *making, const struct event_type *type, size_t index,
		     const char *name)
{
	const struct event_field *field = &type->fields[index];
	struct dt_line_item item = { .kind = (uint8_t)kind_of(field),
				     .size = field->size,
				     .count = field->count,
				     .offset = field->offset,
				     .is_element =
					     index && type->fields[index - 1].type == FIELD_LIST };
	uint32_t length = 0;

	item.omits_empty = !item.is_element && event_line_is_silent(name, true, 0);
	if (field->type == FIELD_END &&
	    type->fields[event_field_find_begin(type->fields, index)].type == FIELD_LIST)
		item.kind = DT_LINE_LIST_END;
	if (field->type != FIELD_END && !item.is_element)
		item.key = add_name(making, name, &length);
	item.key_length = (uint16_t)length;
	if (field->type == FIELD_ENUM)
		add_labels(making, field, &item);
	making->failed |= !vec_push(&making->items, item);
}

/* Puts the parts behind each other. */
static struct error *join(const struct making *making, struct dt_line head,
			  struct dt_line **ret_line, uint32_t *ret_size)
{
	uint32_t items = (uint32_t)(making->items.count * sizeof(*making->items.items));
	uint32_t labels = (uint32_t)(making->labels.count * sizeof(*making->labels.items));

	head.item_count = (uint32_t)making->items.count;
	head.label_count = (uint32_t)making->labels.count;
	head.labels = sizeof(head);
	head.items = head.labels + labels;
	head.text = head.items + items;
	uint32_t size = head.text + (uint32_t)making->text.length;
	uint8_t *bytes = malloc(size);
	if (!bytes || making->failed || making->text.failed) {
		free(bytes);
		return error_new(ERROR_FAILED, "out of memory");
	}
	memcpy(bytes, &head, sizeof(head));
	if (labels)
		memcpy(bytes + head.labels, making->labels.items, labels);
	if (items)
		memcpy(bytes + head.items, making->items.items, items);
	memcpy(bytes + head.text, making->text.text, making->text.length);
	*ret_line = (struct dt_line *)bytes;
	*ret_size = size;
	return NULL;
}

struct error *sync_line_make(struct event_type *type, const char *process,
			     struct dt_line **ret_line, uint32_t *ret_size)
{
	_cleanup_(making_free) struct making making = { 0 };
	struct dt_line head = { .start = IMAGE_START };
	const char(*names)[EVENT_NAME_MAX] = event_type_labels(type);

	if (!names && type->field_count)
		return error_new(ERROR_FAILED, "out of memory");
	head.process = add_name(&making, process, &head.process_length);
	head.name = add_name(&making, type->name, &head.name_length);
	for (size_t i = 0; i < type->field_count; i++)
		add_item(&making, type, i, names[i]);
	return join(&making, head, ret_line, ret_size);
}
