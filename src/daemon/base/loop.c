#include "loop.h"

#include <assert.h>
#include <errno.h>
#include <unistd.h>

#define NS_PER_MS 1000000u

struct error *loop_open(struct loop *loop)
{
	*loop = (struct loop){ .epoll_fd = epoll_create1(EPOLL_CLOEXEC) };
	return loop->epoll_fd < 0 ? error_errno(errno, "epoll_create1") : NULL;
}

void loop_close(struct loop *loop)
{
	if (loop->epoll_fd >= 0)
		close(loop->epoll_fd);
	loop->epoll_fd = -1;
}

struct error *loop_add(struct loop *loop, struct loop_source *source, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = source };

	assert(source->fd >= 0 && source->ready);
	if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, source->fd, &event))
		return error_errno(errno, "epoll_ctl");
	source->events = events;
	return NULL;
}

void loop_change(struct loop *loop, struct loop_source *source, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = source };

	if (source->fd < 0 || source->events == events)
		return;
	epoll_ctl(loop->epoll_fd, EPOLL_CTL_MOD, source->fd, &event);
	source->events = events;
}

void loop_remove(struct loop *loop, struct loop_source *source)
{
	if (source->fd >= 0)
		epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, source->fd, NULL);
}

void loop_add_timer(struct loop *loop, struct loop_timer *timer)
{
	assert(timer->expired && !timer->next && loop->timers != timer);
	timer->next = loop->timers;
	loop->timers = timer;
}

static int sleep_ms(const struct loop *loop)
{
	uint64_t now = now_ns(), first = UINT64_MAX;

	for (const struct loop_timer *timer = loop->timers; timer; timer = timer->next) {
		if (timer->at && timer->at < first)
			first = timer->at;
	}
	if (first == UINT64_MAX)
		return -1;
	return first <= now ? 0 : (int)((first - now) / NS_PER_MS + 1);
}

static void run_timers(struct loop *loop)
{
	uint64_t now = now_ns();

	for (struct loop_timer *timer = loop->timers; timer; timer = timer->next) {
		if (!timer->at || timer->at > now)
			continue;
		timer->at = 0;
		timer->expired(timer);
	}
}

struct error *loop_turn(struct loop *loop, int timeout_ms)
{
	struct epoll_event event;
	int count = epoll_wait(loop->epoll_fd, &event, 1, timeout_ms);

	if (count < 0 && errno != EINTR)
		return error_errno(errno, "epoll_wait");
	if (count == 1) {
		struct loop_source *source = event.data.ptr;

		assert(source->fd >= 0); /* who closes a source removes it first */
		source->ready(source, event.events);
	}
	return NULL;
}

struct error *loop_run(struct loop *loop)
{
	assert(loop->epoll_fd >= 0);
	while (!loop->over) {
		struct error *error = loop_turn(loop, sleep_ms(loop));

		if (error)
			return error;
		if (loop->timers)
			run_timers(loop);
	}
	return NULL;
}
