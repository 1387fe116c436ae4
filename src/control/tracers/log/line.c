/*
 * line.c - walk events of the pool, for event_line.h.
 */
#include "line.h"

#include "control/lines/event_fields.h"

#define CLOCK_MASK ((1ULL << 40) - 1)

/* ---- lines ----------------------------------------------------------------------------------- */

void line_add(struct event_line *line, struct event_type *type,
	      const struct clock_estimate *estimate, const struct line_event *event)
{
	struct event_cursor cursor = { (const uint8_t *)event->words, 8, event->count * 8 };
	struct event_head head = { .has_time = true,
				   .ns = clock_wall_ns(estimate, event->clock),
				   .has_tid = true,
				   .tid = event->tid,
				   .has_pid = true,
				   .pid = event->pid,
				   .process = event->process,
				   .name = type->name };
	const char(*labels)[EVENT_NAME_MAX] = event_type_labels(type);

	line->event = (struct frames_event){ event->pid, event->clock };
	event_line_begin(line, &head);
	struct event_fields all = { type->fields, type->field_count, labels };

	if (labels)
		event_fields_add(line, &all, 0, type->field_count, false, &cursor);
	event_line_end(line);
}

/* Size of the event in words; 0: larger than the batch's rest. */
static size_t event_words(const struct event_type *type, const uint64_t *event, size_t words)
{
	size_t size = type->is_variable ? event_measure(type, event, words * 8) : type->size;

	return (size + 7) / 8 <= words ? (size + 7) / 8 : 0;
}

void line_each(const struct reader_batch *batch, const struct event_types *types,
	       void (*found)(void *context, const struct line_event *event), void *context)
{
	uint64_t clock = batch->begin;

	for (size_t at = 0, words; at < batch->words; at += words) {
		const uint64_t *event = batch->events + at;
		uint64_t id = *event & DT_EVENT_ID_MASK;

		words = id < types->count ?
				event_words(&types->items[id], event, batch->words - at) :
				0;
		if (!words)
			break;
		clock += ((*event >> DT_EVENT_ID_BITS) - clock) & CLOCK_MASK;
		found(context, &(struct line_event){ .id = (uint32_t)id,
						     .pid = batch->pid,
						     .tid = batch->tid,
						     .words = event,
						     .count = words,
						     .clock = clock,
						     .process = batch->process });
	}
}
