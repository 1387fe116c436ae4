#include "open_calls.h"

#include <stdlib.h>
#include <string.h>

#include "reader_state.h"

#define OPEN_MAX 65536

static void forget(struct reader *reader, size_t at)
{
	free(reader->open_calls.items[at].event);
	reader->open_calls.items[at] = reader->open_calls.items[--reader->open_calls.count];
}

void open_calls_forget(struct reader *reader, const void *owner)
{
	for (size_t i = reader->open_calls.count; i-- > 0;) {
		if (!owner || reader->open_calls.items[i].owner == owner)
			forget(reader, i);
	}
}

/* Words of the entry with these fields; 0: there is no such entry. */
static size_t measure(const struct reader *reader, uint32_t id, size_t size)
{
	const struct event_types *types = reader->options.types;

	if (id + 1 >= types->count || !types->items[id + 1].is_pair || !types->items[id].size)
		return 0;
	if (!types->items[id].is_variable && types->items[id].size != size + 8)
		return 0;
	return size + 8 <= DT_EVENT_SIZE_MAX ? (size + 8 + 7) / 8 : 0;
}

void open_calls_note(struct reader *reader, const void *owner, uint32_t thread, uint32_t id,
		     uint64_t begin, const void *fields, size_t size)
{
	struct open_call call = { .owner = owner,
				  .id = id,
				  .begin = begin,
				  .words = measure(reader, id, size) };

	if (!call.words || thread >= DT_THREADS_MAX || reader->open_calls.count >= OPEN_MAX ||
	    !(call.event = calloc(call.words, 8)))
		return;
	pool_thread(&reader->pool, thread, &call.record);
	memcpy(call.event + 1, fields, size);
	const struct event_type *type = &reader->options.types->items[id];
	bool fits = !type->is_variable || event_measure(type, call.event, size + 8) == size + 8;
	if (!fits || !vec_push(&reader->open_calls, call))
		free(call.event);
}

void open_calls_returned(struct reader *reader, const struct stream *stream, uint32_t id,
			 uint64_t begin)
{
	for (size_t i = 0; i < reader->open_calls.count; i++) {
		const struct open_call *call = &reader->open_calls.items[i];

		if (call->id != id || call->begin != begin || call->record.tid != stream->tid ||
		    call->record.pid != stream->pid)
			continue;
		forget(reader, i);
		return;
	}
}

struct error *open_calls_write(struct reader *reader)
{
	struct error *error = NULL;

	for (size_t i = 0; i < reader->open_calls.count && !error; i++) {
		const struct open_call *call = &reader->open_calls.items[i];
		struct stream stream;

		stream_open(&stream, &reader->sink, &call->record, &reader->options);
		error = pairs_write_entry(reader, &stream, call);
		if (reader->sink.writer && stream.pairs)
			writer_end_stream(reader->sink.writer, stream.pairs);
	}
	open_calls_forget(reader, NULL);
	return error;
}
