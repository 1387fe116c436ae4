/*
 * dump.c - a sink of babeltrace2 that writes every message of a trace as one line of JSON.
 *
 * Tests read traces through it: babeltrace2 decodes and judges. Its Python module does the same in
 * 60 us per event; this sink and json.loads need 5. Lines (STREAM numbers the streams from 0):
 *
 *	["stream", STREAM, {environment}, [names of kinds of events]]
 *	["packet", STREAM, cycles, {context}]
 *	["event", STREAM, name, cycles, ns, cycles per second, payload, own context, common context]
 *	["end", STREAM, cycles]			the end of the packet
 *	["lost", STREAM, events]
 *	["missing", STREAM, first cycle, last cycle, packets]
 *
 * Fields are objects, or null where the kind of event has none. Text has the bytes of the trace. A
 * field of a class that is missing below ends babeltrace2 with an error.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <babeltrace2/babeltrace.h>

struct dump {
	bt_message_iterator *messages;
	const bt_stream **streams;	/* by their number */
	size_t stream_count;
};

/* ---- values ---------------------------------------------------------------------------------- */

static void write_text(const char *text, size_t size)
{
	putchar_unlocked('"');
	for (size_t i = 0; i < size; i++) {
		unsigned char byte = text[i];

		if (byte == '"' || byte == '\\')
			printf("\\%c", byte);
		else if (byte < ' ' || byte == 0x7f)
			printf("\\u%04x", byte);
		else
			putchar_unlocked(byte);
	}
	putchar_unlocked('"');
}

static void write_string(const char *text)
{
	write_text(text, strlen(text));
}

/* Writes a number that Python reads as a float, and as the same one. */
static void write_real(double value)
{
	char digits[40];

	if (isnan(value))
		strcpy(digits, "NaN");
	else if (isinf(value))
		strcpy(digits, value < 0 ? "-Infinity" : "Infinity");
	else
		snprintf(digits, sizeof(digits), "%.17g", value);
	fputs(digits, stdout);
	if (!strpbrk(digits, ".eNI"))
		fputs(".0", stdout);
}

static void write_field(const bt_field *field);

static void write_structure(const bt_field *field)
{
	const bt_field_class *class = bt_field_borrow_class_const(field);
	uint64_t count = bt_field_class_structure_get_member_count(class);

	putchar_unlocked('{');
	for (uint64_t i = 0; i < count; i++) {
		const bt_field_class_structure_member *member =
			bt_field_class_structure_borrow_member_by_index_const(class, i);

		if (i)
			putchar_unlocked(',');
		write_string(bt_field_class_structure_member_get_name(member));
		putchar_unlocked(':');
		write_field(bt_field_structure_borrow_member_field_by_index_const(field, i));
	}
	putchar_unlocked('}');
}

static void write_array(const bt_field *field)
{
	uint64_t count = bt_field_array_get_length(field);

	putchar_unlocked('[');
	for (uint64_t i = 0; i < count; i++) {
		if (i)
			putchar_unlocked(',');
		write_field(bt_field_array_borrow_element_field_by_index_const(field, i));
	}
	putchar_unlocked(']');
}

static void write_field(const bt_field *field)
{
	bt_field_class_type type = bt_field_get_class_type(field);

	if (bt_field_class_type_is(type, BT_FIELD_CLASS_TYPE_UNSIGNED_INTEGER)) {
		printf("%" PRIu64, bt_field_integer_unsigned_get_value(field));
	} else if (bt_field_class_type_is(type, BT_FIELD_CLASS_TYPE_SIGNED_INTEGER)) {
		printf("%" PRId64, bt_field_integer_signed_get_value(field));
	} else if (type == BT_FIELD_CLASS_TYPE_STRING) {
		/* By its length: an empty text still has the bytes of the text before it. */
		write_text(bt_field_string_get_value(field), bt_field_string_get_length(field));
	} else if (type == BT_FIELD_CLASS_TYPE_STRUCTURE) {
		write_structure(field);
	} else if (bt_field_class_type_is(type, BT_FIELD_CLASS_TYPE_ARRAY)) {
		write_array(field);
	} else if (type == BT_FIELD_CLASS_TYPE_SINGLE_PRECISION_REAL) {
		write_real(bt_field_real_single_precision_get_value(field));
	} else if (type == BT_FIELD_CLASS_TYPE_DOUBLE_PRECISION_REAL) {
		write_real(bt_field_real_double_precision_get_value(field));
	} else {
		fprintf(stderr, "dump.c: a field has a class of the unknown type %#llx\n",
			(unsigned long long)type);
		exit(1);
	}
}

