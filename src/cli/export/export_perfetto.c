/*
 * export_perfetto.c - Perfetto's trace format (protobuf), for ui.perfetto.dev.
 *
 * A sequence of packets per thread, with a track, names that are sent once per sequence, and times
 * as differences. A call is a slice from its entry to its exit; what was open when events were
 * lost, or at the end, ends there, and a loss is a mark. Numbers of fields are from Perfetto's
 * documentation of TracePacket and TrackEvent.
 */
#include <string.h>

#include "control/ctf/read/run_merge.h"
#include "export.h"

/* Fields of messages. */
enum {
	TRACE_PACKET = 1,
	PACKET_CLOCKS = 6, PACKET_TIMESTAMP = 8, PACKET_SEQUENCE = 10, PACKET_EVENT = 11,
	PACKET_INTERNED = 12, PACKET_FLAGS = 13, PACKET_CLOCK_ID = 58, PACKET_DEFAULTS = 59,
	PACKET_TRACK = 60,
	CLOCKS_CLOCK = 1, CLOCK_ID = 1, CLOCK_TIME = 2, CLOCK_IS_INCREMENTAL = 3,
	EVENT_ANNOTATION = 4, EVENT_TYPE = 9, EVENT_NAME_ID = 10, EVENT_TRACK = 11, EVENT_NAME = 23,
	TRACK_ID = 1, TRACK_THREAD = 4, THREAD_PID = 1, THREAD_TID = 2,
	INTERNED_NAMES = 2, INTERNED_FIELDS = 3, NAME_ID = 1, NAME_TEXT = 2,
	ANNOTATION_UNSIGNED = 3, ANNOTATION_SIGNED = 4, ANNOTATION_DOUBLE = 5, ANNOTATION_TEXT = 6,
	ANNOTATION_NAME_ID = 1, ANNOTATION_NAME = 10,
};
enum { SLICE_BEGIN = 1, SLICE_END = 2, INSTANT = 3 };
enum { FLAG_CLEARED = 1 };
enum { BOOT_CLOCK = 6, OWN_CLOCK = 64 }; /* the second one is the sequence's, and incremental */

#define MESSAGE_MAX 8192u /* an event has at most DT_EVENT_SIZE_MAX bytes */

struct message {
	size_t size;
	bool is_full;
	uint8_t bytes[MESSAGE_MAX];
};

/* Leaves the bytes as they are: to clear them would take longer than all else. */
static void begin(struct message *message)
{
	message->size = 0;
	message->is_full = false;
}

static void add_bytes(struct message *message, const void *bytes, size_t size)
{
	if (message->size + size > MESSAGE_MAX) {
		message->is_full = true;
		return;
	}
	memcpy(message->bytes + message->size, bytes, size);
	message->size += size;
}

static void add_varint(struct message *message, uint64_t value)
{
	uint8_t bytes[10], count = 0;

	for (; value > 127; value >>= 7)
		bytes[count++] = (uint8_t)(value | 128);
	bytes[count++] = (uint8_t)value;
	add_bytes(message, bytes, count);
}

static void add_number(struct message *message, unsigned field, uint64_t value)
{
	add_varint(message, (uint64_t)field << 3);
	add_varint(message, value);
}

static void add_part(struct message *message, unsigned field, const void *bytes, size_t size)
{
	add_varint(message, (uint64_t)field << 3 | 2);
	add_varint(message, size);
	add_bytes(message, bytes, size);
}

/* ---- a thread ------------------------------------------------------------------------------- */

/* Numbers of names are small in each sequence: a number below 128 takes one byte per event. */
struct sent {
	uint32_t sequence; /* in which the names were sent last */
	uint64_t name, fields; /* the numbers: of the event's name, before those of its fields */
};

struct sequence {
	struct exporting *exporting;
	const struct trace_input *input;
	uint32_t id; /* of the thread's packets */
	uint64_t track;
	struct gap_watch watch; /* of the thread */
	bool is_begun;
	int64_t last_ns; /* of the packet before */
	VEC(const struct layout_event *) stack;
	struct sent *sent; /* by event id */
	uint64_t names, fields; /* numbers given out in the sequence */
	uint64_t done, whole; /* bytes of runs that were read, and of all traces */
};

static void put_packet(struct sequence *s, const struct message *packet)
{
	struct message outer;

	begin(&outer);
	if (packet->is_full)
		return; /* no event is that long */
	add_varint(&outer, TRACE_PACKET << 3 | 2);
	add_varint(&outer, packet->size);
	strbuf_add(&s->exporting->text, (const char *)outer.bytes, outer.size);
	strbuf_add(&s->exporting->text, (const char *)packet->bytes, packet->size);
}

