/*
 * tracepoint_message.h - a tracepoint in the messages of shared/wire.h: the wish of a client
 * (WIRE_ADD), and the tracepoint as users see it (WIRE_ITEM).
 *
 * For all who have a session and take requests: the daemon's workers, and a `dyntrace trace` that
 * a second one joins.
 */
#ifndef DYNTRACE_TRACEPOINT_MESSAGE_H
#define DYNTRACE_TRACEPOINT_MESSAGE_H

#include "control/session/state/tracepoint.h"
#include "control/wire/messages.h"

struct tracepoint_message {
	struct tracepoint_spec spec; /* its texts are the message's */
	const char *contexts[WIRE_CONTEXTS_MAX];
};

struct error *tracepoint_message_read(const struct wire_message *message,
				      struct tracepoint_message *ret_wish);
/* Adds a whole WIRE_ITEM. `durations`: of its calls, as buckets; NULL: not wanted, or none. */
void tracepoint_message_write(struct wire_out *out, uint32_t sequence,
			      const struct tracepoint_info *info,
			      const struct distribution *durations);
/* Adds a WIRE_BUCKET and a WIRE_BUCKET_COUNT per bucket. */
void tracepoint_message_buckets(struct wire_out *out, const struct distribution *values);

#endif
