/*
 * worker_events.c - notifications about a target.
 */
#include "worker_events.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "control/base/cleanup.h"
#include "control/base/plural.h"

#define UNSENT_MAX (256u << 10)
#define LOOK_NS 1000000000ULL

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000ULL + (uint64_t)now.tv_nsec;
}

uint64_t worker_events_wall_ns(void)
{
	return clock_ns(CLOCK_REALTIME);
}

void worker_events_tell(struct worker *worker, const char *event, const char *detail)
{
	worker_events_tell_trace(worker, event, detail, NULL);
}

void worker_events_tell_trace(struct worker *worker, const char *event, const char *detail,
			      const char *trace)
{
	struct wire_out out = { 0 };
	bool connected = worker->channel.fd >= 0;

	assert(event);
	wire_begin(&out, WIRE_EVENT, 0);
	wire_number(&out, WIRE_TIME, clock_ns(CLOCK_REALTIME));
	wire_text(&out, WIRE_EVENT_NAME, event);
	wire_text(&out, WIRE_DETAIL, detail);
	wire_text(&out, WIRE_OUTPUT, trace);
	wire_end(&out);
	if (connected)
		channel_send(&worker->channel, &out);
	else if (!out.bytes.failed && worker->unsent.bytes.length + out.bytes.length <= UNSENT_MAX)
		strbuf_add(&worker->unsent.bytes, out.bytes.text, out.bytes.length);
	wire_free(&out);
}

void worker_events_notice(void *context, enum session_notice notice, const char *text)
{
	static const char *const names[] = {
		[SESSION_PLACED] = "tracepoint-placed",
		[SESSION_GONE] = "tracepoint-gone",
		[SESSION_MODULE_LOADED] = "module-loaded",
		[SESSION_MODULE_UNLOADED] = "module-unloaded",
		[SESSION_MARKER_LOADED] = "marker-loaded",
		[SESSION_STATIC_LOADED] = "static-tracepoint-loaded",
		[SESSION_FAULT] = "tracepoint-failed",
	};

	assert(notice < sizeof(names) / sizeof(names[0]) && names[notice]);
	worker_events_tell(context, names[notice], text);
}

static uint64_t lost_so_far(const struct worker *worker)
{
	const struct event_types *types = session_types(worker->session);
	uint64_t lost = 0;

	for (size_t i = 0; i < types->count; i++)
		lost += types->items[i].lost;
	return lost;
}

void worker_events_describe_lines(uint64_t count, const char *why, char *ret_text,
				  size_t size)
{
	snprintf(ret_text, size, "%llu line%s not written: %s", (unsigned long long)count,
		 count == 1 ? "" : "s", why);
}

void worker_events_tell_lines(struct worker *worker, uint64_t left_out, const char *why)
{
	char detail[240];

	if (left_out <= worker->lines_lost)
		return;
	worker_events_describe_lines(left_out - worker->lines_lost, why, detail, sizeof(detail));
	worker_events_tell(worker, "lost", detail);
	worker->lines_lost = left_out;
}

static void tell_new_losses(struct worker *worker, bool is_full)
{
	uint64_t lost = lost_so_far(worker), before = worker->lost;
	char detail[64];

	if (lost <= before) /* less: the target has changed its counters */
		return;
	worker->lost = lost;
	if (is_full)
		worker_events_tell(worker, "buffer-full", NULL);
	snprintf(detail, sizeof(detail), "%llu event%s", (unsigned long long)(lost - before),
		 PLURAL(lost - before));
	worker_events_tell(worker, "lost", detail);
}

void worker_events_tell_last_losses(struct worker *worker)
{
	assert(worker->session);
	tell_new_losses(worker, false);
}

void worker_events_tell_losses(struct worker *worker)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	const char *why;

	if (!worker->session || now < worker->next_look)
		return;
	worker->next_look = now + LOOK_NS;
	uint64_t lines = session_lines_left_out(worker->session, &why);
	worker_events_tell_lines(worker, lines, why);
	tell_new_losses(worker, true);
}
