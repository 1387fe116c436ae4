/*
 * recording.c - bring events from the target's buffers to the trace, while the target runs.
 */
#include <assert.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <x86intrin.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "control/base/now.h"
#include "control/exits/exits.h"
#include "control/session/own_probes/library_notice.h"
#include "control/session/own_probes/unwinding.h"
#include "control/session/processes/follow_state.h"
#include "control/session/processes/process_names.h"
#include "control/session/processes/thread_liveness.h"
#include "info.h"
#include "recording.h"
#include "session.h"
#include "control/tracers/log/log_tracer.h"
#include "control/tracers/sync/sync_tracer.h"
#include "wake.h"

#define CLOCK_TRIES 3
#define NS_PER_MS 1000000ULL
#define FLUSH_NS (200 * NS_PER_MS)
#define REAP_NS (100 * NS_PER_MS)
#define REAP_SOON_NS (2 * NS_PER_MS)
#define POLL_NS (20 * NS_PER_MS) /* for a target that can't wake us */
/* the longest pause between looks at empty buffers, for users of session_fd */
#define IDLE_NS (1000 * NS_PER_MS)
#define ROOM_MS 1 /* until a log with lines that wait is asked for room again */
#define FOLLOW_MS 2 /* a thread may wait in execve for us */
/* Pauses between looks at the clock: each is twice as long, up to a minute. */
#define CLOCK_FIRST_NS (1000 * NS_PER_MS)
#define CLOCK_LAST_NS (60 * 1000 * NS_PER_MS)

struct recording {
	uint64_t next_flush, next_reap, next_clock; /* ns of CLOCK_MONOTONIC */
	uint64_t pause; /* until the next flush */
	uint64_t events_seen; /* at the last flush */
	uint64_t clock_pause;
	uint64_t last_flush; /* when the last flush began, in TSC ticks */
	uint64_t lines_until; /* lines up to this clock can be written */
	struct error *failed; /* the trace can't be written any more; NULL: it can */
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

/* ---- the trace's files ---------------------------------------------------------------------- */

/* Which boot of the machine, and where its clock began: journald and dmesg tell time by these. */
static void describe_boot(struct trace_info *info)
{
	_cleanup_fclose_ FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
	uint64_t shortest = UINT64_MAX;

	if (!file || fscanf(file, "%39[0-9a-f-]", info->boot_id) != 1)
		info->boot_id[0] = '\0';
	for (int i = 0; i < CLOCK_TRIES; i++) { /* the shortest time between both readings */
		struct timespec wall;
		uint64_t before = now_ns();

		clock_gettime(CLOCK_REALTIME, &wall);
		uint64_t took = now_ns() - before;
		if (took >= shortest)
			continue;
		shortest = took;
		info->monotonic_offset = (int64_t)wall.tv_sec * 1000000000 + wall.tv_nsec -
					 (int64_t)(before + took / 2);
	}
}

/* Makes a trace of the session's target. `directory` NULL: at `output`. */
static struct error *open_writer(struct session *session, struct trace_dir *directory,
				 const char *output, struct event_types *types,
				 struct trace_writer **ret_writer)
{
	struct trace_info info = { .pid = session->proc->pid, .executable = session->proc->exe };

	gethostname(info.hostname, sizeof(info.hostname) - 1);
	describe_boot(&info);
	snprintf(info.process, sizeof(info.process), "%s", session->proc->comm);
	info.command_line = session->command_line;
	info.modules = session->unwinding->loaded.items;
	info.module_count = session->unwinding->loaded.count;
	if (session->reopened && types == session->types)
		return writer_create_after(session->reopened, &info, types, &session->clock,
					   ret_writer);
	return directory ? writer_create_in(directory, &info, types, &session->clock, ret_writer) :
			   writer_create(output, &info, types, &session->clock, ret_writer);
}

struct error *recording_open_trace(struct session *session, const struct tracepoint_list *list)
{
	struct error *error = NULL;

