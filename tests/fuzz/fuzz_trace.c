/*
 * A trace of our own with any bytes in its metadata and its packets: whoever made the trace. What
 * the parser accepts must be a layout by which events can be read; each event that a cursor gives
 * lies in its packet, and so do all its fields.
 *
 * The input: a length of 32 bits, the metadata of that length, then a file with packets.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"

#include "control/ctf/read/packet_cursor.h"

static void check_fields(const struct layout_fields *fields, unsigned depth)
{
	REQUIRE(depth < 64);
	for (size_t i = 0; i < fields->count; i++) {
		const struct layout_field *field = &fields->items[i];

		REQUIRE(field->name && (field->align & (field->align - 1)) == 0 && field->align);
		REQUIRE(field->size <= 8 && (field->kind < LAYOUT_STRING) == (field->size != 0));
		check_fields(&field->members, depth + 1);
	}
}

/* Z1, and an empty event of each type can be measured. */
static void check_layout(const struct trace_layout *layout)
{
	static const uint8_t nothing[LAYOUT_EVENT_MAX];

	REQUIRE(layout->frequency && layout->offset < layout->frequency);
	for (size_t i = 0; i < layout->events.count; i++) {
		const struct layout_event *event = layout->events.items[i];

		if (!event)
			continue;
		REQUIRE(event->id == i && event->name);
		REQUIRE(event->least >= 8 && event->least <= LAYOUT_EVENT_MAX);
		REQUIRE(layout_measure(event, nothing, sizeof(nothing)) == event->least);
		REQUIRE(layout_measure(event, nothing, event->least - 1) == 0);
		check_fields(&event->fields, 0);
	}
}

/* Goes to every byte of every value. Z2: elements have a size. */
static uint64_t check_values(struct layout_walk walk, const uint8_t *end)
{
	struct layout_place place;
	uint64_t sum = 0;

	while (layout_walk_next(&walk, &place)) {
		const uint8_t *element = place.bytes;

		for (uint32_t i = 0; i < place.count; i++) {
			const uint8_t *next = layout_skip(place.field, walk.event, element);

			REQUIRE(next <= end);
			REQUIRE(next > element || place.field->array == LAYOUT_ONE);
			if (place.field->kind == LAYOUT_STRING)
				sum += strlen((const char *)element);
			else if (place.field->kind == LAYOUT_STRUCT)
				sum += check_values(layout_walk_members(place.field, walk.event,
									element),
						    end);
			else
				sum += layout_number(place.field, element);
			element = next;
		}
	}
	REQUIRE(walk.event + walk.at <= end);
	return sum;
}

/* Z3 */
static void check_event(const struct packet_cursor *cursor)
{
	static uint8_t alone[CURSOR_WINDOW];
	const uint8_t *at = cursor->event;

	REQUIRE(at >= cursor->window && cursor->size >= 8 &&
		at + cursor->size <= cursor->window + cursor->filled &&
		at + cursor->size <= cursor->window + cursor->content);
	REQUIRE(layout_measure(cursor->type, at, cursor->size) == cursor->size);
	/* nothing beyond the event matters */
	memcpy(alone, at, cursor->size);
	uint64_t sum = check_values(layout_walk_event(cursor->type, at), at + cursor->size);
	REQUIRE(check_values(layout_walk_event(cursor->type, alone), alone + cursor->size) == sum);
	const struct layout_event *type;
	const uint8_t *next;
	if (packet_cursor_peek(cursor, &type, &next))
		REQUIRE(next >= at + cursor->size && next < cursor->window + cursor->content &&
			check_values(layout_walk_event(type, next),
				     cursor->window + cursor->filled) | 1);
	REQUIRE(cursor->cycles >= cursor->head.timestamp_begin ||
		cursor->head.timestamp_begin >> 63);
}

static void read_packets(const struct trace_layout *layout, const uint8_t *bytes, size_t size)
{
	int fd = memfd_create("packets", MFD_CLOEXEC);
	struct packet_cursor cursor = { .layout = layout, .fd = fd, .directory = -1, .name = "" };
	enum cursor_item item;
	size_t events = 0;

	REQUIRE(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
	REQUIRE(packet_cursor_begin(&cursor));
	packet_cursor_move(&cursor, 0, size, &(struct cursor_before){ .is_none = true });
	while ((item = packet_cursor_next(&cursor)) < CURSOR_END) {
		if (item == CURSOR_EVENT)
			check_event(&cursor);
		else
			REQUIRE(cursor.lost && cursor.lost_begin <= cursor.lost_end);
		REQUIRE(++events <= size);
	}
	REQUIRE(packet_cursor_next(&cursor) == item); /* it stays at its end */
	packet_cursor_free(&cursor);
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct fuzz_input input = { bytes, size };
	struct trace_layout layout;
	uint32_t length = 0;

	fuzz_take(&input, &length, sizeof(length));
	if (length > input.size)
		length = (uint32_t)input.size;
	struct fuzz_input text = { input.bytes, length };
	char *metadata = fuzz_text(&text);
	struct error *error = trace_layout_parse(metadata, length, &layout);

	free(metadata);
	if (error) {
		error_free(error);
		return 0;
	}
	check_layout(&layout);
	read_packets(&layout, input.bytes + length, input.size - length);
	trace_layout_free(&layout);
	return 0;
}
