/*
 * packet_cursor.h - the events of consecutive packets of one file.
 *
 * Keeps one window of the file in memory, however long packets are. What it gives points into that
 * window until the next call.
 *
 * (Z3) An event that is given lies whole in the window and in its packet, and its fields fit.
 */
#ifndef DYNTRACE_PACKET_CURSOR_H
#define DYNTRACE_PACKET_CURSOR_H

#include "control/ctf/metadata.h"
#include "trace_layout.h"

#define CURSOR_WINDOW (128u << 10) /* a packet, as a rule */

enum cursor_item {
	CURSOR_EVENT,
	CURSOR_LOST_EVENTS, /* before the packet that begins here */
	CURSOR_LOST_PACKETS,
	CURSOR_END,
	CURSOR_DAMAGED, /* and `why` */
};

/* Numbers of the packet before: the differences to them are lost. */
struct cursor_before {
	uint64_t discarded, sequence, end;
	bool is_none; /* the file begins here, and no loss is known */
};

struct packet_cursor {
	const struct trace_layout *layout;
	int fd; /* -1: opened for each read */
	int directory;
	const char *name; /* of the file */
	uint64_t at, to; /* offsets of the next packet, and after the last one */
	struct cursor_before before;
	struct metadata_packet head; /* of the current packet */
	bool is_inside; /* a packet */
	bool lost_events, lost_packets; /* to be given before its events */
	const char *why;

	uint8_t *window;
	uint64_t window_at; /* its offset in the file */
	size_t filled, next; /* bytes; the next event's place */
	size_t content; /* where the packet's content ends in the window, or beyond it */

	/* the item that was given last: */
	const struct layout_event *type;
	const uint8_t *event;
	size_t size; /* header and fields */
	uint64_t cycles;
	uint64_t lost, lost_begin, lost_end; /* how many, and between which clocks */
};

/* Is this the head of a packet of the trace, that lies in `left` bytes? */
bool packet_is_sound(const struct trace_layout *layout, const struct metadata_packet *head,
		     uint64_t left);
/* Does the packet follow the ones before? */
bool packet_follows(const struct cursor_before *before, const struct metadata_packet *head);
struct cursor_before packet_after(const struct metadata_packet *head);

/* Allocates the window; false: out of memory. All else is the caller's to fill in. */
bool packet_cursor_begin(struct packet_cursor *cursor);
void packet_cursor_free(struct packet_cursor *cursor);
/* Goes to other packets, whatever became of the ones before. */
void packet_cursor_move(struct packet_cursor *cursor, uint64_t from, uint64_t to,
			const struct cursor_before *before);
enum cursor_item packet_cursor_next(struct packet_cursor *cursor);

/* Looks at the event after the one that was given, of the same thread. False: it is in another
 * packet, or there is none. */
bool packet_cursor_peek(const struct packet_cursor *cursor, const struct layout_event **ret_type,
			const uint8_t **ret_event);

#endif