static void write_part(const bt_field *field)
{
	putchar_unlocked(',');
	if (field)
		write_structure(field);
	else
		fputs("null", stdout);
}

/* ---- messages -------------------------------------------------------------------------------- */

static size_t stream_number(struct dump *dump, const bt_stream *stream)
{
	size_t number = 0;

	while (number < dump->stream_count && dump->streams[number] != stream)
		number++;
	if (number == dump->stream_count) {
		dump->streams = realloc(dump->streams, (number + 1) * sizeof(*dump->streams));
		if (!dump->streams)
			abort();
		/* A reference, so that no later stream has the same address. */
		bt_stream_get_ref(stream);
		dump->streams[dump->stream_count++] = stream;
	}
	return number;
}

static void write_environment(const bt_trace *trace)
{
	uint64_t count = bt_trace_get_environment_entry_count(trace);

	putchar_unlocked('{');
	for (uint64_t i = 0; i < count; i++) {
		const bt_value *value;
		const char *name;

		bt_trace_borrow_environment_entry_by_index_const(trace, i, &name, &value);
		if (i)
			putchar_unlocked(',');
		write_string(name);
		putchar_unlocked(':');
		if (bt_value_is_string(value))
			write_string(bt_value_string_get(value));
		else
			printf("%" PRId64, bt_value_integer_signed_get(value));
	}
	putchar_unlocked('}');
}

static void write_stream(struct dump *dump, const bt_stream *stream)
{
	const bt_stream_class *class = bt_stream_borrow_class_const(stream);
	uint64_t count = bt_stream_class_get_event_class_count(class);

	printf("[\"stream\",%zu,", stream_number(dump, stream));
	write_environment(bt_stream_borrow_trace_const(stream));
	fputs(",[", stdout);
	for (uint64_t i = 0; i < count; i++) {
		if (i)
			putchar_unlocked(',');
		write_string(bt_event_class_get_name(
			bt_stream_class_borrow_event_class_by_index_const(class, i)));
	}
	fputs("]]\n", stdout);
}

static void write_event(struct dump *dump, const bt_message *message)
{
	const bt_event *event = bt_message_event_borrow_event_const(message);
	const bt_clock_snapshot *clock =
		bt_message_event_borrow_default_clock_snapshot_const(message);
	int64_t ns;

	if (bt_clock_snapshot_get_ns_from_origin(clock, &ns) != 0)
		exit(1);
	printf("[\"event\",%zu,", stream_number(dump, bt_event_borrow_stream_const(event)));
	write_string(bt_event_class_get_name(bt_event_borrow_class_const(event)));
	printf(",%" PRIu64 ",%" PRId64 ",%" PRIu64, bt_clock_snapshot_get_value(clock), ns,
	       bt_clock_class_get_frequency(bt_clock_snapshot_borrow_clock_class_const(clock)));
	write_part(bt_event_borrow_payload_field_const(event));
	write_part(bt_event_borrow_specific_context_field_const(event));
	write_part(bt_event_borrow_common_context_field_const(event));
	fputs("]\n", stdout);
}

static void write_packet(struct dump *dump, const bt_message *message)
{
	const bt_packet *packet = bt_message_packet_beginning_borrow_packet_const(message);
	const bt_clock_snapshot *clock =
		bt_message_packet_beginning_borrow_default_clock_snapshot_const(message);

	printf("[\"packet\",%zu,%" PRIu64,
	       stream_number(dump, bt_packet_borrow_stream_const(packet)),
	       bt_clock_snapshot_get_value(clock));
	write_part(bt_packet_borrow_context_field_const(packet));
	fputs("]\n", stdout);
}

static void write_packet_end(struct dump *dump, const bt_message *message)
{
	const bt_packet *packet = bt_message_packet_end_borrow_packet_const(message);
	const bt_clock_snapshot *clock =
		bt_message_packet_end_borrow_default_clock_snapshot_const(message);

	printf("[\"end\",%zu,%" PRIu64 "]\n",
	       stream_number(dump, bt_packet_borrow_stream_const(packet)),
	       bt_clock_snapshot_get_value(clock));
}

static void write_lost(struct dump *dump, const bt_message *message)
{
	uint64_t count;

	if (bt_message_discarded_events_get_count(message, &count) !=
	    BT_PROPERTY_AVAILABILITY_AVAILABLE)
		exit(1);
	printf("[\"lost\",%zu,%" PRIu64 "]\n",
	       stream_number(dump, bt_message_discarded_events_borrow_stream_const(message)),
	       count);
}

