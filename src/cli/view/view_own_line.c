/*
 * view_own_line.c - walk an event or a loss of our own reader, for event_line.h.
 */
#include <stdio.h>
#include <string.h>

#include "control/lines/frames.h"
#include "view_own.h"

/* ---- values --------------------------------------------------------------------------------- */

static void print_integer(struct viewer *viewer, const struct layout_field *field, uint64_t value)
{
	if (field->is_signed)
		event_line_signed(&viewer->line, (int64_t)value, 10, field->size * 8u);
	else
		event_line_unsigned(&viewer->line, value, field->kind == LAYOUT_HEX ? 16 : 10);
}

static void print_enum(struct viewer *viewer, const struct layout_field *field, uint64_t value)
{
	const char *label = layout_label(field, value);

	if (label && !event_line_label(&viewer->line, label))
		return;
	print_integer(viewer, field, value);
	if (label)
		event_line_label_end(&viewer->line);
}

static void print_float(struct viewer *viewer, const struct layout_field *field, uint64_t bits)
{
	float single;
	double value;

	memcpy(&single, &bits, sizeof(single));
	memcpy(&value, &bits, sizeof(value));
	event_line_real(&viewer->line, field->size == 4 ? (double)single : value,
			field->size == 4);
}

static void print_members(struct viewer *viewer, struct layout_walk walk);

static void print_element(struct viewer *viewer, const struct layout_field *field,
			  const uint8_t *event, const uint8_t *element)
{
	switch (field->kind) {
	case LAYOUT_STRING:
		event_line_string(&viewer->line, (const char *)element,
				  strlen((const char *)element));
		break;
	case LAYOUT_STRUCT:
		event_line_open(&viewer->line, '{');
		print_members(viewer, layout_walk_members(field, event, element));
		event_line_close(&viewer->line, '{');
		break;
	case LAYOUT_FLOAT:
		print_float(viewer, field, layout_number(field, element));
		break;
	case LAYOUT_ENUM:
		print_enum(viewer, field, layout_number(field, element));
		break;
	default:
		print_integer(viewer, field, layout_number(field, element));
	}
}

/* Prints addresses as functions: the first is the probe's, the others are return addresses. */
static void print_backtrace(struct viewer *viewer, const struct layout_place *place)
{
	event_line_open(&viewer->line, '[');
	for (uint32_t i = 0; i < place->count; i++)
		event_line_frame(&viewer->line,
				 layout_number(place->field,
					       place->bytes + (size_t)i * place->field->size),
				 i > 0);
	event_line_close(&viewer->line, '[');
}

void view_own_value(struct viewer *viewer, const struct layout_place *place, const uint8_t *event)
{
	const uint8_t *element = place->bytes;

	if (place->field->role == LAYOUT_BACKTRACE) {
		print_backtrace(viewer, place);
		return;
	}
	if (place->field->array == LAYOUT_ONE) {
		print_element(viewer, place->field, event, element);
		return;
	}
	event_line_open(&viewer->line, '[');
	for (uint32_t i = 0; i < place->count; i++) {
		event_line_element(&viewer->line);
		print_element(viewer, place->field, event, element);
		element = layout_skip(place->field, event, element);
	}
	event_line_close(&viewer->line, '[');
}

/* ---- fields --------------------------------------------------------------------------------- */

bool view_own_is_silent(const struct layout_place *place)
{
	return place->field->role == LAYOUT_SILENT ||
	       (place->field->role == LAYOUT_UNREADABLE && !*place->bytes);
}

bool view_own_is_unnamed(const struct layout_place *place)
{
	const char *name = place->field->name;

	return place->field->kind == LAYOUT_HEX && !strncmp(name, "arg", 3) && name[3] >= '0' &&
	       name[3] <= '9' && !name[4];
}

static void print_members(struct viewer *viewer, struct layout_walk walk)
{
	struct layout_place place;

	while (layout_walk_next(&walk, &place)) {
		if (view_own_is_silent(&place) ||
		    (viewer->named_only && view_own_is_unnamed(&place)))
			continue;
		event_line_key(&viewer->line, place.field->name);
		view_own_value(viewer, &place, walk.event);
	}
}

void view_own_fields(struct viewer *viewer, const struct layout_event *type, const uint8_t *event)
{
	event_line_bare(&viewer->line);
	print_members(viewer, layout_walk_event(type, event));
}

/* ---- lines ---------------------------------------------------------------------------------- */

void view_own_modules(struct viewer *viewer, const struct trace_layout *layout)
{
	if (viewer->trace == layout)
		return;
	frames_free(viewer->line.frames);
	viewer->trace = layout;
	viewer->line.frames = frames_create();
	for (unsigned i = 0; viewer->line.frames; i++) {
		char name[32];

		snprintf(name, sizeof(name), "module_%u", i);
		const char *line = trace_layout_variable(layout, name);
		if (!line)
			break;
		frames_add(viewer->line.frames, line);
	}
}

const char *view_own_process(const struct trace_stream *stream, char name[WRITER_PROCESS_SIZE + 1])
{
	memcpy(name, stream->cursor.head.procname, WRITER_PROCESS_SIZE);
	name[WRITER_PROCESS_SIZE] = '\0';
	return name[0] ? name : trace_layout_variable(&stream->input->layout, "procname");
}

static void print_event(struct viewer *viewer, const struct trace_stream *stream)
{
	char name[WRITER_PROCESS_SIZE + 1];
	const struct packet_cursor *cursor = &stream->cursor;
	struct event_head head = { .has_time = true,
				   .ns = stream->ns,
				   .process = view_own_process(stream, name),
				   .has_pid = true,
				   .pid = cursor->head.pid,
				   .has_tid = true,
				   .tid = cursor->head.tid,
				   .name = cursor->type->name };

	event_line_begin(&viewer->line, &head);
	print_members(viewer, layout_walk_event(cursor->type, cursor->event));
	event_line_end(&viewer->line);
}

void view_own_line(struct viewer *viewer, struct trace_stream *stream)
{
	const struct packet_cursor *cursor = &stream->cursor;

	if (stream->item != CURSOR_EVENT) {
		const struct trace_layout *layout = &stream->input->layout;

		view_loss_line(viewer, stream->item == CURSOR_LOST_EVENTS ? "events" : "packets",
			       cursor->lost, trace_layout_ns(layout, cursor->lost_begin),
			       trace_layout_ns(layout, cursor->lost_end));
		return;
	}
	view_own_modules(viewer, &stream->input->layout);
	viewer->line.event = (struct frames_event){ cursor->head.pid, cursor->cycles };
	print_event(viewer, stream);
}
