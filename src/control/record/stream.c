#include "stream.h"

#include <assert.h>

#include "control/ctf/writer.h"
#include "reader_state.h"

void stream_open(struct stream *stream, struct stream_sink *sink, const struct dt_thread *record,
		 const struct reader_options *options)
{
	struct reader_thread who = { record->pid, record->tid, record->pid, record->tid,
				     record->start, record->program, record->process };

	if (options->outer)
		options->outer(options->outer_context, &who);
	*stream = (struct stream){
		.open = true,
		.number = sink->next_number++,
		.pid = record->pid,
		.tid = record->tid,
		.outer_pid = who.outer_pid,
		.outer_tid = who.outer_tid,
		.process = record->process,
	};
}

uint64_t stream_seek(struct stream *stream, struct stream_sink *sink, uint64_t begin)
{
	if (begin >= stream->end)
		return begin;
	if (stream->end - begin <= STREAM_SKEW)
		return stream->end;
	if (sink->writer)
		writer_end_stream(sink->writer, stream->number);
	stream->number = sink->next_number++;
	stream->carried += stream->told;
	stream->told = 0;
	stream->end = 0;
	return begin;
}

void stream_note_lost(struct stream *stream, struct stream_sink *sink, uint64_t lost)
{
	stream->lost = losses_believe(&sink->losses, stream->lost, lost);
}

/* Losses that this number of the stream reports. */
static uint64_t stream_losses(const struct stream *stream)
{
	uint64_t lost = stream->lost + stream->holes + stream->unwritten;

	/* `carried` of a dead controller includes holes, which may be gone with their chunks. */
	return lost > stream->carried ? lost - stream->carried : 0;
}

static struct error *stream_put(const struct stream *stream, struct stream_sink *sink,
				uint64_t number, struct packet *packet)
{
	packet->pid = stream->outer_pid;
	packet->tid = stream->outer_tid;
	packet->inner_pid = stream->pid;
	packet->inner_tid = stream->tid;
	if (sink->name)
		sink->name(sink->name_context, packet);
	if (sink->is_closed)
		return error_new(ERROR_FAILED, "the trace can't be written any more");
	return sink->writer ? writer_packet(sink->writer, number, packet) : NULL;
}

struct error *stream_write(struct stream *stream, struct stream_sink *sink, struct packet *packet)
{
	assert(stream->open);
	assert(packet->begin <= packet->end && stream->end <= packet->begin);
	packet->lost = stream_losses(stream);
	struct error *error = stream_put(stream, sink, stream->number, packet);
	if (error)
		return error;
	stream->end = packet->end;
	stream->told = packet->lost;
	sink->totals->packets++;
	return NULL;
}

struct error *stream_write_pairs(struct stream *stream, struct stream_sink *sink,
				 struct packet *packet)
{
	assert(stream->open && packet->begin <= packet->end);
	if (!stream->pairs)
		stream->pairs = sink->next_number++;
	packet->lost = 0; /* the stream's own packets tell */
	struct error *error = stream_put(stream, sink, stream->pairs, packet);
	if (!error)
		sink->totals->packets++;
	return error;
}

bool stream_gives_up(struct stream_sink *sink, struct error *error)
{
	if (!sink->gives_up)
		return false;
	if (sink->failure)
		error_free(error);
	else
		sink->failure = error;
	return true;
}

/* Counts events as holes that the owner counted in its chunks, and that the reader didn't find. */
static void stream_count_missing(struct stream *stream, struct stream_sink *sink)
{
	uint64_t found = stream->read + stream->holes;

	if (stream->claimed <= found)
		return;
	sink->totals->holes += stream->claimed - found;
	stream->holes += stream->claimed - found;
}

struct error *stream_finish(struct stream *stream, struct stream_sink *sink, uint64_t now)
{
	struct packet packet = { .begin = now, .end = now };

	stream_count_missing(stream, sink);
	if (packet.begin < stream->end)
		packet.begin = packet.end = stream->end;
	if (stream_losses(stream) > stream->told) {
		struct error *error = stream_write(stream, sink, &packet);

		if (error && !stream_gives_up(sink, error))
			return error;
	}
	sink->totals->lost += stream->lost;
	if (sink->writer)
		writer_end_stream(sink->writer, stream->number);
	if (sink->writer && stream->pairs)
		writer_end_stream(sink->writer, stream->pairs);
	nesting_free(stream->nesting);
	stream->nesting = NULL;
	stream->open = false;
	return NULL;
}
