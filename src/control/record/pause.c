/*
 * pause.c - leave out events of pauses, and those before or after a snapshot's time.
 *
 * Tracepoints are switched off in a pause, but a call that began before it still records its exit.
 *
 * Likewise events that the trace of a killed controller has already, where some are pairs (R10):
 * how far it has these, and how far the others, differs by a reading at most.
 */
#include "sift.h"

static size_t count_of(const struct reader_pauses *pauses)
{
	return !pauses ? 0 : pauses->count < READER_PAUSES ? pauses->count : READER_PAUSES;
}

/* Has the trace this event already? */
static bool is_there(const struct reader *reader, const struct stream *stream,
		     const uint64_t *event, uint64_t clock)
{
	if (!reader->has_pairs)
		return false; /* readout_skip has looked */
	bool is_pair = reader->options.types->items[*event & DT_EVENT_ID_MASK].is_pair;
	return clock <= (is_pair ? stream->skip_pairs : stream->skip);
}

static bool is_left_out(const struct reader_options *options, uint64_t clock)
{
	const struct reader_pauses *pauses = options->pauses;

	if (clock < options->from || (options->until && clock > options->until))
		return true;
	for (size_t i = 0; i < count_of(pauses); i++) {
		if (clock > pauses->items[i].begin && clock <= pauses->items[i].end)
			return true;
	}
	return false;
}

static bool is_touched(const struct reader *reader, const struct stream *stream,
		       const struct walk *walk)
{
	const struct reader_options *options = &reader->options;
	const struct reader_pauses *pauses = options->pauses;

	if (walk->first_clock < options->from || (options->until && walk->clock > options->until))
		return true;
	if (reader->has_pairs && (walk->first_clock <= stream->skip ||
				  walk->first_clock <= stream->skip_pairs))
		return true;
	for (size_t i = 0; i < count_of(pauses); i++) {
		if (walk->clock > pauses->items[i].begin &&
		    walk->first_clock <= pauses->items[i].end)
			return true;
	}
	return false;
}

/* sift_keeps_fn */
static bool is_kept(const struct sift *sift)
{
	if (!is_there(sift->reader, sift->stream, sift->event, sift->clock) &&
	    !is_left_out(&sift->reader->options, sift->clock))
		return true;
	sift->walk->hits[*sift->event & DT_EVENT_ID_MASK]--;
	sift->stream->read++;
	return false;
}

void pause_apply(struct reader *reader, struct stream *stream, struct walk *walk)
{
	struct sift sift = { .reader = reader, .stream = stream, .walk = walk };

	if (is_touched(reader, stream, walk))
		sift_events(&sift, is_kept);
}
