/*
 * pause.c - leave out events of pauses.
 *
 * Tracepoints are switched off in a pause, but a call that began before it still records its exit.
 */
#include <assert.h>
#include <string.h>

#include "reader_state.h"
#include "walk.h"

static bool is_paused(const struct reader_pauses *pauses, uint64_t clock)
{
	size_t count = pauses->count < READER_PAUSES ? pauses->count : READER_PAUSES;

	for (size_t i = 0; i < count; i++) {
		if (clock > pauses->items[i].begin && clock <= pauses->items[i].end)
			return true;
	}
	return false;
}

static bool is_touched(const struct reader_pauses *pauses, const struct walk *walk)
{
	size_t count = pauses->count < READER_PAUSES ? pauses->count : READER_PAUSES;

	for (size_t i = 0; i < count; i++) {
		if (walk->clock > pauses->items[i].begin &&
		    walk->first_clock <= pauses->items[i].end)
			return true;
	}
	return false;
}

void pause_apply(struct reader *reader, struct stream *stream, struct walk *walk)
{
	const struct reader_pauses *pauses = reader->options.pauses;
	uint64_t *at = reader->buffer, *to = at, clock = walk->first_clock, left = walk->count;

	if (!pauses || !is_touched(pauses, walk))
		return;
	for (walk->count = 0; left; left--) {
		uint64_t before = *at >> DT_EVENT_ID_BITS;
		size_t words = readout_words(reader, at);

		if (is_paused(pauses, clock)) {
			walk->hits[*at & DT_EVENT_ID_MASK]--;
			stream->read++;
		} else {
			readout_keep(reader, walk, to, at, words, clock);
			to += words;
		}
		at += words;
		if (left > 1)
			clock += ((*at >> DT_EVENT_ID_BITS) - before) & ((1ULL << 40) - 1);
	}
	assert(to <= at && at == walk->to);
	walk->to = to;
}
