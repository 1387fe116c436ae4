/*
 * channel.h - messages over one stream socket, both ways, in bounded memory.
 *
 * Never waits: the socket is non-blocking. channel_fill and channel_next give the messages that
 * have arrived; bytes to send lie in a queue until the socket takes them. A queue longer than its
 * limit means that the other end doesn't read: the channel is then broken, as after any failure,
 * and its owner drops it.
 *
 * (Q1) The first `taken` bytes of `in` were given out, and no byte is given out twice. A message
 *      stays valid until the next channel_next or channel_fill.
 */
#ifndef DYNTRACE_CHANNEL_H
#define DYNTRACE_CHANNEL_H

#include <sys/types.h>

#include "messages.h"

#define CHANNEL_FDS 4

struct channel {
	int fd; /* owned */
	size_t message_max; /* bytes of the longest message accepted */
	size_t queue_max; /* bytes kept for the other end */
	struct strbuf in;
	size_t taken; /* bytes of `in` given out (Q1) */
	struct wire_out out;
	size_t sent; /* bytes of `out` */
	int to_send; /* descriptor that goes with byte `to_send_at` of `out`; -1: none; owned */
	size_t to_send_at;
	int fds[CHANNEL_FDS]; /* descriptors received and not taken; -1: none */
	bool takes_fds;
	bool asks_sender; /* notes who sent the bytes; the socket has SO_PASSCRED */
	pid_t sender; /* of all bytes so far; 0: none yet; -1: unknown, or several processes */
	bool ended; /* the other end closed it */
	struct error *broken; /* the first failure; NULL: none */
};

/* Takes ownership of `fd` and makes it non-blocking. */
void channel_open(struct channel *channel, int fd, size_t message_max, size_t queue_max);
void channel_close(struct channel *channel);

/* Reads a bounded amount from the socket. */
void channel_fill(struct channel *channel);
/* Gives the next whole message. False: none yet, or the channel is broken. */
bool channel_next(struct channel *channel, struct wire_message *ret_message);
/* Gives the first descriptor received and not taken yet; -1: none. */
int channel_take_fd(struct channel *channel);

/* Sends the bytes of `out`, or queues them; `out` is empty afterwards and can be used again. */
void channel_send(struct channel *channel, struct wire_out *out);
/* Sends with a descriptor, which the channel owns from now on. At most one may be queued. */
void channel_send_fd(struct channel *channel, struct wire_out *out, int fd);
/* Sends more of the queue. True: it is empty. */
bool channel_flush(struct channel *channel);
bool channel_is_idle(const struct channel *channel);

#endif
