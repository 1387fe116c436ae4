/*
 * view_line.c - walk a message of the trace, for event_line.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/lines/frames.h"
#include "view.h"
#include "view_filter.h"
#include "view_select.h"

/* ---- time ---------------------------------------------------------------------------------- */

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

static int member_index(const bt_field_class *structure, const char *name, bt_field_class_type type)
{
	uint64_t count = bt_field_class_structure_get_member_count(structure);

	for (uint64_t i = 0; i < count; i++) {
		const bt_field_class_structure_member *member =
			bt_field_class_structure_borrow_member_by_index_const(structure, i);
		const bt_field_class *class =
			bt_field_class_structure_member_borrow_field_class_const(member);

		if (!strcmp(bt_field_class_structure_member_get_name(member), name) &&
		    bt_field_class_type_is(bt_field_class_get_type(class), type))
			return (int)i;
	}
	return -1;
}

static int first_index(const bt_field_class *structure, const char *name, const char *other)
{
	bt_field_class_type type = BT_FIELD_CLASS_TYPE_INTEGER;
	int index = structure ? member_index(structure, name, type) : -1;

	return index < 0 && structure ? member_index(structure, other, type) : index;
}

static const struct who_index *find_who(struct viewer *viewer, const bt_stream_class *class)
{
	if (viewer->who.stream_class != class) {
		const bt_field_class *context =
			bt_stream_class_borrow_packet_context_field_class_const(class);

		viewer->who = (struct who_index){
			class, first_index(context, "tid", "vtid"),
			first_index(context, "pid", "vpid"),
			context ? member_index(context, "procname", BT_FIELD_CLASS_TYPE_STRING) : -1
		};
	}
	return &viewer->who;
}

/* False: there is no such member. */
static bool read_member(const bt_field *structure, int index, int64_t *ret_value)
{
	if (!structure || index < 0)
		return false;
	const bt_field *field =
		bt_field_structure_borrow_member_field_by_index_const(structure, (uint64_t)index);
	if (bt_field_class_type_is(bt_field_get_class_type(field),
				   BT_FIELD_CLASS_TYPE_SIGNED_INTEGER))
		*ret_value = bt_field_integer_signed_get_value(field);
	else
		*ret_value = (int64_t)bt_field_integer_unsigned_get_value(field);
	return true;
}

/* The process's name, in the packet's context or else in the trace's environment; NULL: absent. */
static const char *process_name(const bt_stream *stream, const bt_field *context, int index)
{
	if (context && index >= 0) {
		const char *name = bt_field_string_get_value(
			bt_field_structure_borrow_member_field_by_index_const(context,
									      (uint64_t)index));
		if (name[0])
			return name;
	}
	const bt_trace *trace = bt_stream_borrow_trace_const(stream);
	const bt_value *value =
		bt_trace_borrow_environment_entry_value_by_name_const(trace, "procname");

	return value && bt_value_is_string(value) ? bt_value_string_get(value) : NULL;
}

static void find_head(struct viewer *viewer, const bt_event *event, struct event_head *head)
{
	const bt_stream *stream = bt_event_borrow_stream_const(event);
	const struct who_index *who = find_who(viewer, bt_stream_borrow_class_const(stream));
	const bt_packet *packet = bt_event_borrow_packet_const(event);
	const bt_field *context = packet ? bt_packet_borrow_context_field_const(packet) : NULL;
	const char *name = bt_event_class_get_name(bt_event_borrow_class_const(event));

	head->name = name ? name : "?";
	head->process = process_name(stream, context, who->process);
	head->has_pid = read_member(context, who->pid, &head->pid);
	head->has_tid = read_member(context, who->tid, &head->tid);
}

/* ---- events -------------------------------------------------------------------------------- */

/* Payload first, then the contexts. */
static void add_fields(struct viewer *viewer, const bt_event *event)
{
	const bt_field *parts[] = {
		bt_event_borrow_payload_field_const(event),
		bt_event_borrow_specific_context_field_const(event),
		bt_event_borrow_common_context_field_const(event),
	};

	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		if (parts[i])
			view_field_members(viewer, parts[i]);
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
	struct event_head head = { 0 };

	if (!is_selected(viewer, message, event) ||
	    (viewer->filter && !view_filter_wants(viewer->filter, event)))
		return;
	if (viewer->trace != trace) {
		frames_free(viewer->line.frames);
		viewer->line.frames = find_modules(trace);
		viewer->trace = trace;
	}
	head.has_time = event_ns(message, event, &head.ns);
	find_head(viewer, event, &head);
	viewer->line.event = (struct frames_event){ (uint64_t)head.pid,
						    event_cycles(message, event) };
	event_line_begin(&viewer->line, &head);
	add_fields(viewer, event);
	event_line_end(&viewer->line);
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
