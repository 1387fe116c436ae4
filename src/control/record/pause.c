/*
 * pause.c - leave out events of pauses, and those before a snapshot's first moment.
 *
 * Tracepoints are switched off in a pause, but a call that began before it still records its exit.
 */
#include <assert.h>
#include <string.h>

#include "reader_state.h"
#include "walk.h"

static size_t count_of(const struct reader_pauses *pauses)
{
	return !pauses ? 0 : pauses->count < READER_PAUSES ? pauses->count : READER_PAUSES;
}

static bool is_left_out(const struct reader_options *options, uint64_t clock)
{
	const struct reader_pauses *pauses = options->pauses;

	if (clock < options->from)
		return true;
	for (size_t i = 0; i < count_of(pauses); i++) {
		if (clock > pauses->items[i].begin && clock <= pauses->items[i].end)
			return true;
	}
	return false;
}

static bool is_touched(const struct reader_options *options, const struct walk *walk)
{
	const struct reader_pauses *pauses = options->pauses;

	if (walk->first_clock < options->from)
		return true;
	for (size_t i = 0; i < count_of(pauses); i++) {
		if (walk->clock > pauses->items[i].begin &&
		    walk->first_clock <= pauses->items[i].end)
			return true;
	}
	return false;
}

void pause_apply(struct reader *reader, struct stream *stream, struct walk *walk)
{
	uint64_t *at = reader->buffer, *to = at, clock = walk->first_clock, left = walk->count;

	if (!is_touched(&reader->options, walk))
		return;
	for (walk->count = 0; left; left--) {
		uint64_t before = *at >> DT_EVENT_ID_BITS;
		size_t words = readout_words(reader, at);

		if (is_left_out(&reader->options, clock)) {
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
