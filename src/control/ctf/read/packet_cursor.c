#include "packet_cursor.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/layout.h"

#define HEAD sizeof(struct metadata_packet)
#define STAMP_BITS 40

bool packet_is_sound(const struct trace_layout *layout, const struct metadata_packet *head,
		     uint64_t left)
{
	return head->magic == METADATA_MAGIC &&
	       !memcmp(head->uuid, layout->uuid, sizeof(head->uuid)) && head->stream_id == 0 &&
	       head->packet_size % 64 == 0 && head->content_size % 8 == 0 &&
	       head->content_size <= head->packet_size && head->content_size / 8 >= HEAD &&
	       head->packet_size / 8 <= left && head->timestamp_begin <= head->timestamp_end;
}

bool packet_follows(const struct cursor_before *before, const struct metadata_packet *head)
{
	return before->is_none ||
	       (head->timestamp_begin >= before->end &&
		head->events_discarded >= before->discarded &&
		head->packet_seq_num > before->sequence);
}

struct cursor_before packet_after(const struct metadata_packet *head)
{
	return (struct cursor_before){ .discarded = head->events_discarded,
				       .sequence = head->packet_seq_num,
				       .end = head->timestamp_end };
}

bool packet_cursor_begin(struct packet_cursor *cursor)
{
	cursor->window = malloc(CURSOR_WINDOW);
	return cursor->window != NULL;
}

void packet_cursor_free(struct packet_cursor *cursor)
{
	free(cursor->window);
	cursor->window = NULL;
}

void packet_cursor_move(struct packet_cursor *cursor, uint64_t from, uint64_t to,
			const struct cursor_before *before)
{
	cursor->at = from;
	cursor->to = to;
	cursor->before = *before;
	cursor->is_inside = cursor->lost_events = cursor->lost_packets = false;
	cursor->filled = 0;
	cursor->why = NULL;
}

static enum cursor_item damaged(struct packet_cursor *cursor, const char *why)
{
	cursor->why = why;
	cursor->is_inside = false;
	cursor->at = cursor->to; /* nothing after it is certain */
	return CURSOR_DAMAGED;
}

/* ---- window --------------------------------------------------------------------------------- */