/* Begins a packet: its sequence, and the time since the packet before. Without the flag that asks
 * readers to skip the packet where the sequence's first one is missing: it never is, and the flag
 * would be a tenth of the file. */
static void begin_packet(struct sequence *s, struct message *packet, int64_t ns)
{
	begin(packet);
	add_number(packet, PACKET_TIMESTAMP, ns > s->last_ns ? (uint64_t)(ns - s->last_ns) : 0);
	add_number(packet, PACKET_SEQUENCE, s->id);
	s->last_ns = ns > s->last_ns ? ns : s->last_ns;
}

static void add_clock(struct message *clocks, unsigned id, uint64_t time, bool is_incremental)
{
	struct message clock;

	begin(&clock);
	add_number(&clock, CLOCK_ID, id);
	add_number(&clock, CLOCK_TIME, time);
	if (is_incremental)
		add_number(&clock, CLOCK_IS_INCREMENTAL, 1);
	add_part(clocks, CLOCKS_CLOCK, clock.bytes, clock.size);
}

/* Sends what holds for all packets of the sequence: its clock begins at 0, and its events are of
 * the thread's track. */
static void put_defaults(struct sequence *s, int64_t ns)
{
	struct message packet, clocks, defaults, event;

	begin(&packet);
	begin(&clocks);
	begin(&defaults);
	begin(&event);
	add_clock(&clocks, BOOT_CLOCK, (uint64_t)ns, false);
	add_clock(&clocks, OWN_CLOCK, 0, true);
	add_number(&event, EVENT_TRACK, s->track);
	add_number(&defaults, PACKET_CLOCK_ID, OWN_CLOCK);
	add_part(&defaults, PACKET_EVENT, event.bytes, event.size);
	add_number(&packet, PACKET_TIMESTAMP, (uint64_t)ns);
	add_number(&packet, PACKET_CLOCK_ID, BOOT_CLOCK);
	add_number(&packet, PACKET_SEQUENCE, s->id);
	add_number(&packet, PACKET_FLAGS, FLAG_CLEARED);
	add_part(&packet, PACKET_CLOCKS, clocks.bytes, clocks.size);
	add_part(&packet, PACKET_DEFAULTS, defaults.bytes, defaults.size);
	put_packet(s, &packet);
}

/* Describes the thread's track. */
static void begin_sequence(struct sequence *s, const struct metadata_packet *head, int64_t ns)
{
	struct message packet, track, thread;

	begin(&packet);
	begin(&track);
	begin(&thread);
	put_defaults(s, ns);
	add_number(&thread, THREAD_PID, head->pid);
	add_number(&thread, THREAD_TID, head->tid);
	add_number(&track, TRACK_ID, s->track);
	add_part(&track, TRACK_THREAD, thread.bytes, thread.size);
	add_number(&packet, PACKET_TIMESTAMP, (uint64_t)ns);
	add_number(&packet, PACKET_CLOCK_ID, BOOT_CLOCK);
	add_number(&packet, PACKET_SEQUENCE, s->id);
	add_part(&packet, PACKET_TRACK, track.bytes, track.size);
	put_packet(s, &packet);
	s->is_begun = true;
	s->last_ns = ns;
}

static void add_interned_name(struct message *interned, unsigned field, uint64_t id,
			      const char *name, size_t length)
{
	struct message entry;

	begin(&entry);
	add_number(&entry, NAME_ID, id);
	add_part(&entry, NAME_TEXT, name, length);
	add_part(interned, field, entry.bytes, entry.size);
}

/* Sends the names of an event and its fields before its first one in the sequence. Names aren't
 * text for a terminal: their bytes are sent. */
static void add_interned(struct sequence *s, struct message *packet,
			 const struct layout_event *type, size_t length)
{
	const struct sent *sent = &s->sent[type->id];
	struct message interned;

	begin(&interned);
	add_interned_name(&interned, INTERNED_NAMES, sent->name, type->name, length);
	for (size_t i = 0; i < type->fields.count; i++) {
		const char *name = type->fields.items[i].name;

		add_interned_name(&interned, INTERNED_FIELDS, sent->fields + i + 1, name,
				  strlen(name));
	}
	add_part(packet, PACKET_INTERNED, interned.bytes, interned.size);
}

/* Gives numbers to the names of an event; false: the sequence has them. */
static bool number_names(struct sequence *s, const struct layout_event *type)
{
	struct sent *sent = &s->sent[type->id];

	if (sent->sequence == s->id)
		return false;
	*sent = (struct sent){ s->id, ++s->names, s->fields };
	s->fields += type->fields.count;
	return true;
}

