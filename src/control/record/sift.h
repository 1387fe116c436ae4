/*
 * sift.h - keep some of the events that walk_events has copied, and move them together.
 *
 * Inline: the reader goes through each event of a thread once per rule.
 */
#ifndef DYNTRACE_SIFT_H
#define DYNTRACE_SIFT_H

#include <assert.h>

#include "reader_state.h"
#include "walk.h"

struct sift {
	struct reader *reader;
	struct stream *stream;
	struct walk *walk;
	const uint16_t *lengths; /* walk.lengths, from the first event on; NULL: not known */
	void *context;
	/* the event that is judged: */
	const uint64_t *event;
	size_t words;
	uint64_t clock; /* all 64 bits */
};

/* Is the event kept? Counts it where it belongs if not. */
typedef bool sift_keeps_fn(const struct sift *sift);

static inline void sift_events(struct sift *sift, sift_keeps_fn *keeps)
{
	struct reader *reader = sift->reader;
	struct walk *walk = sift->walk;
	uint64_t *at = reader->buffer, *to = at, left = walk->count;

	sift->clock = walk->first_clock;
	for (walk->count = 0; left; left--) {
		uint64_t before = *at >> DT_EVENT_ID_BITS;

		sift->event = at;
		sift->words = sift->lengths ? *sift->lengths++ : readout_words(reader, at);
		at += sift->words;
		if (keeps(sift)) {
			readout_keep(reader, walk, to, sift->event, sift->words, sift->clock);
			to += sift->words;
		}
		if (left > 1)
			sift->clock += walk_ahead(*at, before);
	}
	assert(to <= at && at == walk->to);
	walk->to = to;
}

#endif
