/*
 * writer_hand.h - a second thread, which writes the events of a packet while the caller goes on.
 *
 * The thread calls pwritev for one packet at a time, and does nothing else: it allocates nothing,
 * takes no lock, gets no signal, and touches no state of the writer. All that is decided about a
 * packet is decided in the caller's thread, before the write and after it.
 *
 * (W6) The header that puts a packet into the trace is written when the write of its events has
 *      ended, whichever thread made it.
 *
 * One thread calls these functions. A forked child has no second thread, and calls none of them.
 */
#ifndef DYNTRACE_WRITER_HAND_H
#define DYNTRACE_WRITER_HAND_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

struct writer_hand;

/* The caller's part while the second thread writes a packet. */
struct writer_aside {
	struct writer_hand *hand;
	void (*meanwhile)(void *context); /* touches neither the packet nor its writer */
	void *context;
};

/* Are there processors for two threads? */
bool writer_hand_helps(void);
/* NULL: there is no memory, or no thread to be had; all goes on without. */
struct writer_hand *writer_hand_create(void);
/* Ends the thread. NULL is fine. */
void writer_hand_free(struct writer_hand *hand);

/* Writes all parts. Returns 0, or the errno of the failure. Changes the parts. */
int writer_put_all(int fd, struct iovec *parts, int count, uint64_t at);
/* The same. The second thread does it while `meanwhile` runs; this thread does it afterwards, if
 * the second has no processor. */
int writer_hand_put(const struct writer_aside *aside, int fd, struct iovec *parts, int count,
		    uint64_t at);

#endif