static void add_value(struct message *note, const struct layout_place *place)
{
	const struct layout_field *field = place->field;
	uint64_t number = layout_number(field, place->bytes);
	float single;
	double value;

	if (field->kind == LAYOUT_STRING) {
		add_part(note, ANNOTATION_TEXT, place->bytes, strlen((const char *)place->bytes));
	} else if (field->kind == LAYOUT_FLOAT) {
		memcpy(&single, &number, sizeof(single));
		memcpy(&value, &number, sizeof(value));
		value = field->size == 4 ? (double)single : value;
		add_varint(note, ANNOTATION_DOUBLE << 3 | 1);
		add_bytes(note, &value, sizeof(value));
	} else {
		add_number(note, field->is_signed ? ANNOTATION_SIGNED : ANNOTATION_UNSIGNED,
			   number);
	}
}

/* Annotations: numbers and strings; structures and arrays stay out. */
static void add_fields(const struct sequence *s, struct message *event,
		       const struct layout_event *type, const uint8_t *bytes)
{
	struct layout_walk walk = layout_walk_event(type, bytes);
	struct layout_place place;
	struct message note;

	while (layout_walk_next(&walk, &place)) {
		if (view_own_is_silent(&place) || place.field->array != LAYOUT_ONE ||
		    place.field->kind == LAYOUT_STRUCT || !strcmp(place.field->name, "duration"))
			continue;
		begin(&note);
		add_number(&note, ANNOTATION_NAME_ID, s->sent[type->id].fields + walk.index);
		add_value(&note, &place);
		if (!note.is_full && event->size + note.size + 16 < MESSAGE_MAX / 2)
			add_part(event, EVENT_ANNOTATION, note.bytes, note.size);
	}
}

static void put_event(struct sequence *s, int64_t ns, unsigned kind,
		      const struct layout_event *type, const uint8_t *bytes)
{
	bool is_new = number_names(s, type);
	struct message packet, event;

	begin(&event);
	add_number(&event, EVENT_TYPE, kind);
	if (kind != SLICE_END)
		add_number(&event, EVENT_NAME_ID, s->sent[type->id].name);
	add_fields(s, &event, type, bytes);
	begin_packet(s, &packet, ns);
	if (is_new) /* a function's name; all of it, where it is no call */
		add_interned(s, &packet, type, kind == INSTANT ? strlen(type->name) : type->stem);
	add_part(&packet, PACKET_EVENT, event.bytes, event.size);
	put_packet(s, &packet);
}

/* ---- events --------------------------------------------------------------------------------- */

/* Why a call ends that has no exit. */
enum slice_end { ENDS_BEFORE, ENDS_CUT, ENDS_WITH_TRACE };

/* Ends calls, down to a depth, that have no exit; an annotation says what became of them. */
static void end_calls(struct sequence *s, int64_t ns, size_t depth, enum slice_end why)
{
	static const char *const words[] = { [FATE_UNWOUND] = "unwound",
					     [FATE_INSIDE] = "inside",
					     [FATE_MISSED] = "missed",
					     [FATE_UNKNOWN] = "unknown" };

	for (; s->stack.count > depth; s->stack.count--) {
		const struct layout_event *entry = s->stack.items[s->stack.count - 1];
		const char *word = why == ENDS_CUT ? "cut" :
						     words[layout_fate(&entry->fates,
								       why == ENDS_WITH_TRACE)];
		struct message packet, event, note;

		begin(&event);
		begin(&note);
		add_part(&note, ANNOTATION_NAME, "no exit", strlen("no exit"));
		add_part(&note, ANNOTATION_TEXT, word, strlen(word));
		add_number(&event, EVENT_TYPE, SLICE_END);
		add_part(&event, EVENT_ANNOTATION, note.bytes, note.size);
		begin_packet(s, &packet, ns);
		add_part(&packet, PACKET_EVENT, event.bytes, event.size);
		put_packet(s, &packet);
	}
}

/* (O10) of report.h: ends the call of a function that is called again. */
static void end_unseen(struct sequence *s, int64_t ns, const struct layout_event *entry)
{
	size_t at = s->stack.count;

	while (at && layout_ends_unseen(&s->stack.items[at - 1]->fates) &&
	       s->stack.items[at - 1] != entry)
		at--;
	if (at && s->stack.items[at - 1] == entry)
		end_calls(s, ns, at - 1, ENDS_BEFORE);
}

static void put_exit(struct sequence *s, int64_t ns, const struct packet_cursor *cursor)
{
	size_t at = s->stack.count;

	while (at && !layout_is_exit_of(s->stack.items[at - 1], cursor->type))
		at--;
	if (!at)
		return; /* its entry isn't in the trace */
	end_calls(s, ns, at, ENDS_BEFORE);
	put_event(s, ns, SLICE_END, cursor->type, cursor->event);
	s->stack.count--;
}

