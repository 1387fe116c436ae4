#include "trace_copy.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "control/base/strbuf.h"
#include "control/ctf/writer.h"
#include "shared/layout.h"
#include "trace_input.h"

#define PACKET_MAX (64u << 10)
#define ID "\n\tid = " /* behind the name in an event's declaration */

/* A packet that is being filled. */
struct filling {
	struct trace_copy *copy;
	struct trace_writer *writer;
	uint64_t stream; /* one per thread */
	struct packet packet; /* of the thread; begin and end of its events */
	uint64_t number; /* of the packet that the events come from */
	size_t size;
	uint8_t events[PACKET_MAX + LAYOUT_EVENT_MAX];
};

static struct error *write_packet(struct filling *filling)
{
	if (!filling->size)
		return NULL;
	filling->packet.events = filling->events;
	filling->packet.size = filling->size;
	filling->copy->bytes += filling->size;
	filling->size = 0;
	return writer_packet(filling->writer, filling->stream, &filling->packet);
}

static void begin_packet(struct filling *filling, const struct packet_cursor *cursor)
{
	const struct metadata_packet *head = &cursor->head;

	filling->number = head->packet_seq_num;
	filling->packet = (struct packet){ .begin = cursor->cycles,
					   .tid = head->tid,
					   .pid = head->pid,
					   .inner_tid = head->vtid,
					   .inner_pid = head->vpid };
	memcpy(filling->packet.process, head->procname, sizeof(filling->packet.process));
}

/* Must a new packet begin? Events between which others were left out may be too far apart (B6). */
static bool is_full(const struct filling *filling, const struct packet_cursor *cursor)
{
	return filling->size > PACKET_MAX || filling->number != cursor->head.packet_seq_num ||
	       (cursor->cycles - filling->packet.end) >> DT_CLOCK_GAP_SHIFT;
}

static struct error *copy_event(struct filling *filling, const struct packet_cursor *cursor)
{
	struct trace_copy *copy = filling->copy;
	size_t whole = DT_ROUND_UP(cursor->size, 8);
	struct error *error = NULL;

	if (!cursor->type->own || cursor->cycles < copy->since || cursor->cycles > copy->until)
		return NULL;
	if (filling->size && is_full(filling, cursor))
		error = write_packet(filling);
	if (error)
		return error;
	if (!filling->size)
		begin_packet(filling, cursor);
	assert(filling->size + whole <= sizeof(filling->events));
	memset(filling->events + filling->size + whole - 8, 0, 8);
	memcpy(filling->events + filling->size, cursor->event, cursor->size);
	filling->size += whole;
	filling->packet.end = cursor->cycles;
	filling->packet.padding = whole - cursor->size;
	++*(uint64_t *)cursor->type->own;
	copy->events++;
	return NULL;
}

static struct error *copy_run(const struct trace_input *input, size_t run,
			      struct packet_cursor *cursor, struct filling *filling)
{
	struct error *error = NULL;
	enum cursor_item item;

	trace_input_run(input, run, cursor);
	while (!error && (item = packet_cursor_next(cursor)) != CURSOR_END) {
		if (item == CURSOR_EVENT)
			error = copy_event(filling, cursor);
		else if (item == CURSOR_DAMAGED)
			error = error_new(ERROR_FAILED, "the trace '%s' is damaged: %s",
					  filling->copy->from, cursor->why);
	}
	struct error *last = write_packet(filling);
	if (error)
		error_free(last);
	return error ? error : last;
}

static struct error *copy_events(const struct trace_input *input, struct filling *filling)
{
	struct packet_cursor cursor = { 0 };
	struct error *error = NULL;

	cursor.layout = &input->layout;
	if (!packet_cursor_begin(&cursor))
		return error_new(ERROR_FAILED, "out of memory");
	for (size_t i = 0; i < input->runs.count && !error; i++) {
		if (i && trace_input_is_new_thread(input, i))
			writer_end_stream(filling->writer, filling->stream++);
		error = copy_run(input, i, &cursor, filling);
	}
	packet_cursor_free(&cursor);
	return error;
}

/* Reports losses in a stream of no thread. */
static struct error *write_losses(struct filling *filling)
{
	struct packet packet = { .begin = filling->copy->until,
				 .end = filling->copy->until,
				 .lost = filling->copy->lost };

	return packet.lost ? writer_packet(filling->writer, filling->stream + 1, &packet) : NULL;
}

/* ---- metadata -------------------------------------------------------------------------------- */

/* Appends the text up to `end`, with the new UUID for the old one. */
static void add_text(struct strbuf *to, const char *text, const char *end,
		     const struct strbuf *uuids)
{
	while (text < end) {
		const char *found = memmem(text, (size_t)(end - text), uuids[0].text,
					   uuids[0].length);

		strbuf_add(to, text, (size_t)((found ? found : end) - text));
		if (!found)
			return;
		strbuf_add(to, uuids[1].text, uuids[1].length);
		text = found + uuids[0].length;
	}
}

/* The type that is declared there, if its events are copied; else NULL. */
static const struct layout_event *find_copied(const struct trace_layout *layout, const char *id)
{
	unsigned long number = strtoul(id + strlen(ID), NULL, 10);
	const struct layout_event *type =
		number < layout->events.count ? layout->events.items[number] : NULL;

	return type && type->own ? type : NULL;
}

