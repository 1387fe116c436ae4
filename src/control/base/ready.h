/*
 * ready.h - wait until a descriptor is ready, whatever signals come meanwhile: no handler makes
 * poll start again.
 */
#ifndef DYNTRACE_READY_H
#define DYNTRACE_READY_H

#include <errno.h>
#include <poll.h>
#include <stdbool.h>

#include "now.h"

/* False: not within that time, or the descriptor can't be waited for. */
static inline bool ready_within(int fd, short events, int timeout_ms)
{
	struct pollfd ready = { .fd = fd, .events = events };
	uint64_t now = now_ms(), end = now + (uint64_t)timeout_ms;
	int count;

	while ((count = poll(&ready, 1, now < end ? (int)(end - now) : 0)) < 0 && errno == EINTR)
		now = now_ms();
	return count == 1;
}

#endif