	if (session->wants_unwind && !session->unwinding->described)
		unwinding_describe(session); /* in a trace that is written already, too */
	if (!session->clock.frequency)
		clock_start(&session->clock);
	/* a program without tracepoints may execute one that has some */
	bool may_come = session_may_lack(session) && session->options.output;
	if (!session->writer && (tracepoint_list_has_trace(list) || may_come)) {
		error = open_writer(session, session->options.directory, session->options.output,
				    session->types, &session->writer);
		session->types_announced = !error;
		if (!error)
			writer_set_limits(session->writer, &session->options.limits);
		if (!error && session->reader)
			reader_set_writer(session->reader, session->writer);
	}
	return error;
}

/* ---- reading -------------------------------------------------------------------------------- */

static void observe_events(void *context, const struct reader_batch *batch)
{
	struct session *session = context;

	if (session->exits->returns.v || session->follow->rows.count)
		latency_events(&session->latency,
			       &(struct latency_batch){ .stream = batch->stream,
							.events = batch->events,
							.words = batch->words,
							.lengths = batch->lengths,
							.begin = batch->begin,
							.lost = batch->lost,
							.frequency = session->clock.frequency,
							.is_pairs = batch->is_pairs });
	log_tracer_observe(session, batch);
}

static void note_process(struct session *session, pid_t pid)
{
	if (!session->budget || !pid)
		return;
	for (size_t i = 0; i < session->processes.count; i++) {
		if (session->processes.items[i] == pid)
			return;
	}
	vec_push(&session->processes, pid);
}

/* A thread is seen for the first time. */
static void look_up_thread(void *context, struct reader_thread *thread)
{
	thread_liveness_outer(context, thread);
	unwinding_note_process(context, thread->outer_pid, thread->program, thread->since);
	note_process(context, (pid_t)thread->outer_pid);
}

struct error *recording_open(struct session *session)
{
	assert(!session->reader && !session->parent); /* F1 */
	struct reader_options options = {
		.pool = session->agent->pool,
		.pool_size = session->agent->pool_size,
		.small_count = session->agent->control->small_count,
		.big_count = session->agent->control->big_count,
		.types = session->types,
		.writer = session->writer,
		.alive = thread_liveness_ask,
		.alive_context = session,
		.outer = look_up_thread,
		.outer_context = session,
		.name = process_names_find,
		.name_context = session,
		.only_inside = session->options.only_inside,
		.has_depth = session->options.has_depth,
		.depth = session->options.has_depth ? session->options.depth : UINT32_MAX,
		.pauses = &session->pauses,
		.observe = observe_events,
		.observe_context = session,
	};

	return reader_create(&options, &session->reader);
}

struct error *recording_announce(struct session *session)
{
	struct error *error = session->types_announced || !session->writer ?
				      NULL :
				      writer_update(session->writer, &session->clock);

	session->types_announced |= !error;
	return error;
}

/* A flush reads buffers that aren't full yet. While it finds nothing, and session_fd wakes us for
 * full ones, the pause until the next flush doubles. */
static void set_pause(struct session *session, uint64_t least)
{
	struct recording *recording = session->recording;
	uint64_t events = reader_events(session->reader);
	bool idle = session->wake && events == recording->events_seen;

	recording->pause = idle && recording->pause ? recording->pause * 2 : least;
	if (recording->pause > IDLE_NS && least < IDLE_NS)
		recording->pause = IDLE_NS;
	recording->events_seen = events;
}

/* Writes lines of logs after a flush that began at `begin`. All events older than the flush before
 * have been read, even if their chunks were published in between, except events that are still
 * being written. */
static void write_lines(struct session *session, uint64_t begin)
{
	uint64_t last = session->recording->last_flush;
	uint64_t unfinished = reader_unfinished(session->reader);

	session->recording->lines_until = last < unfinished ? last : unfinished;
	log_tracer_flush(session, session->recording->lines_until, false);
	session->recording->last_flush = begin;
}

/* Should chunks of ended threads be reaped now? Sooner if the reader is short of chunks. */
static bool is_reap_due(const struct session *session, uint64_t now)
{
	uint64_t next = session->recording->next_reap;

	return now >= next || (reader_is_short(session->reader) &&
			       now + REAP_NS >= next + REAP_SOON_NS);
}

/* Reads published chunks, and at times the others. */
static struct error *read_events(struct session *session)
{
	struct recording *recording = session->recording;
	size_t chunks = 0;
	uint64_t now = now_ns(), flush = session->options.flush_ms * NS_PER_MS;
	uint64_t begin = __rdtsc();
	struct error *error = recording_announce(session);

