/*
 * own_events.c - events of the controller's own in a trace: steps of session/budget. Each batch is
 * a packet of its own, in a stream beside those of threads. It is of thread 0: between events of a
 * thread's own they would keep readers from taking that thread's packets one after the other.
 */
#include <assert.h>

#include "control/ctf/writer.h"
#include "reader_state.h"

struct error *reader_write_own(struct reader *reader, uint32_t pid, uint32_t inner_pid,
			       uint64_t *events, size_t words, size_t count)
{
	struct stream_sink *sink = &reader->sink;
	uint64_t now = reader_now(reader);
	struct packet packet = { .begin = now,
				 .end = now,
				 .pid = pid,
				 .inner_pid = inner_pid,
				 .events = events,
				 .size = count * words * 8,
				 .count = count };
	struct error *error = readout_learn_types(reader);

	if (error || !sink->writer || sink->is_closed)
		return error;
	for (size_t i = 0; i < count; i++) {
		assert(events[i * words] < reader->type_count);
		reader->hits[events[i * words]]++;
		events[i * words] |= now << DT_EVENT_ID_BITS;
	}
	if (!reader->own_stream)
		reader->own_stream = sink->next_number++;
	if (sink->name)
		sink->name(sink->name_context, &packet);
	error = writer_packet(sink->writer, reader->own_stream, &packet);
	if (error)
		return error;
	reader->totals.packets++;
	reader->totals.events += count;
	reader->totals.bytes += packet.size;
	return NULL;
}
