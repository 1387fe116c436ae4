/*
 * walk.h - from shared memory to a packet's events: copies events one after the other into private
 * memory and stops at the first that isn't complete.
 *
 * The memory may change while it is read, by its owner, who completes events, or by an enemy. Each
 * header is loaded once, and what was loaded is judged, believed and stored; the payload, which
 * nobody judges, is loaded after it (B4: a header without DT_EVENT_PENDING was stored after the
 * payload).
 */
#ifndef DYNTRACE_WALK_H
#define DYNTRACE_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/layout.h"
#include "control/event/event.h"

/* In sizes[]: the event says its size itself. */
#define WALK_VARIABLE (1u << 31)

enum walk_stop {
	WALK_END, /* of what there was to read */
	WALK_EMPTY, /* a header that is 0: nothing there, or nothing yet */
	WALK_PENDING, /* an event that is being written; its size is known */
	WALK_BROKEN, /* no such event, or it goes beyond the end */
};

struct walk {
	const uint32_t *sizes; /* by event id; 0: no such event */
	const struct event_types *types; /* for events of variable size; NULL: there are none */
	uint64_t *hits; /* by event id; counted up */
	uint32_t id_count;
	/* where it is: */
	const uint64_t *from; /* shared */
	uint64_t *to; /* private, as long as what there is to read */
	size_t words; /* left to read */
	uint64_t clock; /* of the last event, all 64 bits: no later event is before it */
	/* what it found: */
	enum walk_stop stop;
	uint64_t stopped_by; /* the header */
	uint64_t count; /* events copied by the last walk_events */
	uint64_t first_clock; /* of the first of them */
	uint32_t last_id; /* of the last of them */
	uint32_t last_padding; /* bytes behind its last field, if it is of variable size */
	unsigned fills; /* how often walk_skip said false */
	/* events whose clock was put forward to that of the one before; adds up */
	uint64_t stepped_back;
};

/* Goes on until something stops it. */
void walk_events(struct walk *walk);

/* Takes `count` copied events out of the hits again. */
void walk_uncount(struct walk *walk, const uint64_t *events, uint64_t count);

/*
 * Past what stopped it: a pending event by its size, a hole up to the next word that isn't 0
 * (nothing of an event is written before its header), something broken to the end. False: the hole
 * was filled meanwhile, nothing is skipped.
 */
bool walk_skip(struct walk *walk);

#endif
