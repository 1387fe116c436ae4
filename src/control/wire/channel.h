/*
 * channel.h - messages over one stream socket, both ways, in bounded memory.
 *
 * For who must never wait: the socket is non-blocking; what has come is taken by channel_fill and
 * channel_next, what is to be sent lies in a queue until the socket takes it. A queue longer than
 * its limit means that the other end doesn't read: the channel is then broken, as after any
 * failure, and its owner drops it.
 *
 *	(Q1) in.length - taken is what has come and wasn't given out yet; a message is valid until the next channel_next
 *	or channel_fill.
 */
#ifndef DYNTRACE_CHANNEL_H
#define DYNTRACE_CHANNEL_H

#include "messages.h"

#define CHANNEL_FDS 4

struct channel {
	int fd; /* owned */
	size_t message_max; /* that we take */
	size_t queue_max; /* that we keep for the other end */
	struct strbuf in;
	size_t taken; /* of `in`, given out */
	struct wire_out out;
	size_t sent; /* of `out` */
	int to_send; /* a descriptor that goes with byte `to_send_at` of `out`; -1: none; owned */
	size_t to_send_at;
	int fds[CHANNEL_FDS]; /* that came and weren't taken */
	bool takes_fds;
	bool ended; /* the other end closed it */
	struct error *broken; /* why nothing goes any more */
};

/* Takes the descriptor and makes it non-blocking. */
void channel_open(struct channel *channel, int fd, size_t message_max, size_t queue_max);
void channel_close(struct channel *channel);

/* Reads what has come, a bounded amount of it. */
void channel_fill(struct channel *channel);
/* The next message that is whole. False: there is none, or the channel is broken. */
bool channel_next(struct channel *channel, struct wire_message *ret_message);
/* The first descriptor that came and wasn't taken; -1: none. */
int channel_take_fd(struct channel *channel);

/* Sends what `out` has, or keeps it for later; `out` is empty afterwards and can be used again. */
void channel_send(struct channel *channel, struct wire_out *out);
/* The same with a descriptor, which is the channel's from now on. One at a time may be waiting. */
void channel_send_fd(struct channel *channel, struct wire_out *out, int fd);
/* Sends more of what is queued. True: nothing is left. */
bool channel_flush(struct channel *channel);
bool channel_is_idle(const struct channel *channel);

#endif
