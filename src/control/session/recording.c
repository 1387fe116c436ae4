/*
 * recording.c - events from the target's buffers to the trace, while it runs.
 */
#include <linux/futex.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <x86intrin.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "control/base/now.h"
#include "control/exits/exits.h"
#include "place.h"
#include "control/session/own_probes/library_notice.h"
#include "control/session/processes/follow_state.h"
#include "control/session/processes/thread_liveness.h"
#include "recording.h"
#include "session.h"
#include "control/tracers/log/log_tracer.h"
#include "wake.h"

#define NS_PER_MS 1000000ULL
#define FLUSH_NS (200 * NS_PER_MS)
#define REAP_NS (100 * NS_PER_MS)
#define REAP_SOON_NS (2 * NS_PER_MS)
#define POLL_NS (20 * NS_PER_MS) /* in a target that can't wake us */
/* the longest pause, when nothing comes and somebody waits for session_fd */
#define IDLE_NS (1000 * NS_PER_MS)
#define FOLLOW_MS 2 /* a thread that begins a program may wait */
/* How often the clock is looked at: each time twice as long, up to a minute. */
#define CLOCK_FIRST_NS (1000 * NS_PER_MS)
#define CLOCK_LAST_NS (60 * 1000 * NS_PER_MS)

struct recording {
	uint64_t next_flush, next_reap, next_clock; /* ns of CLOCK_MONOTONIC */
	uint64_t pause; /* until the buffers are looked at again when they were empty */
	uint64_t events_seen; /* at the last look */
	uint64_t clock_pause;
	uint64_t last_flush; /* clock when the buffers were looked at before */
	struct error *failed; /* why the trace can't be written any more */
};

bool recording_create(struct session *session)
{
	session->recording = calloc(1, sizeof(*session->recording));
	return session->recording != NULL;
}

void recording_free(struct session *session)
{
	if (session->recording)
		error_free(session->recording->failed);
	free(session->recording);
}

static void observe_events(void *context, const struct reader_batch *batch)
{
	struct session *session = context;

	if (session->exits->returns.v || session->follow->rows.count)
		latency_events(&session->latency, batch->stream, batch->events, batch->words);
	log_tracer_observe(session, batch);
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
		.alive = thread_liveness_ask,
		.alive_context = session,
		.outer = thread_liveness_outer,
		.outer_context = session,
		.pauses = &session->pauses,
		.observe = observe_events,
		.observe_context = session,
	};

	return reader_create(&options, &session->reader);
}

/* Before the first packet with them: the metadata says what they look like. */
static struct error *tell_types(struct session *session)
{
	struct error *error = session->types_announced || !session->writer ?
				      NULL :
				      writer_update(session->writer, &session->clock);

	session->types_announced |= !error;
	return error;
}

/* Events that lie in a buffer which isn't full yet are looked for every now and then. While there
 * are none that is done more and more seldom, if nobody would come here anyway. */
static void set_pause(struct session *session, uint64_t least)
{
	uint64_t events = reader_events(session->reader);
	bool idle = session->wake && events == session->recording->events_seen;

	session->recording->pause = idle && session->recording->pause ? session->recording->pause * 2 : least;
	if (session->recording->pause > IDLE_NS && least < IDLE_NS)
		session->recording->pause = IDLE_NS;
	session->recording->events_seen = events;
}

/* All chunks have been looked at since `begin`. What was recorded before the time before has been
 * read, even if its chunk was published in between; but for events that are still being written. */
static void write_lines(struct session *session, uint64_t begin)
{
	uint64_t unfinished = reader_unfinished(session->reader);

	log_tracer_flush(session,
			   session->recording->last_flush < unfinished ? session->recording->last_flush : unfinished,
			   false);
	session->recording->last_flush = begin;
}

/* What was published, and now and then the rest. */
static struct error *read_events(struct session *session)
{
	size_t chunks = 0;
	uint64_t now = now_ns(), flush = session->options.flush_ms * NS_PER_MS;
	uint64_t begin = __rdtsc();
	struct error *error = tell_types(session);

	if (!error)
		error = reader_drain(session->reader, &chunks);

	if (!error &&
	    (now >= session->recording->next_reap || (reader_is_short(session->reader) &&
					   now + REAP_NS >= session->recording->next_reap + REAP_SOON_NS))) {
		error = reader_reap(session->reader);
		session->recording->next_reap =
			now_ns() + (session->recording->pause > REAP_NS ? session->recording->pause : REAP_NS);
	}
	if (!error && now >= session->recording->next_flush) {
		error = reader_flush(session->reader);
		write_lines(session, begin);
		set_pause(session, flush ? flush : FLUSH_NS);
		session->recording->next_flush = now + session->recording->pause;
	}
	return error;
}

static bool has_switched_on(const struct session *session)
{
	for (size_t i = 0; i < session->tracepoints.count && !session->stopped; i++) {
		const struct tracepoint *tracepoint = session->tracepoints.items[i];

		if (tracepoint->probe.site && !tracepoint->is_off)
			return true;
	}
	return false;
}

