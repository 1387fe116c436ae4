/*
 * target_worker.c - the worker of a target: its start, its socket, its end.
 *
 * A worker gets requests one after the other and answers in that order. The first, WIRE_CONFIGURE,
 * makes it attach; if that fails, so does all that was asked behind it, and the target is
 * forgotten. A worker that ends by itself while its process lives is replaced, and what the journal
 * has is asked for again; three times in a minute, then no more.
 */
#include "target_worker.h"

#include <assert.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "control/session/state/session_options.h"
#include "daemon/base/log.h"
#include "journal.h"
#include "spawn.h"
#include "daemon/supervisor/requests/request_life.h"
#include "daemon/supervisor/requests/request_targets.h"
#include "daemon/supervisor/supervisor.h"
#include "target_replies.h"
#include "trace_keeper.h"
#include "worker_calls.h"

#define DEATHS_MAX 3
#define DEATHS_NS (60 * 1000000000ULL)
#define LAST_WORDS_MAX 500

static void worker_ready(struct loop_source *source, uint32_t events);

uint64_t target_worker_queued(const struct target *target)
{
	uint64_t queued = 0;
	char path[40];

	if (!target->worker)
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/schedstat", target->worker);
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	return file && fscanf(file, "%*u %" SCNu64, &queued) == 1 ? queued : 0;
}

/* ---- start --------------------------------------------------------------------------------- */

void target_worker_set_events(struct target *target)
{
	uint32_t events = EPOLLIN | EPOLLRDHUP;

	if (target->ending)
		return;
	if (!channel_is_idle(&target->channel))
		events |= EPOLLOUT;
	loop_change(&target->supervisor->loop, &target->source, events);
}

bool target_worker_is_recording(const struct target *target)
{
	bool recording = target->supervisor->recording;

	for (size_t i = 0; i < target->entries.count; i++) {
		enum wire_kind kind = target->entries.items[i].kind;

		if (kind == WIRE_START || kind == WIRE_STOP)
			recording = kind == WIRE_START;
	}
	return recording;
}

/* `keeper`: of the trace that the worker before was writing; -1: none. Taken. */
static struct error *configure(struct target *target, int keeper)
{
	struct wire_out out = { 0 };

	wire_begin(&out, WIRE_CONFIGURE, target->sequence + 1);
	wire_number(&out, WIRE_PID, (uint64_t)target->pid);
	wire_number(&out, WIRE_START_TIME, target->process.start_time);
	wire_text(&out, WIRE_GUISE, target->process.guise);
	wire_number(&out, WIRE_GENERATION, target->process.generation);
	wire_number(&out, WIRE_RECORDING, target_worker_is_recording(target));
	target_mode_write(&target->mode, &out);
	/* so many requests will be replayed */
	wire_number(&out, WIRE_TRACEPOINT_COUNT, target->entries.count);
	if (keeper >= 0)
		wire_text(&out, WIRE_OUTPUT, target->old_trace); /* a descriptor comes with it */
	wire_end(&out);
	if (target->old_trace && (keeper >= 0 || target->found_again))
		trace_keeper_promise_again(target);
	if (worker_calls_send_own(target, &out, WIRE_CONFIGURE, keeper))
		return NULL;
	return error_new(ERROR_FAILED, "process %d: cannot configure its worker: out of memory",
			 target->pid);
}

static struct error *use_socket(struct target *target, int fd, int keeper)
{
	assert(fd >= 0 && !target->has_worker && !target->ending && !target->sent);
	if (target->source.fd >= 0) { /* the pidfd of a registered process */
		loop_remove(&target->supervisor->loop, &target->source);
		close(target->source.fd);
	}
	target->source = (struct loop_source){ .fd = fd, .ready = worker_ready };
	channel_open(&target->channel, fd, WIRE_MESSAGE_MAX, WORKER_QUEUE_MAX);
	target->has_worker = true;
	target->heard_at = now_ns();
	struct error *error =
		loop_add(&target->supervisor->loop, &target->source, EPOLLIN | EPOLLRDHUP);
	if (error && keeper >= 0)
		close(keeper);
	if (!error)
		error = configure(target, keeper);
	if (error)
		target_forget_worker(target);
	return error;
}

