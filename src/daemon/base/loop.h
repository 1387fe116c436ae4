/*
 * loop.h - one thread that waits for many things.
 *
 * A source is a descriptor and the function to call when it is ready. epoll is asked for one at a
 * time, so that a handler may remove and free any source, also its own. Timers are few; with none
 * set and nothing ready the loop sleeps and costs nothing.
 */
#ifndef DYNTRACE_LOOP_H
#define DYNTRACE_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "control/base/error.h"
#include "control/base/now.h"

struct loop_source {
	int fd; /* -1: not in the loop; the owner closes it */
	void (*ready)(struct loop_source *source, uint32_t events);
	uint32_t events;
};

struct loop_timer {
	uint64_t at; /* ns of CLOCK_MONOTONIC; 0: not set */
	void (*expired)(struct loop_timer *timer);
	struct loop_timer *next;
};

struct loop {
	int epoll_fd;
	bool over;
	struct loop_timer *timers;
};

struct error *loop_open(struct loop *loop);
void loop_close(struct loop *loop);
/* Runs until `over` is set. */
struct error *loop_run(struct loop *loop);
/* Calls the handler of one ready source, if there is any; waits no longer than timeout_ms. The
 * handler may close the loop. A loop inside another is a source of it, its epoll_fd: then all its
 * sources together have one turn. */
struct error *loop_turn(struct loop *loop, int timeout_ms);

struct error *loop_add(struct loop *loop, struct loop_source *source, uint32_t events);
void loop_change(struct loop *loop, struct loop_source *source, uint32_t events);
void loop_remove(struct loop *loop, struct loop_source *source);

/* Once per timer, before its first use. A timer lives as long as the loop runs. */
void loop_add_timer(struct loop *loop, struct loop_timer *timer);

#endif
