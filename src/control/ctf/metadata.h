/*
 * metadata.h - the text that describes a trace's layout (CTF 1.8, TSDL), and the packet header.
 *
 * Pure. Quotes or cleans names and strings from outside, which no other file does.
 */
#ifndef DYNTRACE_METADATA_H
#define DYNTRACE_METADATA_H

#include "control/base/strbuf.h"
#include "writer.h"

#define METADATA_MAGIC 0xc1fc1fc1u

/* The start of every packet. Fields as the metadata lists them, without padding. */
struct metadata_packet {
	uint32_t magic;
	uint8_t uuid[16];
	uint32_t stream_id;
	uint64_t timestamp_begin;
	uint64_t timestamp_end;
	uint64_t content_size; /* bits */
	uint64_t packet_size;
	uint64_t events_discarded;
	uint64_t packet_seq_num;
	uint32_t tid, pid, vtid, vpid;
	char procname[WRITER_PROCESS_SIZE];
};

_Static_assert(sizeof(struct metadata_packet) == 104, "no padding, and events stay aligned to 8");

/* Appends the UUID in quotes. */
void metadata_uuid(struct strbuf *buf, const uint8_t uuid[16]);
/* Appends the declaration of one kind of event. */
void metadata_event(struct strbuf *buf, const struct event_type *type);
/* Appends the whole text. Failure is buf->failed. `is_mixed`: events are of several processes, or
 * of one that changed its name. Then only packets tell the process: readers show the environment's
 * with every event. */
void metadata_write(struct strbuf *buf, const struct trace_info *info, bool is_mixed,
		    const struct event_types *types, const struct clock_estimate *clock,
		    const uint8_t uuid[16]);

#endif