int session_timeout_ms(const struct session *session)
{
	uint64_t now = now_ns(), next = session->recording->next_flush;

	if (!session->reader || (session->recording->pause >= IDLE_NS && !has_switched_on(session)))
		return -1;
	if (session->options.mode == SESSION_OVERWRITE)
		next = session->recording->next_reap;
	if (__atomic_load_n(&session->agent->pool->filtered, __ATOMIC_RELAXED) &&
	    next > now + POLL_NS)
		next = now + POLL_NS;
	return next > now ? (int)((next - now) / NS_PER_MS) + 1 : 0;
}

/* The longer the clock has been watched the better its frequency is known: the metadata follows
 * (H20). */
static struct error *keep_time(struct session *session)
{
	uint64_t now = now_ns();
	struct error *error = NULL;

	if (now < session->recording->next_clock)
		return NULL;
	if (session->recording->next_clock) {
		clock_refine(&session->clock);
		if (session->writer)
			error = writer_update(session->writer, &session->clock);
	}
	session->recording->clock_pause = session->recording->clock_pause ? session->recording->clock_pause * 2 : CLOCK_FIRST_NS;
	if (session->recording->clock_pause > CLOCK_LAST_NS)
		session->recording->clock_pause = CLOCK_LAST_NS;
	session->recording->next_clock = now + session->recording->clock_pause;
	return error;
}

/* In overwrite mode nobody waits for chunks: only libraries are told of. */
void recording_wait(struct session *session, unsigned timeout_ms)
{
	uint32_t seen, *word;

	if (library_notice_is_pending(session))
		return;
	if (session->options.follow_exec && session->options.mode == SESSION_OVERWRITE &&
	    timeout_ms > FOLLOW_MS)
		timeout_ms = FOLLOW_MS;
	if (session->options.mode != SESSION_OVERWRITE && session->reader) {
		reader_wait(session->reader, timeout_ms);
	} else if (session->agent) {
		struct timespec timeout = { .tv_sec = timeout_ms / 1000,
					    .tv_nsec = (long)(timeout_ms % 1000) * 1000000 };

		word = wake_word(session, &seen);
		syscall(SYS_futex, word, FUTEX_WAIT, seen, &timeout, NULL, 0);
	} else {
		poll(NULL, 0, (int)timeout_ms);
	}
}

struct error *recording_step(struct session *session)
{
	struct error *error = NULL;

	if (!session->reader)
		return NULL;
	if (session->options.mode != SESSION_OVERWRITE) {
		error = read_events(session);
	} else if (now_ns() >= session->recording->next_reap) {
		error = reader_tidy(session->reader);
		session->recording->next_reap = now_ns() + REAP_NS;
	}
	return error ? error : keep_time(session);
}

void recording_make_room(struct session *session)
{
	size_t chunks = 0;

	if (session->parent)
		session = session->parent;
	if (!session->reader || session->recording->failed || session->options.mode == SESSION_OVERWRITE)
		return;
	session->recording->failed = tell_types(session);
	if (!session->recording->failed)
		session->recording->failed = reader_drain(session->reader, &chunks);
}

struct error *recording_finish(struct session *session, struct session_summary *summary)
{
	struct error *error = take_ptr(&session->recording->failed);

	if (session->reopened && !session->writer) /* nothing came behind it */
		error_free(writer_close(take_ptr(&session->reopened)));
	if (!session->reader) /* there was no tracepoint */
		return error;
	if (!error)
		error = tell_types(session);
	if (!error)
		error = reader_finish(session->reader, &summary->totals);
	log_tracer_flush(session, 0, true);
	summary->lines_left_out = log_tracer_left_out(session, &summary->lines_failed);
	if (!session->writer)
		return error;
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

/* Hits, as far as they haven't been overwritten: nothing is read in that mode before the end. */
static struct error *count_buffers(struct session *session)
{
	struct event_types types = { 0 };
	struct reader_totals totals;
	struct error *error = copy_types(session, &types);

	if (!error)
		error = reader_snapshot(session->reader, NULL, &types, &totals);
	for (size_t i = 0; i < types.count && !error; i++) {
		session->types->items[i].hits = types.items[i].hits;
		session->types->items[i].lost = types.items[i].lost;
	}
	free(types.items);
	return error;
}

struct error *session_flush(struct session *session)
{
	size_t chunks = 0;
	struct error *error = NULL;

	if (!session->reader)
		return NULL;
	if (session->options.mode == SESSION_OVERWRITE)
		return count_buffers(session);
	error = tell_types(session);
	if (!error)
		error = reader_drain(session->reader, &chunks);
	return error ? error : reader_flush(session->reader);
}

struct error *session_snapshot(struct session *session, struct trace_dir *directory,
			       const char *output, struct reader_totals *ret_totals)
{
	struct event_types types = { 0 };
	struct trace_writer *writer = NULL;
	struct error *error = NULL, *closing = NULL;

	if (!session->reader || session->options.mode != SESSION_OVERWRITE)
		return error_new(ERROR_USAGE, session->reader ?
						      "snapshots are taken in overwrite mode only" :
						      "there is no tracepoint yet");
	error = copy_types(session, &types);
	clock_refine(&session->clock);
	if (!error)
		error = place_open_writer(session, directory, output, &types, &writer);
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
