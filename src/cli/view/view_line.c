/*
 * view_line.c - format a message of the trace as a line.
 *
 *   09:12:33.123456789 (+0.000001234) redis-server tid 1234 call_entry { arg0 = 0x1, arg1 = 0x2 }
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options/table_text.h"
#include "view.h"
#include "view_filter.h"
#include "view_frames.h"
#include "view_select.h"

#define NS 1000000000LL

/* ---- time ---------------------------------------------------------------------------------- */

static void split_time(int64_t ns, time_t *ret_second, uint64_t *ret_fraction)
{
	int64_t second = ns / NS - (ns % NS < 0);

	*ret_second = (time_t)second;
	*ret_fraction = (uint64_t)(ns - second * NS);
}

/* Caches the text of the last second. */
void view_line_time(struct viewer *viewer, int64_t ns)
{
	uint64_t fraction;
	time_t second;
	struct tm tm;

	split_time(ns, &second, &fraction);
	if (second != viewer->second || !viewer->clock[0]) {
		viewer->second = second;
		if (viewer->json)
			strftime(viewer->clock, sizeof(viewer->clock), "%Y-%m-%dT%H:%M:%S",
				 gmtime_r(&second, &tm));
		else
			strftime(viewer->clock, sizeof(viewer->clock), "%H:%M:%S",
				 localtime_r(&second, &tm));
	}
	text_own(&viewer->text, viewer->clock);
	text_add(&viewer->text, ".");
	text_padded(&viewer->text, fraction, 9);
	if (viewer->json)
		text_add(&viewer->text, "Z");
}

void view_line_delta(struct viewer *viewer, int64_t ns)
{
	if (!viewer->has_last) {
		text_add(&viewer->text, " (+?.????????\?) ");
	} else {
		uint64_t delta = (uint64_t)(ns - viewer->last_ns);

		text_add(&viewer->text, " (+");
		text_unsigned(&viewer->text, delta / NS);
		text_add(&viewer->text, ".");
		text_padded(&viewer->text, delta % NS, 9);
		text_add(&viewer->text, ") ");
	}
	viewer->has_last = true;
	viewer->last_ns = ns;
}

bool view_line_ns(const bt_clock_snapshot *snapshot, int64_t *ret_ns)
{
	return bt_clock_snapshot_get_ns_from_origin(snapshot, ret_ns) ==
	       BT_CLOCK_SNAPSHOT_GET_NS_FROM_ORIGIN_STATUS_OK;
}

static bool event_ns(const bt_message *message, const bt_event *event, int64_t *ret_ns)
{
	const bt_stream_class *class =
		bt_stream_borrow_class_const(bt_event_borrow_stream_const(event));

	if (!bt_stream_class_borrow_default_clock_class_const(class))
		return false;
	return view_line_ns(bt_message_event_borrow_default_clock_snapshot_const(message), ret_ns);
}

static uint64_t event_cycles(const bt_message *message, const bt_event *event)
{
	const bt_stream_class *class =
		bt_stream_borrow_class_const(bt_event_borrow_stream_const(event));

	if (!bt_stream_class_borrow_default_clock_class_const(class))
		return UINT64_MAX;
	return bt_clock_snapshot_get_value(
		bt_message_event_borrow_default_clock_snapshot_const(message));
}

/* ---- process and thread -------------------------------------------------------------------- */

static int member_index(const bt_field_class *structure, const char *name)
{
	uint64_t count = bt_field_class_structure_get_member_count(structure);

	for (uint64_t i = 0; i < count; i++) {
		const bt_field_class_structure_member *member =
			bt_field_class_structure_borrow_member_by_index_const(structure, i);
		const bt_field_class *class =
			bt_field_class_structure_member_borrow_field_class_const(member);

		if (!strcmp(bt_field_class_structure_member_get_name(member), name) &&
		    bt_field_class_type_is(bt_field_class_get_type(class),
					   BT_FIELD_CLASS_TYPE_INTEGER))
			return (int)i;
	}
	return -1;
}

