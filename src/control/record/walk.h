/*
 * walk.h - copy events from shared memory into private memory, up to the first incomplete one.
 *
 * The memory may change meanwhile: its owner completes events, and an enemy writes anything. Each
 * header is loaded once, and the loaded value is judged, believed and stored. The payload, which
 * isn't judged, is loaded after the header (B4: a header without DT_EVENT_PENDING was stored after
 * the payload).
 */
#ifndef DYNTRACE_WALK_H
#define DYNTRACE_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/layout.h"
#include "control/event/event.h"

#define WALK_CLOCK_BITS (64 - DT_EVENT_ID_BITS) /* of a clock in a header */

/* The cycles from a clock to that of a header, by the bits that the header has. */
static inline uint64_t walk_ahead(uint64_t header, uint64_t clock)
{
	return ((header >> DT_EVENT_ID_BITS) - clock) & ((1ULL << WALK_CLOCK_BITS) - 1);
}

/* In sizes[]: the event holds its own size. */
#define WALK_VARIABLE (1u << 31)
/* ... and all of its fields that vary are strings, so many, from that offset behind its header on.
 * No texts: not known. */
#define WALK_KIND(fixed, texts) (WALK_VARIABLE | (uint32_t)(texts) << 16 | (fixed))
#define WALK_TEXTS(kind) ((kind) >> 16 & 0x7fffu)
#define WALK_FIXED(kind) ((kind) & 0xffffu)

enum walk_stop {
	WALK_END, /* all words were read */
	WALK_EMPTY, /* a header that is 0: no event, or not yet */
	WALK_PENDING, /* an incomplete event of known size */
	WALK_BROKEN, /* an unknown event, or one that goes beyond the end */
};

struct walk {
	const uint32_t *sizes; /* by event id; 0: no such event */
	const struct event_types *types; /* for events of variable size; NULL: none */
	uint64_t *hits; /* by event id; counted up */
	uint32_t id_count;
	/* position: */
	const uint64_t *from; /* shared */
	uint64_t *to; /* private, with room for all words */
	size_t words; /* left to read */
	uint64_t clock; /* of the last event, all 64 bits: no later event is before it */
	/* findings: */
	enum walk_stop stop;
	uint64_t stopped_by; /* the header */
	uint64_t count; /* events copied by the last walk_events, and by walk_on since */
	uint64_t first_clock; /* of the first of them */
	uint32_t last_id; /* of the last of them */
	uint32_t last_padding; /* bytes after its last field, if it is of variable size */
	/* words of each copied event, in order: the next one's place, with room for as many as
	 * there are words to read; NULL: not kept */
	uint16_t *lengths;
	unsigned fills; /* how often walk_skip returned false */
	/* events whose clock was set to that of the event before; adds up */
	uint64_t stepped_back;
};

/* Copies events until walk->stop. */
void walk_events(struct walk *walk);
/* As walk_events, behind events that were copied: `count` and `first_clock` are of all of them. */
void walk_on(struct walk *walk);

/* Subtracts `count` copied events from the hits. */
void walk_uncount(struct walk *walk, const uint64_t *events, uint64_t count);

/*
 * Skips what stopped the walk: a pending event by its size, a hole up to the next word that isn't 0
 * (no part of an event is written before its header), all words after a broken event. False: a
 * thread filled the hole meanwhile, and nothing is skipped.
 */
bool walk_skip(struct walk *walk);

#endif