/* (D5) */
struct error *target_worker_check(const struct target *target)
{
	struct process now;
	struct error *error = process_read(target->pid, &now);

	if (!error && !process_is_same(&target->process, &now))
		error = error_new(ERROR_GONE,
				  "process %d (%s) has begun another program or has other rights: "
				  "nothing that was asked for is done to it again",
				  target->pid, target->process.name);
	return error;
}

struct error *target_worker_use(struct target *target, int fd)
{
	struct error *error = target_worker_check(target);

	if (error) {
		if (fd >= 0)
			close(fd);
		return error;
	}
	if (fd >= 0) {
		target->found_again = true;
		return use_socket(target, fd, -1);
	}
	if (target->worker_fd >= 0) { /* of a worker that doesn't listen any more */
		(void)pidfd_send_signal(target->worker_fd, SIGKILL, NULL, 0);
		close(take_fd(&target->worker_fd));
	}
	error = spawn_worker(target->supervisor, target, &fd);
	return error ? error : use_socket(target, fd, trace_keeper_again(target));
}

struct error *target_worker_start(struct supervisor *supervisor, pid_t pid,
				  const struct process *process, uid_t asker,
				  const struct target_mode *mode, struct target **ret_target)
{
	struct target *target = target_find(supervisor, pid);
	struct error *error = NULL;

	if (target && target->has_worker) {
		*ret_target = target;
		return NULL;
	}
	if (!process->alive)
		return error_new(ERROR_GONE,
				 "process %d (%s) has ended: its parent hasn't waited for it yet",
				 pid, process->name);
	if (!target)
		error = target_check_room(supervisor, asker);
	if (!target && !error)
		error = target_create(supervisor, pid, process, asker, &target);
	if (error)
		return error;
	assert(!target->entries.count); /* D5: a journal's process never changes */
	target->process = *process;
	target->mode = *mode;
	error = target_worker_use(target, -1);
	if (error && target->source.fd < 0)
		target_free(target);
	if (!error)
		*ret_target = target;
	return error;
}

/* ---- end ----------------------------------------------------------------------------------- */

static bool is_alive(const struct target *target)
{
	struct process now;
	_cleanup_error_ struct error *gone = process_read(target->pid, &now);

	return !gone && now.alive && now.start_time == target->process.start_time;
}

static bool may_start_again(struct target *target)
{
	uint64_t now = now_ns();

	if (now - target->first_death > DEATHS_NS) {
		target->first_death = now;
		target->deaths = 0;
	}
	return ++target->deaths <= DEATHS_MAX;
}

/* A failed assert, or a complaint of the C library. */
static void log_last_words(const struct target *target)
{
	char words[LAST_WORDS_MAX + 1];
	ssize_t length =
		target->last_words < 0 ? -1 : read(target->last_words, words, LAST_WORDS_MAX);

	while (length > 0 && words[length - 1] == '\n')
		length--;
	if (length <= 0)
		return;
	words[length] = '\0'; /* log_line escapes them */
	log_line("process %d (%s): the last words of its worker: %s", target->pid,
		 target->process.name, words);
}

/* What those who asked are told. */
static struct error *explain_end(const struct target *target, bool alive, bool again)
{
	char hint[80] = "";

	if (!alive)
		return error_new(ERROR_GONE, "process %d (%s) has ended", target->pid,
				 target->process.name);
	if (again)
		snprintf(hint, sizeof(hint), " (the next one begins: ask again)");
	else /* as it attached or detached, too */
		snprintf(hint, sizeof(hint), " ('dyntrace detach %d' removes what it left)",
			 target->pid);
	return error_new(ERROR_FAILED, "the worker of process %d (%s) ended%s", target->pid,
			 target->process.name, hint);
}