static void write_missing(struct dump *dump, const bt_message *message)
{
	uint64_t count;

	if (bt_message_discarded_packets_get_count(message, &count) !=
	    BT_PROPERTY_AVAILABILITY_AVAILABLE)
		exit(1);
	const bt_clock_snapshot *begin =
		bt_message_discarded_packets_borrow_beginning_default_clock_snapshot_const(message);
	const bt_clock_snapshot *end =
		bt_message_discarded_packets_borrow_end_default_clock_snapshot_const(message);

	printf("[\"missing\",%zu,%" PRIu64 ",%" PRIu64 ",%" PRIu64 "]\n",
	       stream_number(dump, bt_message_discarded_packets_borrow_stream_const(message)),
	       bt_clock_snapshot_get_value(begin), bt_clock_snapshot_get_value(end), count);
}

static void write_message(struct dump *dump, const bt_message *message)
{
	switch (bt_message_get_type(message)) {
	case BT_MESSAGE_TYPE_EVENT:
		write_event(dump, message);
		break;
	case BT_MESSAGE_TYPE_PACKET_BEGINNING:
		write_packet(dump, message);
		break;
	case BT_MESSAGE_TYPE_PACKET_END:
		write_packet_end(dump, message);
		break;
	case BT_MESSAGE_TYPE_STREAM_BEGINNING:
		write_stream(dump, bt_message_stream_beginning_borrow_stream_const(message));
		break;
	case BT_MESSAGE_TYPE_DISCARDED_EVENTS:
		write_lost(dump, message);
		break;
	case BT_MESSAGE_TYPE_DISCARDED_PACKETS:
		write_missing(dump, message);
		break;
	default:
		break;
	}
}

/* ---- the component --------------------------------------------------------------------------- */

static bt_component_class_initialize_method_status
initialize(bt_self_component_sink *self, bt_self_component_sink_configuration *configuration,
	   const bt_value *parameters, void *data)
{
	struct dump *dump = calloc(1, sizeof(*dump));

	if (!dump)
		return BT_COMPONENT_CLASS_INITIALIZE_METHOD_STATUS_MEMORY_ERROR;
	bt_self_component_set_data(bt_self_component_sink_as_self_component(self), dump);
	return (bt_component_class_initialize_method_status)bt_self_component_sink_add_input_port(
		self, "in", NULL, NULL);
}

static struct dump *dump_of(bt_self_component_sink *self)
{
	return bt_self_component_get_data(bt_self_component_sink_as_self_component(self));
}

static bt_component_class_sink_graph_is_configured_method_status
get_ready(bt_self_component_sink *self)
{
	bt_self_component_port_input *port =
		bt_self_component_sink_borrow_input_port_by_index(self, 0);

	return (bt_component_class_sink_graph_is_configured_method_status)
		bt_message_iterator_create_from_sink_component(self, port,
							       &dump_of(self)->messages);
}

static bt_component_class_sink_consume_method_status consume(bt_self_component_sink *self)
{
	struct dump *dump = dump_of(self);
	bt_message_iterator_next_status status;
	bt_message_array_const messages;
	uint64_t count;

	status = bt_message_iterator_next(dump->messages, &messages, &count);
	for (uint64_t i = 0; status == BT_MESSAGE_ITERATOR_NEXT_STATUS_OK && i < count; i++) {
		write_message(dump, messages[i]);
		bt_message_put_ref(messages[i]);
	}
	if (status == BT_MESSAGE_ITERATOR_NEXT_STATUS_END && fflush(stdout) != 0)
		return BT_COMPONENT_CLASS_SINK_CONSUME_METHOD_STATUS_ERROR;
	return (bt_component_class_sink_consume_method_status)status;
}

static void finalize(bt_self_component_sink *self)
{
	struct dump *dump = dump_of(self);

	for (size_t i = 0; i < dump->stream_count; i++)
		bt_stream_put_ref(dump->streams[i]);
	free(dump->streams);
	bt_message_iterator_put_ref(dump->messages);
	free(dump);
}

BT_PLUGIN_MODULE();
BT_PLUGIN(dyntrace_tests);
BT_PLUGIN_SINK_COMPONENT_CLASS(json, consume);
BT_PLUGIN_SINK_COMPONENT_CLASS_INITIALIZE_METHOD(json, initialize);
BT_PLUGIN_SINK_COMPONENT_CLASS_GRAPH_IS_CONFIGURED_METHOD(json, get_ready);
BT_PLUGIN_SINK_COMPONENT_CLASS_FINALIZE_METHOD(json, finalize);