static int first_index(const bt_field_class *structure, const char *name, const char *other)
{
	int index = structure ? member_index(structure, name) : -1;

	return index < 0 && structure ? member_index(structure, other) : index;
}

static const struct who_index *find_who(struct viewer *viewer, const bt_stream_class *class)
{
	if (viewer->who.stream_class != class) {
		const bt_field_class *context =
			bt_stream_class_borrow_packet_context_field_class_const(class);

		viewer->who = (struct who_index){ class, first_index(context, "tid", "vtid"),
						  first_index(context, "pid", "vpid") };
	}
	return &viewer->who;
}

static void add_member(struct viewer *viewer, const bt_field *structure, int index,
		       const char *before)
{
	if (index < 0)
		return;
	text_own(&viewer->text, before);
	const bt_field *field =
		bt_field_structure_borrow_member_field_by_index_const(structure, (uint64_t)index);
	if (bt_field_class_type_is(bt_field_get_class_type(field),
				   BT_FIELD_CLASS_TYPE_SIGNED_INTEGER))
		text_signed(&viewer->text, bt_field_integer_signed_get_value(field));
	else
		text_unsigned(&viewer->text, bt_field_integer_unsigned_get_value(field));
}

/* The process's name in the trace's environment; NULL: absent. */
static const char *process_name(const bt_stream *stream)
{
	const bt_trace *trace = bt_stream_borrow_trace_const(stream);
	const bt_value *value =
		bt_trace_borrow_environment_entry_value_by_name_const(trace, "procname");

	return value && bt_value_is_string(value) ? bt_value_string_get(value) : NULL;
}

static void add_who(struct viewer *viewer, const bt_event *event)
{
	const bt_stream *stream = bt_event_borrow_stream_const(event);
	const struct who_index *who = find_who(viewer, bt_stream_borrow_class_const(stream));
	const bt_packet *packet = bt_event_borrow_packet_const(event);
	const bt_field *context = packet ? bt_packet_borrow_context_field_const(packet) : NULL;
	const char *process = process_name(stream);

	if (process && viewer->json) {
		text_add(&viewer->text, "\"process\":");
		quote_json(&viewer->text, process, strlen(process));
		text_add(&viewer->text, ",");
	} else if (process) {
		text_foreign(&viewer->text, process);
		text_add(&viewer->text, " ");
	}
	if (!context)
		return;
	if (viewer->json) {
		add_member(viewer, context, who->pid, "\"pid\":");
		text_add(&viewer->text, who->pid < 0 ? "" : ",");
	}
	add_member(viewer, context, who->tid, viewer->json ? "\"tid\":" : "tid ");
	text_add(&viewer->text, who->tid < 0 ? "" : viewer->json ? "," : " ");
}

/* ---- events -------------------------------------------------------------------------------- */

/* Payload first, then the contexts. */
static void add_fields(struct viewer *viewer, const bt_event *event, const char *before,
		       const char *after)
{
	const bt_field *parts[] = {
		bt_event_borrow_payload_field_const(event),
		bt_event_borrow_specific_context_field_const(event),
		bt_event_borrow_common_context_field_const(event),
	};
	size_t start = viewer->text.length;
	bool any = false;

	text_own(&viewer->text, before);
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		if (parts[i])
			any = view_field_members(viewer, parts[i], any);
	if (any || viewer->json)
		text_own(&viewer->text, after);
	else
		viewer->text.length = start; /* no empty braces */
}

static const char *event_name(const bt_event *event)
{
	const char *name = bt_event_class_get_name(bt_event_borrow_class_const(event));

	return name ? name : "?";
}

static void add_event_text(struct viewer *viewer, const bt_message *message, const bt_event *event)
{
	int64_t ns;

	if (event_ns(message, event, &ns)) {
		text_own(&viewer->text, viewer->colours.time);
		view_line_time(viewer, ns);
		view_line_delta(viewer, ns);
		text_own(&viewer->text, viewer->colours.off);
	}
	add_who(viewer, event);
	text_own(&viewer->text, viewer->colours.name);
	text_foreign(&viewer->text, event_name(event));
	text_own(&viewer->text, viewer->colours.off);
	add_fields(viewer, event, " { ", " }");
	text_add(&viewer->text, "\n");
}

