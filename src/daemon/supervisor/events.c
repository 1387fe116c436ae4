/*
 * events.c - notifications to watchers.
 *
 * Each goes to every watcher at once, in the order in which things happened. A watcher that doesn't
 * read is dropped (D1), and so never sees a sequence with a hole.
 */
#include "events.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "control/base/cleanup.h"
#include "daemon/base/log.h"
#include "peer.h"
#include "daemon/supervisor/targets/process.h"
#include "supervisor.h"
#include "daemon/supervisor/targets/target.h"

static uint64_t wall_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000ULL + (uint64_t)now.tv_nsec;
}

static bool watches(const struct peer *peer, pid_t pid, const char *program)
{
	const struct target *target = target_find(peer->supervisor, pid);

	if (!peer->watches)
		return false;
	if (peer->supervisor->options.own_only &&
	    !(target && process_is_own(&target->process, &peer->who)))
		return false;
	if (peer->watched)
		return peer->watched == pid;
	return !peer->watched_name || !strcmp(peer->watched_name, program) ||
	       (target && process_is_called(&target->process, peer->watched_name));
}

static void send_all(struct supervisor *supervisor, pid_t pid, const char *program,
		     const struct wire_out *made)
{
	for (size_t i = supervisor->peers.count; i-- > 0;) {
		struct peer *peer = supervisor->peers.items[i];
		struct wire_out copy = { 0 };

		if (!watches(peer, pid, program))
			continue;
		strbuf_add(&copy.bytes, made->bytes.text, made->bytes.length);
		peer_send(peer, &copy);
		wire_free(&copy);
	}
}

void events_tell_at(struct supervisor *supervisor, uint64_t ns, pid_t pid, const char *program,
		    const char *event, const char *detail)
{
	struct wire_out out = { 0 };

	assert(program && event);
	wire_begin(&out, WIRE_EVENT, 0);
	wire_number(&out, WIRE_TIME, ns ? ns : wall_ns());
	wire_number(&out, WIRE_PID, (uint64_t)pid);
	wire_text(&out, WIRE_PROGRAM, program);
	wire_text(&out, WIRE_EVENT_NAME, event);
	wire_text(&out, WIRE_DETAIL, detail);
	wire_end(&out);
	if (!out.bytes.failed)
		send_all(supervisor, pid, program, &out);
	wire_free(&out);
}

void events_tell(struct supervisor *supervisor, pid_t pid, const char *program, const char *event,
		 const char *detail)
{
	events_tell_at(supervisor, 0, pid, program, event, detail);
}

/* The oldest gives way. */
static void note_failure(const struct target *target, const char *detail)
{
	struct supervisor *supervisor = target->supervisor;
	struct failures *failures = &supervisor->failures;
	struct failure *failure = &failures->items[failures->count++ % FAILURES_KEPT];

	assert(failures->count);
	failure->pid = target->pid;
	failure->start_time = target->process.start_time;
	snprintf(failure->text, sizeof(failure->text), "%s", detail);
}

const char *events_failure(const struct supervisor *supervisor, pid_t pid)
{
	const struct failures *failures = &supervisor->failures;
	struct process process;
	_cleanup_error_ struct error *gone = process_read(pid, &process);

	for (size_t i = 0; !gone && i < failures->count && i < FAILURES_KEPT; i++) {
		const struct failure *failure =
			&failures->items[(failures->count - 1 - i) % FAILURES_KEPT];

		if (failure->pid == pid && failure->start_time == process.start_time)
			return failure->text;
	}
	return NULL;
}

/* Is it the target's trace, or a snapshot beside it? Watchers' commands get its name (D7). */
static bool is_trace_of(const struct target *target, const char *path)
{
	size_t length = target->trace ? strlen(target->trace) : 0;
	const char *rest = path + length;

	return length && !strncmp(path, target->trace, length) &&
	       (!*rest || (!strncmp(rest, ".snapshot-", 10) && !strchr(rest, '/')));
}

/* The worker isn't believed whose event it is: pid and program are the target's. */
void events_forward(struct target *target, const struct wire_message *event)
{
	static const enum wire_tag ours[] = { WIRE_PID, WIRE_PROGRAM, WIRE_OUTPUT, WIRE_NO_TAG };
	const char *trace = wire_get_text(event, WIRE_OUTPUT);
	const char *name = wire_get_text(event, WIRE_EVENT_NAME),
		   *detail = wire_get_text(event, WIRE_DETAIL);
	struct wire_out out = { 0 };

	/* The worker can't go on, and detaches. Another worker could do no better. */
	if (name && !strcmp(name, "failed")) {
		log_line("process %d (%s): recording ended: %.200s", target->pid,
			 target->process.name, detail ? detail : "");
		note_failure(target, detail ? detail : "");
		target->leaving = true;
	}
	if (name && !strcmp(name, "lost") && target->leaving)
		log_line("process %d (%s): lost: %.200s", target->pid, target->process.name,
			 detail ? detail : "");
	if (name && !strcmp(name, "exited"))
		/* its trace is complete: a watcher that hears of it doesn't find it listed any
		 * more */
		target->gone = true;
	wire_begin(&out, WIRE_EVENT, 0);
	wire_number(&out, WIRE_PID, (uint64_t)target->pid);
	wire_text(&out, WIRE_PROGRAM, target->process.name);
	wire_copy(&out, event, ours);
	if (trace && is_trace_of(target, trace))
		wire_text(&out, WIRE_OUTPUT, trace);
	wire_end(&out);
	if (!out.bytes.failed)
		send_all(target->supervisor, target->pid, target->process.name, &out);
	wire_free(&out);
}
