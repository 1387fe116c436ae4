/*
 * view_own_line.c - format an event or a loss of our own reader as a line.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "options/table_text.h"
#include "view_frames.h"
#include "view_own.h"

static void quote(struct viewer *viewer, const char *text)
{
	(viewer->json ? quote_json : quote_c)(&viewer->text, text, strlen(text));
}

/* ---- values --------------------------------------------------------------------------------- */

static void print_integer(struct viewer *viewer, const struct layout_field *field, uint64_t value)
{
	if (field->kind == LAYOUT_HEX && !viewer->json)
		text_based(&viewer->text, value, 16);
	else if (field->is_signed)
		text_signed(&viewer->text, (int64_t)value);
	else
		text_unsigned(&viewer->text, value);
}

static void print_enum(struct viewer *viewer, const struct layout_field *field, uint64_t value)
{
	const char *label = layout_label(field, value);

	if (!label) {
		print_integer(viewer, field, value);
	} else if (viewer->json) {
		quote(viewer, label);
	} else {
		text_foreign(&viewer->text, label);
		text_add(&viewer->text, " (");
		print_integer(viewer, field, value);
		text_add(&viewer->text, ")");
	}
}

static void print_float(struct viewer *viewer, const struct layout_field *field, uint64_t bits)
{
	float single;
	double value;

	memcpy(&single, &bits, sizeof(single));
	memcpy(&value, &bits, sizeof(value));
	view_field_real(viewer, field->size == 4 ? (double)single : value, field->size == 4);
}

static bool print_members(struct viewer *viewer, struct layout_walk walk);

