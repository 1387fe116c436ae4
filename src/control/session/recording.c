/*
 * recording.c - events from the target's buffers to the trace, while it runs.
 */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../base/cleanup.h"
#include "internal.h"

#define NS_PER_MS 1000000ULL
#define FLUSH_NS (200 * NS_PER_MS)
#define REAP_NS (100 * NS_PER_MS)
#define REAP_SOON_NS (2 * NS_PER_MS)
/* How often the clock is looked at: each time twice as long, up to a minute. */
#define CLOCK_FIRST_NS (1000 * NS_PER_MS)
#define CLOCK_LAST_NS (60 * 1000 * NS_PER_MS)

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000ULL + (uint64_t)now.tv_nsec;
}

static void observe_events(void *context, const struct reader_batch *batch)
{
	struct session *session = context;

	if (session->exits.returns.v)
		latency_events(&session->latency, batch->stream, batch->events, batch->words);
	if (session->options.observe)
		session->options.observe(session->options.observe_context, batch);
}

struct error *recording_open(struct session *session)
{
	struct reader_options options = {
		.pool = session->agent->pool,
		.pool_size = session->agent->pool_size,
		.small_count = session->agent->control->small_count,
		.big_count = session->agent->control->big_count,
		.types = session->types,
		.writer = session->writer,
		.alive = alive_thread,
		.alive_context = session,
		.observe = observe_events,
		.observe_context = session,
	};

	return reader_create(&options, &session->reader);
}

/* What was published, and now and then the rest. */
static struct error *read_events(struct session *session)
{
	size_t chunks = 0;
	uint64_t now = now_ns(), flush = session->options.flush_ms * NS_PER_MS;
	struct error *error = reader_drain(session->reader, &chunks);

	if (!error && (now >= session->next_reap ||
		       (reader_is_short(session->reader) && now + REAP_NS >= session->next_reap + REAP_SOON_NS))) {
		error = reader_reap(session->reader);
		session->next_reap = now_ns() + REAP_NS;
	}
	if (!error && now >= session->next_flush) {
		error = reader_flush(session->reader);
		session->next_flush = now + (flush ? flush : FLUSH_NS);
	}
	return error;
}

/* The longer the clock has been watched the better its frequency is known: the metadata follows (H20). */
static struct error *keep_time(struct session *session)
{
	uint64_t now = now_ns();
	struct error *error = NULL;

	if (now < session->next_clock)
		return NULL;
	if (session->next_clock) {
		clock_refine(&session->clock);
		error = writer_update(session->writer, &session->clock);
	}
	session->clock_pause = session->clock_pause ? session->clock_pause * 2 : CLOCK_FIRST_NS;
	if (session->clock_pause > CLOCK_LAST_NS)
		session->clock_pause = CLOCK_LAST_NS;
	session->next_clock = now + session->clock_pause;
	return error;
}

/* In overwrite mode nobody waits for chunks, and there is nothing to be woken for. */
void recording_wait(struct session *session, unsigned timeout_ms)
{
	if (session->options.mode == SESSION_OVERWRITE)
		poll(NULL, 0, (int)timeout_ms);
	else
		reader_wait(session->reader, timeout_ms);
}

struct error *recording_step(struct session *session)
{
	struct error *error = NULL;

	if (session->options.mode != SESSION_OVERWRITE) {
		error = read_events(session);
	} else if (now_ns() >= session->next_reap) {
		error = reader_tidy(session->reader);
		session->next_reap = now_ns() + REAP_NS;
	}
	return error ? error : keep_time(session);
}

void recording_make_room(struct session *session)
{
	size_t chunks = 0;

	if (!session->reader || session->failed || session->options.mode == SESSION_OVERWRITE)
		return;
	session->failed = reader_drain(session->reader, &chunks);
}

struct error *recording_finish(struct session *session, struct session_summary *summary)
{
	struct error *error = take_ptr(&session->failed);

	if (!error)
		error = reader_finish(session->reader, &summary->totals);
	clock_refine(&session->clock);
	if (!error)
		error = writer_update(session->writer, &session->clock);
	struct error *closing = writer_close(take_ptr(&session->writer));
	if (error)
		error_free(closing);
	return error ? error : closing;
}

/* ---- snapshots ------------------------------------------------------------------------------ */

/* Copies that a snapshot can count in; what they point to stays the session's. */
static struct error *copy_types(const struct session *session, struct event_types *ret_types)
{
	size_t count = session->types->count;
	struct event_type *items = calloc(count + 1, sizeof(*items));

	if (!items)
		return error_new(ERROR_FAILED, "out of memory");
	memcpy(items, session->types->items, count * sizeof(*items));
	*ret_types = (struct event_types){ .items = items, .count = count, .room = count };
	return NULL;
}

struct error *session_snapshot(struct session *session, const char *output,
			       struct reader_totals *ret_totals)
{
	struct event_types types = { 0 };
	struct trace_writer *writer = NULL;
	struct error *error = copy_types(session, &types), *closing = NULL;

	clock_refine(&session->clock);
	if (!error)
		error = place_open_writer(session, output, &types, &writer);
	if (!error)
		error = reader_snapshot(session->reader, writer, &types, ret_totals);
	if (writer)
		closing = writer_close(writer);
	free(types.items);
	if (error)
		error_free(closing);
	return error ? error : closing;
}

/* ---- for who observes ----------------------------------------------------------------------- */

const struct event_types *session_types(const struct session *session)
{
	return session->types;
}

const struct clock_estimate *session_clock(const struct session *session)
{
	return &session->clock;
}