static void put_loss(struct sequence *s, const char *name, uint64_t count, int64_t ns)
{
	struct message packet, event, note;

	end_calls(s, ns, 0, ENDS_CUT);
	begin(&event);
	begin(&note);
	add_part(&note, ANNOTATION_NAME, "count", strlen("count"));
	add_number(&note, ANNOTATION_UNSIGNED, count);
	add_number(&event, EVENT_TYPE, INSTANT);
	add_part(&event, EVENT_NAME, name, strlen(name));
	add_part(&event, EVENT_ANNOTATION, note.bytes, note.size);
	begin_packet(s, &packet, ns);
	add_part(&packet, PACKET_EVENT, event.bytes, event.size);
	put_packet(s, &packet);
}

static void take(struct sequence *s, enum cursor_item item, const struct packet_cursor *cursor)
{
	const struct layout_event *type = cursor->type;
	int64_t ns = trace_layout_ns(&s->input->layout, cursor->cycles);

	if (item == CURSOR_LOST_EVENTS) /* the event before is the last of another time */
		ns = trace_layout_ns(&s->input->layout, cursor->lost_begin);
	if (!s->is_begun)
		begin_sequence(s, &cursor->head, ns);
	const struct packet_gap *gap = gap_watch_item(&s->watch, &s->input->gaps, cursor);
	if (gap)
		put_loss(s, "packets lost", gap->packets,
			 trace_layout_ns(&s->input->layout, gap->begin));
	if (item == CURSOR_LOST_EVENTS) {
		put_loss(s, "events lost", cursor->lost, ns);
	} else if (item == CURSOR_EVENT && type->part == LAYOUT_EXIT) {
		put_exit(s, ns, cursor);
	} else if (item == CURSOR_EVENT) {
		bool is_call = layout_exit_of(cursor->layout, type) != NULL;

		if (is_call && layout_ends_unseen(&type->fates))
			end_unseen(s, ns, type);
		put_event(s, ns, is_call ? SLICE_BEGIN : INSTANT, type, cursor->event);
		if (is_call && !vec_push(&s->stack, type))
			s->exporting->text.failed = true;
		if (layout_never_exits(&type->fates) && s->stack.count)
			end_calls(s, ns, s->stack.count - 1, ENDS_BEFORE);
	}
}

static void begin_thread(struct sequence *s, const struct trace_run *run)
{
	s->id++;
	s->names = s->fields = 0;
	s->is_begun = false;
	s->watch = (struct gap_watch){ 0 };
	s->track = (uint64_t)run->pid << 32 | run->tid;
}

/* Reads a run, and those that overlap with it. False: the file can't be written. */
static bool read_runs(struct sequence *s, struct run_merge *merge, size_t first)
{
	struct packet_cursor *cursor;
	enum cursor_item item;

	run_merge_begin(merge, s->input, first);
	while ((item = run_merge_next(merge, &cursor)) < CURSOR_END) {
		take(s, item, cursor);
		view_reader_count(s->exporting->reader, 1);
		view_reader_progress(s->exporting->reader, s->done + run_merge_bytes(merge),
				     s->whole);
		if (!export_flush(s->exporting, false))
			return false;
	}
	s->exporting->is_damaged |= item == CURSOR_DAMAGED;
	return true;
}

static void read_input(struct sequence *s, struct run_merge *merge)
{
	uint64_t last = 0;

	for (size_t i = 0; i < s->input->runs.count;) {
		if (trace_input_is_new_thread(s->input, i)) {
			end_calls(s, i ? trace_layout_ns(&s->input->layout, last) : 0, 0,
				  ENDS_WITH_TRACE);
			begin_thread(s, &s->input->runs.items[i]);
			last = 0;
		}
		if (!read_runs(s, merge, i))
			return;
		for (; i < merge->end; i++) {
			const struct trace_run *run = &s->input->runs.items[i];

			s->done += run->to - run->from;
			last = run->end > last ? run->end : last;
		}
	}
	end_calls(s, last ? trace_layout_ns(&s->input->layout, last) : 0, 0, ENDS_WITH_TRACE);
}

struct error *export_perfetto(struct exporting *exporting)
{
	struct sequence s = { .exporting = exporting };
	struct run_merge merge = { 0 };
	struct error *error = NULL;

	for (size_t i = 0; i < exporting->traces->inputs.count; i++)
		s.whole += exporting->traces->inputs.items[i]->size;
	for (size_t i = 0; i < exporting->traces->inputs.count && !error; i++) {
		s.input = exporting->traces->inputs.items[i];
		s.sent = calloc(s.input->layout.events.count + 1, sizeof(*s.sent));
		if (s.sent)
			read_input(&s, &merge);
		else
			error = error_new(ERROR_FAILED, "out of memory");
		free(s.sent);
	}
	vec_free(&s.stack);
	run_merge_free(&merge);
	return error;
}
