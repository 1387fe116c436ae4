/*
 * nesting.c - leave out events outside of a function's calls (--only-inside), or too deep in others
 * (--depth).
 *
 * The reader follows each thread's calls by their entries and exits. An exit ends the calls above
 * its own, too: those were left by an exception or a longjmp. After a loss nobody knows which calls
 * are open, so the thread counts as outside of all.
 *
 * (V5) Of a call, entry and exit are both kept, or both left out. What is left out is counted.
 */
#include <stdlib.h>

#include "sift.h"

#define OPEN_MAX 65536 /* calls: beyond, the thread counts as outside of all */

struct nesting {
	VEC(uint32_t) calls; /* ids of their entries; the innermost is the last */
	size_t base; /* index of the outermost call that encloses; >= count: none */
	uint64_t lost; /* events of the thread, at the last look */
};

void nesting_free(struct nesting *nesting)
{
	if (nesting)
		vec_free(&nesting->calls);
	free(nesting);
}

static void forget(struct nesting *nesting)
{
	nesting->calls.count = 0;
	nesting->base = SIZE_MAX;
}

/* Is a call at that index, or an event inside of one before it, within the depth? */
static bool is_kept(const struct reader *reader, const struct nesting *nesting, size_t index)
{
	return index >= nesting->base && index - nesting->base <= reader->options.depth;
}

static bool take_entry(const struct reader *reader, struct nesting *nesting, uint32_t id)
{
	const struct event_type *type = &reader->options.types->items[id];
	size_t index = nesting->calls.count;

	if (index >= OPEN_MAX || !vec_push(&nesting->calls, id)) {
		forget(nesting);
		return false;
	}
	if (nesting->base > index && (type->encloses || !reader->options.only_inside))
		nesting->base = index;
	return is_kept(reader, nesting, index);
}

static bool take_exit(const struct reader *reader, struct nesting *nesting, uint32_t id)
{
	size_t index = nesting->calls.count;

	while (index && nesting->calls.items[index - 1] != id - 1)
		index--;
	if (!index)
		return false; /* the call began before, or its entry was lost */
	index--;
	bool kept = is_kept(reader, nesting, index);
	nesting->calls.count = index;
	if (nesting->base >= index)
		nesting->base = SIZE_MAX;
	return kept;
}

static bool take(const struct reader *reader, struct nesting *nesting, uint32_t id)
{
	const struct event_type *types = reader->options.types->items;

	if (types[id].has_exit)
		return take_entry(reader, nesting, id);
	if (id && types[id - 1].has_exit)
		return take_exit(reader, nesting, id);
	if (!reader->options.only_inside && !nesting->calls.count)
		return true;
	return is_kept(reader, nesting, nesting->calls.count);
}

/* The thread's open calls; NULL: out of memory. */
static struct nesting *find(struct stream *stream)
{
	uint64_t lost = stream->lost + stream->holes + stream->unwritten;

	if (!stream->nesting && (stream->nesting = calloc(1, sizeof(*stream->nesting))))
		forget(stream->nesting);
	if (stream->nesting && stream->nesting->lost != lost) {
		forget(stream->nesting);
		stream->nesting->lost = lost;
	}
	return stream->nesting;
}

/* sift_keeps_fn */
static bool is_inside(const struct sift *sift)
{
	uint32_t id = (uint32_t)(*sift->event & DT_EVENT_ID_MASK);

	if (sift->context && take(sift->reader, sift->context, id)) /* V5 */
		return true;
	sift->walk->hits[id]--;
	sift->stream->read++;
	sift->reader->totals.outside++;
	return false;
}

void nesting_apply(struct reader *reader, struct stream *stream, struct walk *walk)
{
	struct sift sift = {
		.reader = reader, .stream = stream, .walk = walk, .context = find(stream)
	};

	sift_events(&sift, is_inside);
}

void nesting_forget(struct stream *stream)
{
	if (stream->nesting)
		forget(stream->nesting);
}