static void print_element(struct viewer *viewer, const struct layout_field *field,
			  const uint8_t *event, const uint8_t *element)
{
	switch (field->kind) {
	case LAYOUT_STRING:
		quote(viewer, (const char *)element);
		break;
	case LAYOUT_STRUCT:
		text_add(&viewer->text, viewer->json ? "{" : "{ ");
		print_members(viewer, layout_walk_members(field, event, element));
		text_add(&viewer->text, viewer->json ? "}" : " }");
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
	_cleanup_(strbuf_free) struct strbuf frame = { 0 };

	text_add(&viewer->text, viewer->json ? "[" : "[ ");
	for (uint32_t i = 0; i < place->count; i++) {
		uint64_t address = layout_number(place->field,
						 place->bytes + (size_t)i * place->field->size);

		if (i)
			text_add(&viewer->text, viewer->json ? "," : ", ");
		frame.length = 0;
		frames_print(viewer->frames, address, viewer->cycles, i > 0, &frame);
		if (viewer->json)
			quote(viewer, frame.text ? frame.text : "");
		else
			text_foreign(&viewer->text, frame.text ? frame.text : "");
	}
	text_add(&viewer->text, viewer->json ? "]" : " ]");
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
	text_add(&viewer->text, viewer->json ? "[" : place->count ? "[ " : "[");
	for (uint32_t i = 0; i < place->count; i++) {
		if (i)
			text_add(&viewer->text, viewer->json ? "," : ", ");
		print_element(viewer, place->field, event, element);
		element = layout_skip(place->field, event, element);
	}
	text_add(&viewer->text, viewer->json ? "]" : place->count ? " ]" : "]");
}

/* ---- fields --------------------------------------------------------------------------------- */

bool view_own_is_silent(const struct layout_place *place)
{
	return place->field->role == LAYOUT_SILENT ||
	       (place->field->role == LAYOUT_UNREADABLE && !*place->bytes);
}

static bool print_members(struct viewer *viewer, struct layout_walk walk)
{
	struct layout_place place;
	bool any = false;

	while (layout_walk_next(&walk, &place)) {
		if (view_own_is_silent(&place))
			continue;
		if (any)
			text_add(&viewer->text, viewer->json ? "," : ", ");
		/* letters, digits and underscores: the metadata's parser takes no other */
		text_own(&viewer->text, viewer->json ? "\"" : viewer->colours.key);
		text_own(&viewer->text, place.field->name);
		text_own(&viewer->text, viewer->json ? "\":" : viewer->colours.off);
		text_add(&viewer->text, viewer->json ? "" : " = ");
		view_own_value(viewer, &place, walk.event);
		any = true;
	}
	return any;
}

bool view_own_fields(struct viewer *viewer, const struct layout_event *type, const uint8_t *event)
{
	return print_members(viewer, layout_walk_event(type, event));
}

static void add_fields(struct viewer *viewer, const struct packet_cursor *cursor,
		       const char *before, const char *after)
{
	size_t start = viewer->text.length;

	text_own(&viewer->text, before);
	if (view_own_fields(viewer, cursor->type, cursor->event) || viewer->json)
		text_own(&viewer->text, after);
	else
		viewer->text.length = start; /* no empty braces */
}

/* ---- lines ---------------------------------------------------------------------------------- */

void view_own_modules(struct viewer *viewer, const struct trace_layout *layout)
{
	if (viewer->trace == layout)
		return;
	frames_free(viewer->frames);
	viewer->trace = layout;
	viewer->frames = frames_create();
	for (unsigned i = 0; viewer->frames; i++) {
		char name[32];

		snprintf(name, sizeof(name), "module_%u", i);
		const char *line = trace_layout_variable(layout, name);
		if (!line)
			break;
		frames_add(viewer->frames, line);
	}
}

/* The process and a thread of it as text, which many events share. */
struct own_who {
	uint32_t pid, tid;
	char text[];
};

static void print_who(struct viewer *viewer, const struct trace_stream *stream,
		      struct strbuf *text)
{
	const struct metadata_packet *head = &stream->cursor.head;
	const char *process = trace_layout_variable(&stream->input->layout, "procname");

	if (process && viewer->json) {
		text_add(text, "\"process\":");
		quote_json(text, process, strlen(process));
		text_add(text, ",");
	} else if (process) {
		text_foreign(text, process);
		text_add(text, " ");
	}
	if (viewer->json) {
		text_add(text, "\"pid\":");
		text_unsigned(text, head->pid);
		text_add(text, ",");
	}
	text_add(text, viewer->json ? "\"tid\":" : "tid ");
	text_unsigned(text, head->tid);
	text_add(text, viewer->json ? "," : " ");
}

static void add_who(struct viewer *viewer, struct trace_stream *stream)
{
	const struct metadata_packet *head = &stream->cursor.head;
	struct own_who *who = stream->own;
	_cleanup_(strbuf_free) struct strbuf text = { 0 };

	if (!who || who->pid != head->pid || who->tid != head->tid) {
		free(who);
		print_who(viewer, stream, &text);
		stream->own = who = text.failed ? NULL : malloc(sizeof(*who) + text.length + 1);
		if (!who) {
			viewer->text.failed = true;
			return;
		}
		*who = (struct own_who){ head->pid, head->tid };
		memcpy(who->text, text.text, text.length + 1);
	}
	text_own(&viewer->text, who->text);
}

static void add_event_text(struct viewer *viewer, struct trace_stream *stream)
{
	text_own(&viewer->text, viewer->colours.time);
	view_line_time(viewer, stream->ns);
	view_line_delta(viewer, stream->ns);
	text_own(&viewer->text, viewer->colours.off);
	add_who(viewer, stream);
	text_own(&viewer->text, viewer->colours.name);
	text_foreign(&viewer->text, stream->cursor.type->name);
	text_own(&viewer->text, viewer->colours.off);
	add_fields(viewer, &stream->cursor, " { ", " }");
	text_add(&viewer->text, "\n");
}

static void add_event_json(struct viewer *viewer, struct trace_stream *stream)
{
	text_add(&viewer->text, "{\"time\":\"");
	view_line_time(viewer, stream->ns);
	text_add(&viewer->text, "\",\"ns\":");
	text_signed(&viewer->text, stream->ns);
	text_add(&viewer->text, ",");
	add_who(viewer, stream);
	text_add(&viewer->text, "\"name\":");
	quote(viewer, stream->cursor.type->name);
	add_fields(viewer, &stream->cursor, ",\"fields\":{", "}");
	text_add(&viewer->text, "}\n");
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
	viewer->cycles = cursor->cycles;
	(viewer->json ? add_event_json : add_event_text)(viewer, stream);
}