static void add_event_json(struct viewer *viewer, const bt_message *message, const bt_event *event)
{
	const char *name = event_name(event);
	int64_t ns;

	text_add(&viewer->text, "{");
	if (event_ns(message, event, &ns)) {
		text_add(&viewer->text, "\"time\":\"");
		view_line_time(viewer, ns);
		text_add(&viewer->text, "\",\"ns\":");
		text_signed(&viewer->text, ns);
		text_add(&viewer->text, ",");
	}
	add_who(viewer, event);
	text_add(&viewer->text, "\"name\":");
	quote_json(&viewer->text, name, strlen(name));
	add_fields(viewer, event, ",\"fields\":{", "}");
	text_add(&viewer->text, "}\n");
}

static struct frames *find_modules(const bt_trace *trace)
{
	struct frames *frames = frames_create();

	for (unsigned i = 0; frames; i++) {
		const bt_value *value;
		char name[32];

		snprintf(name, sizeof(name), "module_%u", i);
		value = bt_trace_borrow_environment_entry_value_by_name_const(trace, name);
		if (!value || !bt_value_is_string(value))
			break;
		frames_add(frames, bt_value_string_get(value));
	}
	return frames;
}

static uint64_t number_at(const bt_field *context, int index)
{
	const bt_field *field = context && index >= 0 ?
					bt_field_structure_borrow_member_field_by_index_const(
						context, (uint64_t)index) :
					NULL;

	if (!field)
		return UINT64_MAX;
	return bt_field_class_type_is(bt_field_get_class_type(field),
				      BT_FIELD_CLASS_TYPE_SIGNED_INTEGER) ?
		       (uint64_t)bt_field_integer_signed_get_value(field) :
		       bt_field_integer_unsigned_get_value(field);
}

/* The first event's time is the begin of the trace. */
static bool is_selected(struct viewer *viewer, const bt_message *message, const bt_event *event)
{
	const bt_packet *packet = bt_event_borrow_packet_const(event);
	const bt_field *context = packet ? bt_packet_borrow_context_field_const(packet) : NULL;
	const struct who_index *who = find_who(
		viewer, bt_stream_borrow_class_const(bt_event_borrow_stream_const(event)));
	int64_t ns = 0;

	event_ns(message, event, &ns);
	if (!viewer->is_placed) {
		viewer->is_placed = true;
		viewer->select_error = view_select_place(viewer->select, ns);
	}
	if (viewer->select_error ||
	    !view_select_wants(viewer->select, ns, number_at(context, who->tid),
			       number_at(context, who->pid)) ||
	    view_select_is_done(viewer->select, ns))
		return false;
	viewer->select->shown++;
	return true;
}

static void print_event(struct viewer *viewer, const bt_message *message)
{
	const bt_event *event = bt_message_event_borrow_event_const(message);
	const bt_trace *trace = bt_stream_borrow_trace_const(bt_event_borrow_stream_const(event));

	if (!is_selected(viewer, message, event) ||
	    (viewer->filter && !view_filter_wants(viewer->filter, event)))
		return;
	if (viewer->trace != trace) {
		frames_free(viewer->frames);
		viewer->frames = find_modules(trace);
		viewer->trace = trace;
	}
	viewer->cycles = event_cycles(message, event);
	(viewer->json ? add_event_json : add_event_text)(viewer, message, event);
}

void view_line_message(struct viewer *viewer, const bt_message *message)
{
	bt_message_type type = bt_message_get_type(message);

	if (type == BT_MESSAGE_TYPE_EVENT)
		print_event(viewer, message);
	else if (type == BT_MESSAGE_TYPE_DISCARDED_EVENTS)
		view_loss_events(viewer, message);
	else if (type == BT_MESSAGE_TYPE_DISCARDED_PACKETS)
		view_loss_packets(viewer, message);
}