/* Appends the declaration from `event` to `end` with the copy's name. The name ends before `id`,
 * with `NAME_entry";`, of which no byte behind the stem is escaped. */
static void add_declaration(const struct trace_copy *copy, const struct layout_event *type,
			    const char *event, const char *id, const char *end, struct strbuf *to)
{
	size_t rest = strlen(type->name + type->stem) + strlen("\";");
	size_t dropped = copy->drops(copy->context, type), length = (size_t)(id - event);

	if (length < rest + dropped) /* the file is another one by now */
		return;
	strbuf_add(to, event, length - rest - dropped);
	strbuf_add(to, id - rest, (size_t)(end - id) + rest);
}

/* The text of metadata.c, which trace_layout_parse has accepted, without declarations of events
 * that aren't copied. A line "event {" begins one, a line "};" ends it: strings have no line
 * ends. */
static void copy_text(const struct trace_copy *copy, const struct trace_layout *layout,
		      const char *text, const struct strbuf *uuids, struct strbuf *to)
{
	const char *at = text;

	for (;;) {
		const char *event = strstr(at, "\nevent {\n");
		const char *id = event ? strstr(event, ID) : NULL;
		const char *end = id ? strstr(id, "\n};\n") : NULL;

		if (!end)
			break;
		end += strlen("\n};");
		const struct layout_event *type = find_copied(layout, id);
		add_text(to, at, event, uuids);
		if (type)
			add_declaration(copy, type, event, id, end, to);
		at = end;
	}
	add_text(to, at, at + strlen(at), uuids);
}

static char *read_text(const struct trace_input *input)
{
	_cleanup_close_ int fd = openat(input->directory, "metadata", O_RDONLY | O_CLOEXEC);
	struct strbuf text = { 0 };
	char part[65536];
	ssize_t n;

	while (fd >= 0 && (n = read(fd, part, sizeof(part))) > 0)
		strbuf_add(&text, part, (size_t)n);
	if (!text.failed && text.text)
		return text.text;
	strbuf_free(&text);
	return NULL;
}

static struct error *replace_metadata(const char *directory, const struct strbuf *text)
{
	_cleanup_free_ char *path = NULL, *name = NULL;

	if (text->failed || asprintf(&path, "%s/metadata.new", directory) < 0 ||
	    asprintf(&name, "%s/metadata", directory) < 0)
		return error_new(ERROR_FAILED, "out of memory");
	FILE *file = fopen(path, "wxe");
	bool written = file && fwrite(text->text, 1, text->length, file) == text->length;
	if ((file && fclose(file)) || !written || rename(path, name))
		return error_errno(errno, "cannot write '%s'", name);
	return NULL;
}

static struct error *write_metadata(const struct trace_copy *copy, const struct trace_input *input,
				    const uint8_t uuid[16])
{
	struct strbuf uuids[2] = { 0 }, to = { 0 };
	_cleanup_free_ char *text = read_text(input);
	struct error *error;

	metadata_uuid(&uuids[0], input->layout.uuid);
	metadata_uuid(&uuids[1], uuid);
	if (text && !uuids[0].failed && !uuids[1].failed) {
		copy_text(copy, &input->layout, text, uuids, &to);
		error = replace_metadata(copy->to, &to);
	} else {
		error = error_new(ERROR_FAILED, "cannot read the metadata of '%s'", copy->from);
	}
	strbuf_free(&uuids[0]);
	strbuf_free(&uuids[1]);
	strbuf_free(&to);
	return error;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static void mark_types(struct trace_copy *copy, struct trace_layout *layout)
{
	for (size_t i = 0; i < layout->events.count; i++) {
		struct layout_event *type = layout->events.items[i];

		if (type)
			type->own = copy->wants(copy->context, type);
	}
}

static struct error *copy_input(struct trace_copy *copy, struct trace_input *input)
{
	struct event_types none = { 0 };
	struct trace_info info = { 0 };
	struct clock_estimate clock = { .frequency = input->layout.frequency,
					.offset_s = input->layout.offset_s,
					.offset = input->layout.offset };
	_cleanup_free_ struct filling *filling = calloc(1, sizeof(*filling));
	struct writer_part part = { 0 };
	char unused[1];

	if (!filling)
		return error_new(ERROR_FAILED, "out of memory");
	filling->copy = copy;
	mark_types(copy, &input->layout);
	struct error *error = writer_create(copy->to, &info, &none, &clock, &filling->writer);
	if (error)
		return error;
	error = copy_events(input, filling);
	if (!error)
		error = write_losses(filling);
	writer_identify(filling->writer, &part, unused, sizeof(unused));
	struct error *closing = writer_close(filling->writer);
	if (!closing)
		closing = write_metadata(copy, input, part.uuid);
	if (error)
		error_free(closing);
	return error ? error : closing;
}

struct error *trace_copy(struct trace_copy *copy)
{
	struct trace_input *input = NULL;
	struct error *error = trace_input_open(copy->from, &input);

	if (error)
		return error;
	error = copy_input(copy, input);
	trace_input_free(input);
	return error;
}