	if (!error)
		error = reader_drain(session->reader, &chunks);
	if (!error && is_reap_due(session, now)) {
		error = reader_reap(session->reader);
		recording->next_reap =
			now_ns() + (recording->pause > REAP_NS ? recording->pause : REAP_NS);
	}
	if (!error && now >= recording->next_flush) {
		error = reader_flush(session->reader);
		write_lines(session, begin);
		set_pause(session, flush ? flush : FLUSH_NS);
		recording->next_flush = now + recording->pause;
	} else if (log_tracer_waits(session)) {
		log_tracer_flush(session, recording->lines_until, false);
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

/* Is there a process that makes no system call, and so can't wake us? */
static bool has_quiet(const struct session *session)
{
	return session->agent->control->flags & DT_NO_SYSCALLS ||
	       __atomic_load_n(&session->agent->pool->filtered, __ATOMIC_RELAXED);
}

int session_timeout_ms(const struct session *session)
{
	uint64_t now = now_ns(), next = session->recording->next_flush;

	if (!session->reader || (session->recording->pause >= IDLE_NS && !has_switched_on(session)))
		return -1;
	if (session->options.mode == SESSION_OVERWRITE)
		next = session->recording->next_reap;
	if (log_tracer_waits(session))
		return ROOM_MS;
	if (has_quiet(session) && next > now + POLL_NS)
		next = now + POLL_NS;
	if (session->step_by && session->step_by < next)
		next = session->step_by;
	return next > now ? (int)((next - now) / NS_PER_MS) + 1 : 0;
}

/* Refines the frequency of the clock, which is known better with time, and updates the metadata
 * (H20). Where lines are printed, only once, before the first of them: the trace has to give their
 * events the same times. */
static struct error *keep_time(struct session *session)
{
	struct recording *recording = session->recording;
	uint64_t now = now_ns();
	struct error *error = NULL;

	if (now < recording->next_clock)
		return NULL;
	bool is_first = !recording->next_clock;
	if (is_first == log_tracer_prints(session)) {
		clock_refine(&session->clock);
		if (session->writer)
			error = writer_update(session->writer, &session->clock);
	}
	recording->clock_pause = recording->clock_pause ? recording->clock_pause * 2 :
							  CLOCK_FIRST_NS;
	if (recording->clock_pause > CLOCK_LAST_NS)
		recording->clock_pause = CLOCK_LAST_NS;
	recording->next_clock = now + recording->clock_pause;
	return error;
}

/* In overwrite mode nobody waits for chunks, only for libraries. */
void recording_wait(struct session *session, unsigned timeout_ms)
{
	uint32_t seen, *word;

	if (library_notice_is_pending(session))
		return;
	if (session->agent && has_quiet(session) && timeout_ms > POLL_NS / NS_PER_MS)
		timeout_ms = POLL_NS / NS_PER_MS;
	if (log_tracer_waits(session) && timeout_ms > ROOM_MS)
		timeout_ms = ROOM_MS;
	/* only the reader's wait ends when a thread asks */
	if (session->options.follow_exec && timeout_ms > FOLLOW_MS &&
	    (session->options.mode == SESSION_OVERWRITE || !session->reader))
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
	if (!error && session->writer)
		error = writer_tick(session->writer);
	return error ? error : keep_time(session);
}

void recording_make_room(struct session *session)
{
	size_t chunks = 0;

	if (session->parent)
		session = session->parent;
	assert(!session->parent); /* F1 */
	struct recording *recording = session->recording;
	if (!session->reader || recording->failed || session->options.mode == SESSION_OVERWRITE)
		return;
	recording->failed = recording_announce(session);
	if (!recording->failed)
		recording->failed = reader_drain(session->reader, &chunks);
}

void session_give_up(struct session *session)
{
	if (session->reader)
		reader_give_up(session->reader);
}

/* The first of the two that is one; the other is freed. */
static struct error *error_first(struct error *first, struct error *second)
{
	if (first)
		error_free(second);
	return first ? first : second;
}

struct error *recording_finish(struct session *session, struct session_summary *summary)
{
	struct error *error = take_ptr(&session->recording->failed);

	sync_tracer_look(session);
	summary->lines_left_out = session_lines_left_out(session, &summary->lines_why);
	if (session->reopened && !session->writer) /* nothing was recorded after it */
		error_free(writer_close(take_ptr(&session->reopened)));
	if (!session->reader) /* no tracepoint ever recorded */
		return error;
	struct error *unsaid = recording_announce(session);
	if (unsaid)
		reader_close_trace(session->reader);
	struct error *unwritten = reader_finish(session->reader, &summary->totals);
	error = error_first(error, error_first(unsaid, unwritten));
	log_tracer_flush(session, 0, true);
	summary->lines_left_out = session_lines_left_out(session, &summary->lines_why);
	if (!session->writer)
		return error;
	if (!log_tracer_prints(session))
		clock_refine(&session->clock);
	info_note_fates(session);
	info_note_demoted(session);
	if (!error || error_kind(error) == ERROR_FULL) /* there is a reserve */
		error = error_first(error, writer_update(session->writer, &session->clock));
	writer_get_removed(session->writer, &summary->removed);
	return error_first(error, writer_close(take_ptr(&session->writer)));
}

const struct event_types *session_types(const struct session *session)
{
	return session->types;
}

struct error *session_print(struct session *session, int fd)
{
	assert(!session->begun);
	return log_tracer_print(session, fd);
}

uint64_t session_unprinted(const struct session *session, bool *ret_closed)
{
	return log_tracer_unprinted(session, ret_closed);
}

uint64_t session_lines_left_out(const struct session *session, const char **ret_why)
{
	int failed;
	uint64_t late = log_tracer_left_out(session, &failed);

	*ret_why = failed ? strerror(failed) : "the output was not read in time";
	return late + sync_tracer_left_out(session, ret_why);
}

/* ---- snapshots ------------------------------------------------------------------------------ */

/* Shallow copies of the types, in which a snapshot counts. */
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

/* Counts the hits that haven't been overwritten: in overwrite mode nothing is read before the
 * end. */
static struct error *count_buffers(struct session *session)
{
	struct event_types types = { 0 };
	struct reader_totals totals;
	struct error *error = copy_types(session, &types);

	if (!error)
		error = reader_snapshot(session->reader, NULL, &types, 0, &totals);
	assert(error || types.count <= session->types->count);
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
	error = recording_announce(session);
	if (!error)
		error = reader_drain(session->reader, &chunks);
	return error ? error : reader_flush(session->reader);
}

/* The clock that was so long ago; 0: before any event. */
static uint64_t clock_before(const struct session *session, uint64_t ns)
{
	uint64_t now = __rdtsc();
	double ticks = (double)ns * (double)session->clock.frequency / 1e9;

	return ticks < (double)now ? now - (uint64_t)ticks : 0;
}

struct error *session_snapshot(struct session *session, struct trace_dir *directory,
			       const char *output, uint64_t last_ns,
			       struct reader_totals *ret_totals)
{
	uint64_t from = last_ns ? clock_before(session, last_ns) : 0;
	struct event_types types = { 0 };
	struct trace_writer *writer = NULL;
	struct error *error = NULL, *closing = NULL;

	if (!session->reader || session->options.mode != SESSION_OVERWRITE)
		return error_new(ERROR_USAGE, session->reader ?
						      "snapshots need overwrite mode" :
						      "no tracepoint yet");
	error = copy_types(session, &types);
	clock_refine(&session->clock);
	if (!error)
		error = open_writer(session, directory, output, &types, &writer);
	if (!error)
		error = reader_snapshot(session->reader, writer, &types, from, ret_totals);
	if (writer)
		closing = writer_close(writer);
	free(types.items);
	if (error)
		error_free(closing);
	return error ? error : closing;
}