static size_t read_at(int fd, uint8_t *to, size_t size, uint64_t at)
{
	size_t done = 0;

	while (done < size) {
		ssize_t n = pread(fd, to + done, size - done, (off_t)(at + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	return done;
}

/* Fills the window from that offset on, and keeps what it has of it. */
static void fill(struct packet_cursor *cursor, uint64_t at)
{
	size_t kept = 0;

	if (at >= cursor->window_at && at < cursor->window_at + cursor->filled) {
		kept = (size_t)(cursor->window_at + cursor->filled - at);
		memmove(cursor->window, cursor->window + cursor->filled - kept, kept);
	}
	size_t size = CURSOR_WINDOW;
	if (cursor->to - at < size)
		size = (size_t)(cursor->to - at);
	int fd = cursor->fd >= 0 ? cursor->fd :
				   openat(cursor->directory, cursor->name,
					  O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	cursor->window_at = at;
	cursor->filled = kept;
	if (size > kept && fd >= 0)
		cursor->filled += read_at(fd, cursor->window + kept, size - kept, at + kept);
	if (fd >= 0 && cursor->fd < 0)
		close(fd);
}

/* Makes `size` bytes from that offset on readable; false: the file has fewer. */
static bool see(struct packet_cursor *cursor, uint64_t at, size_t size)
{
	assert(size <= CURSOR_WINDOW);
	if (at < cursor->window_at || at + size > cursor->window_at + cursor->filled)
		fill(cursor, at);
	return cursor->window_at <= at && at + size <= cursor->window_at + cursor->filled;
}

/* ---- packets and events --------------------------------------------------------------------- */

static enum cursor_item begin_packet(struct packet_cursor *cursor)
{
	uint64_t left = cursor->to - cursor->at;
	struct metadata_packet *head = &cursor->head;

	if (left < HEAD || !see(cursor, cursor->at, HEAD))
		return damaged(cursor, "a packet is cut short");
	memcpy(head, cursor->window + (cursor->at - cursor->window_at), HEAD);
	if (!packet_is_sound(cursor->layout, head, left) || !packet_follows(&cursor->before, head))
		return damaged(cursor, "the head of a packet is wrong");
	uint64_t whole = head->content_size / 8;
	see(cursor, cursor->at, whole < CURSOR_WINDOW ? whole : CURSOR_WINDOW);
	cursor->next = (size_t)(cursor->at - cursor->window_at) + HEAD;
	cursor->content = (size_t)(cursor->at - cursor->window_at + whole);
	cursor->cycles = head->timestamp_begin;
	cursor->is_inside = true;
	cursor->lost_events = !cursor->before.is_none &&
			      head->events_discarded > cursor->before.discarded;
	cursor->lost_packets = !cursor->before.is_none &&
			       head->packet_seq_num - cursor->before.sequence > 1;
	cursor->lost_begin = cursor->before.end;
	return CURSOR_EVENT;
}

/* Losses come before the packet's events. */
static enum cursor_item next_loss(struct packet_cursor *cursor)
{
	const struct metadata_packet *head = &cursor->head;

	if (cursor->lost_events) {
		cursor->lost_events = false;
		cursor->lost = head->events_discarded - cursor->before.discarded;
		cursor->lost_end = head->timestamp_end;
		return CURSOR_LOST_EVENTS;
	}
	cursor->lost_packets = false;
	cursor->lost = head->packet_seq_num - cursor->before.sequence - 1;
	cursor->lost_end = head->timestamp_begin;
	return CURSOR_LOST_PACKETS;
}

static void end_packet(struct packet_cursor *cursor)
{
	cursor->before = packet_after(&cursor->head);
	cursor->at += cursor->head.packet_size / 8;
	cursor->is_inside = false;
}

/* Slides the window, so that the event at `next` lies in it as far as the window is large. */
static void slide(struct packet_cursor *cursor)
{
	size_t gone = cursor->next;

	fill(cursor, cursor->window_at + gone);
	cursor->next = 0;
	cursor->content -= gone;
}

/* The clock's upper bits are those of the event before, or one more. */
static uint64_t clock_after(uint64_t before, uint64_t stamp)
{
	uint64_t now = (before & ~((1ULL << STAMP_BITS) - 1)) | stamp;

	return now < before ? now + (1ULL << STAMP_BITS) : now;
}

/* The type of an event with that header; NULL: unknown. */
static const struct layout_event *type_of(const struct packet_cursor *cursor, uint64_t word)
{
	uint64_t id = word & ((1u << DT_EVENT_ID_BITS) - 1);

	return id < cursor->layout->events.count ? cursor->layout->events.items[id] : NULL;
}

static enum cursor_item next_event(struct packet_cursor *cursor)
{
	size_t in_packet = cursor->content - cursor->next, size = 0;
	uint64_t word;

	if (cursor->content > cursor->filled && cursor->next + LAYOUT_EVENT_MAX > cursor->filled)
		slide(cursor);
	/* a file that became shorter ends before its packet does */
	size_t seen = cursor->next < cursor->filled ? cursor->filled - cursor->next : 0;
	if (seen > in_packet)
		seen = in_packet;
	if (seen < sizeof(word))
		return damaged(cursor, "an event is cut short");
	memcpy(&word, cursor->window + cursor->next, sizeof(word));
	cursor->type = type_of(cursor, word);
	if (!cursor->type)
		return damaged(cursor, "an event is of no known kind");
	size = layout_measure(cursor->type, cursor->window + cursor->next, seen);
	if (!size)
		return damaged(cursor, "an event doesn't fit into its packet");
	assert(size <= seen); /* Z3 */
	cursor->event = cursor->window + cursor->next;
	cursor->size = size;
	cursor->cycles = clock_after(cursor->cycles, word >> DT_EVENT_ID_BITS);
	cursor->next += (size + 7) & ~(size_t)7;
	return CURSOR_EVENT;
}

enum cursor_item packet_cursor_next(struct packet_cursor *cursor)
{
	for (;;) {
		if (!cursor->is_inside) {
			if (cursor->at >= cursor->to)
				return cursor->why ? CURSOR_DAMAGED : CURSOR_END;
			if (begin_packet(cursor) == CURSOR_DAMAGED)
				return CURSOR_DAMAGED;
		}
		if (cursor->lost_events || cursor->lost_packets)
			return next_loss(cursor);
		if (cursor->next < cursor->content)
			return next_event(cursor);
		end_packet(cursor);
	}
}

bool packet_cursor_peek(const struct packet_cursor *cursor, const struct layout_event **ret_type,
			const uint8_t **ret_event)
{
	size_t end = cursor->content < cursor->filled ? cursor->content : cursor->filled;
	uint64_t word;

	if (!cursor->is_inside || cursor->next >= end || end - cursor->next < sizeof(word))
		return false;
	memcpy(&word, cursor->window + cursor->next, sizeof(word));
	const struct layout_event *type = type_of(cursor, word);
	if (!type || !layout_measure(type, cursor->window + cursor->next, end - cursor->next))
		return false;
	*ret_type = type;
	*ret_event = cursor->window + cursor->next;
	return true;
}
