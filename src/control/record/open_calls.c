#include "open_calls.h"

#include <stdlib.h>
#include <string.h>

#include "reader_state.h"

/* The word that leads to the first call with that clock's head. */
static uint32_t *head_of(const struct open_calls *open, uint64_t begin)
{
	uint64_t mixed = begin * 0x9e3779b97f4a7c15;

	return &open->heads[mixed >> 32 & (OPEN_CALLS_HEADS - 1)];
}

static void link_call(struct open_calls *open, uint32_t at)
{
	uint32_t *head = head_of(open, open->calls.items[at].begin);

	open->calls.items[at].next = *head;
	*head = at + 1;
}

static void unlink_call(struct open_calls *open, uint32_t at)
{
	uint32_t *word = head_of(open, open->calls.items[at].begin);

	while (*word != at + 1)
		word = &open->calls.items[*word - 1].next;
	*word = open->calls.items[at].next;
}

/* The last call takes its place. */
static void forget(struct open_calls *open, uint32_t at)
{
	uint32_t last = (uint32_t)open->calls.count - 1;

	free(open->calls.items[at].event);
	unlink_call(open, at);
	if (at != last) {
		unlink_call(open, last);
		open->calls.items[at] = open->calls.items[last];
		link_call(open, at);
	}
	open->calls.count--;
}

void open_calls_forget(struct reader *reader, const void *owner)
{
	struct open_calls *open = &reader->open_calls;

	for (uint32_t i = (uint32_t)open->calls.count; i-- > 0;) {
		if (!owner || open->calls.items[i].owner == owner)
			forget(open, i);
	}
	for (size_t i = 0; i < OPEN_CALLS_LACKS; i++) {
		if (!owner || open->lacks[i].owner == owner)
			open->lacks[i].count = 0;
	}
}

static void count_lack(struct open_calls *open, const void *owner, uint32_t id)
{
	struct open_lack *lack = open->lacks;

	while (lack < open->lacks + OPEN_CALLS_LACKS - 1 && lack->count &&
	       (lack->owner != owner || lack->id != id))
		lack++;
	if (!lack->count)
		*lack = (struct open_lack){ .owner = owner, .id = id };
	lack->count++;
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

	struct open_calls *open = &reader->open_calls;

	if (!call.words || thread >= DT_THREADS_MAX)
		return;
	if (!open->heads && !(open->heads = calloc(OPEN_CALLS_HEADS, sizeof(*open->heads)))) {
		count_lack(open, owner, id);
		return;
	}
	pool_thread(&reader->pool, thread, &call.record);
	call.event = calloc(call.words, 8);
	if (call.event && size)
		memcpy(call.event + 1, fields, size);
	const struct event_type *type = &reader->options.types->items[id];
	bool fits = !type->is_variable || !call.event ||
		    event_measure(type, call.event, size + 8) == size + 8;
	bool is_noted = fits && vec_push(&open->calls, call);
	if (is_noted)
		link_call(open, (uint32_t)open->calls.count - 1);
	else
		free(call.event);
	if (fits && !is_noted)
		count_lack(open, owner, id);
}

void open_calls_returned(struct reader *reader, const struct stream *stream, uint32_t id,
			 uint64_t begin)
{
	const struct open_calls *open = &reader->open_calls;

	if (!open->calls.count)
		return;
	for (uint32_t at = *head_of(open, begin); at; at = open->calls.items[at - 1].next) {
		const struct open_call *call = &open->calls.items[at - 1];

		if (call->id != id || call->begin != begin || call->record.tid != stream->tid ||
		    call->record.pid != stream->pid)
			continue;
		forget(&reader->open_calls, at - 1);
		return;
	}
}

struct error *open_calls_write(struct reader *reader)
{
	struct error *error = NULL;

	for (size_t i = 0; i < reader->open_calls.calls.count && !error; i++) {
		const struct open_call *call = &reader->open_calls.calls.items[i];
		struct stream stream;

		stream_open(&stream, &reader->sink, &call->record, &reader->options);
		error = pairs_write_entry(reader, &stream, call);
		if (reader->sink.writer && stream.pairs)
			writer_end_stream(reader->sink.writer, stream.pairs);
	}
	for (size_t i = 0; i < OPEN_CALLS_LACKS && !error; i++) {
		const struct open_lack *lack = &reader->open_calls.lacks[i];

		if (lack->count)
			error = pairs_lose_entries(reader, lack->id, lack->count);
	}
	open_calls_forget(reader, NULL);
	return error;
}