static void let_worker_go(struct target *target)
{
	bool alive = is_alive(target);
	bool expected =
		target->leaving || target->gone || (!target->attached && !target->entries.count);
	bool again = alive && !expected && may_start_again(target);
	_cleanup_error_ struct error *error = explain_end(target, alive, again);

	size_t failed_calls = again ? target->sent : target->calls.count; /* D15 */

	log_last_words(target);
	target_forget_worker(target);
	target_fail_calls(target, failed_calls, error);
	if (again) {
		log_line("process %d (%s): its worker died: starting another", target->pid,
			 target->process.name);
		_cleanup_error_ struct error *failed = target_worker_use(target, -1);
		if (!failed)
			return;
		log_line("process %d: %s", target->pid, error_text(failed));
		target_fail_calls(target, target->calls.count, failed);
	}
	if (alive && !expected)
		log_line("process %d (%s): given up ('dyntrace detach %d' cleans up)", target->pid,
			 target->process.name, target->pid);
	journal_drop(target);
	if (alive && target_is_registered(target) && !target->supervisor->ending) {
		_cleanup_error_ struct error *gone = target_watch_process(target);
		if (!gone)
			return;
	}
	target_free(target);
}

struct requests {
	struct request **items;
	size_t count, room;
};

/* Takes the requests that came while the process was being detached: they want the agent in it
 * again. Else whoever attaches and detaches in a loop would make everybody's requests fail. */
static void take_late(struct target *target, struct requests *ret_late)
{
	size_t kept = target->sent;

	for (size_t i = target->sent; i < target->calls.count; i++) {
		struct worker_call call = target->calls.items[i];
		bool starts = call.kind == WIRE_ADD || call.kind == WIRE_ATTACH ||
			      call.kind == WIRE_LOAD;

		if (!starts || !vec_push(ret_late, call.request))
			target->calls.items[kept++] = call;
	}
	target->calls.count = kept;
}

static void ask_late(struct requests *late, pid_t pid)
{
	for (size_t i = 0; i < late->count; i++) {
		request_targets_ask_again(late->items[i], pid);
		request_close_call(late->items[i]);
	}
	vec_free(late);
}

void target_worker_ended(struct target *target)
{
	struct requests late = { 0 };
	pid_t pid = target->pid;

	assert(target->has_worker);
	if (target->leaving && !target->supervisor->ending)
		take_late(target, &late);
	let_worker_go(target);
	ask_late(&late, pid);
}

/* The worker that was to end has ended. */
static void worker_died(struct loop_source *source, uint32_t events)
{
	struct target *target = (struct target *)((char *)source - offsetof(struct target, source));

	(void)events;
	assert(target->ending && source->fd == target->worker_fd);
	target_worker_ended(target);
}

/*
 * Ends the worker, and goes on when it has ended: before that it may hold threads of the process,
 * and would work beside the next one. Its socket alone tells nothing: the worker may have closed
 * it.
 */
void target_worker_end(struct target *target)
{
	if (target->worker_fd >= 0)
		(void)pidfd_send_signal(target->worker_fd, SIGKILL, NULL, 0);
	if (target->ending)
		return;
	if (target->worker_fd < 0)
		return target_worker_ended(target); /* of an earlier version of the daemon */
	loop_remove(&target->supervisor->loop, &target->source);
	channel_close(&target->channel);
	target->channel.ended = true; /* nothing more is sent */
	target->ending = true;
	target->source = (struct loop_source){ .fd = target->worker_fd, .ready = worker_died };
	struct error *error = loop_add(&target->supervisor->loop, &target->source, EPOLLIN);
	if (!error)
		return;
	error_free(error);
	target_worker_ended(target);
}

void target_worker_distrust(struct target *target, const char *why)
{
	if (target->ending)
		return;
	log_line("process %d: its worker %s: ending it", target->pid, why);
	target->distrusted = true;
}

static void worker_ready(struct loop_source *source, uint32_t events)
{
	struct target *target = (struct target *)((char *)source - offsetof(struct target, source));
	struct wire_message message;

	assert(target->has_worker && target->channel.fd == source->fd);
	if (events & EPOLLOUT)
		channel_flush(&target->channel);
	channel_fill(&target->channel);
	while (target->has_worker && !target->distrusted &&
	       channel_next(&target->channel, &message))
		target_replies_handle(target, &message);
	if (target->channel.broken)
		log_line("process %d: its worker: %s", target->pid,
			 error_text(target->channel.broken));
	if (target->gone && !target->distrusted)
		target_worker_ended(target);
	else if (target->channel.broken || target->channel.ended || target->distrusted)
		target_worker_end(target);
	else
		target_worker_set_events(target);
}
