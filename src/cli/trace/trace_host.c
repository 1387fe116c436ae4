#include "trace_host.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>
#include <x86intrin.h>

#include "control/base/cleanup.h"
#include "control/base/now.h"
#include "control/session/messages/tracepoint_message.h"
#include "control/session/takeover/takeover.h"
#include "control/wire/channel.h"
#include "options/commands.h"
#include "shared_trace.h"
#include "trace_args.h"
#include "trace_peer.h"
#include "trace_question.h"

#define QUEUE_MAX (64u << 20) /* a list of very many tracepoints */
#define NEXT_MS 2 /* for a guest that asks one thing after the other */
#define TURN_NS 50000000ULL /* then our own events are read again */
#define WAIT_NS 60000000000ULL /* for a guest that copies its events, or takes over */

struct trace_host {
	int listener;
	struct channel channel; /* to the guest */
	int pidfd; /* of the guest; -1: there is none */
	bool is_leaving; /* the guest has no tracepoints any more, and copies its events */
	bool has_taken_over;
	bool is_over; /* the session has ended */
	struct name_list names; /* of the guest's tracepoints, sorted */
	struct name_list former; /* of those of all guests whose events are in the trace; sorted */
	/* The trace, if it was made for a guest, because we make none; NULL: it is ours. */
	struct trace_dir *spool;
};

/* ---- names --------------------------------------------------------------------------------- */

/* session_is_one_fn: is it a tracepoint of the guest's? */
static bool is_guests(void *context, const char *name)
{
	return shared_trace_has_name(&((struct trace_host *)context)->names, name);
}

static bool add_names(struct name_list *to, const struct name_list *from)
{
	for (size_t i = 0; i < from->count; i++) {
		char *name = strdup(from->items[i]);

		if (!name || !vec_push(to, name)) {
			free(name);
			return false;
		}
	}
	shared_trace_sort_names(to);
	return true;
}

/* ---- answers ------------------------------------------------------------------------------- */

static const char *trace_path(const struct trace_run *run)
{
	return run->host->spool ? run->host->spool->path : run->output;
}

static void send_item(struct trace_host *host, uint32_t sequence, enum wire_tag tag,
		      const char *text, pid_t pid)
{
	struct wire_out out = { 0 };

	wire_begin(&out, WIRE_ITEM, sequence);
	if (pid)
		wire_number(&out, WIRE_PID, (uint64_t)pid);
	wire_text(&out, tag, text);
	wire_end(&out);
	channel_send(&host->channel, &out);
	wire_free(&out);
}

/* Makes the trace for a guest that wants one, where we make none. The guest names its own trace. */
static struct error *make_spool(struct trace_run *run, const char *output)
{
	_cleanup_free_ char *path = NULL;

	if (run->output || run->host->spool)
		return NULL;
	if (!output || *output != '/')
		return error_new(ERROR_USAGE, "the trace's directory is missing");
	if (asprintf(&path, "%s.shared-%d", output, getpid()) < 0)
		return error_new(ERROR_FAILED, "out of memory");
	struct error *error = trace_dir_direct(path, &run->host->spool);
	if (!error)
		session_set_directory(run->session, run->host->spool);
	return error;
}

static struct error *check_wish(const struct tracepoint_spec *spec,
				const struct tracer **ret_tracer)
{
	struct error *error = tracer_find(spec->tracer, ret_tracer);

	if (error || (*ret_tracer)->kind == TRACER_CTF || (*ret_tracer)->kind == TRACER_COUNT)
		return error;
	return error_new(ERROR_REFUSED,
			 "tracer '%s' doesn't work beside another dyntrace (end that first)",
			 (*ret_tracer)->name);
}

static struct error *do_add(struct trace_run *run, const struct wire_message *message,
			    struct name_list *made)
{
	struct trace_host *host = run->host;
	struct tracepoint_message wish;
	const struct tracer *tracer;
	struct name_list names = { 0 };
	struct error *error = tracepoint_message_read(message, &wish);

	if (!error)
		error = check_wish(&wish.spec, &tracer);
	if (!error && tracer->has_trace)
		error = make_spool(run, wire_get_text(message, WIRE_OUTPUT));
	if (error)
		return error;
	wish.spec.unprinted = true;
	error = session_add_as(run->session, &wish.spec, NULL, made, &names);
	for (size_t i = 0; i < names.count && !error; i++)
		send_item(host, message->sequence, WIRE_NAME, names.items[i], 0);
	if (!error && (!add_names(&host->names, made) ||
		       (tracer->has_trace && !add_names(&host->former, made))))
		error = error_new(ERROR_FAILED, "out of memory");
	name_list_free(&names);
	return error;
}

static struct error *do_list(struct trace_run *run, uint32_t sequence)
{
	struct trace_host *host = run->host;
	struct error *error = host->is_over ? NULL : session_flush(run->session);
	size_t count = error ? 0 : session_tracepoint_count(run->session);

	for (size_t i = 0; i < count; i++) {
		struct tracepoint_info info = session_tracepoint(run->session, i);
		struct wire_out out = { 0 };

		if (!is_guests(host, info.name))
			continue;
		tracepoint_message_write(&out, sequence, &info, NULL);
		channel_send(&host->channel, &out);
		wire_free(&out);
	}
	return error;
}

/* Removes the guest's tracepoints. Their events are written. */
static struct error *do_detach(struct trace_run *run)
{
	struct trace_host *host = run->host;
	struct error *error = NULL;

	if (!host->is_over) {
		error = session_remove_those(run->session, is_guests, host);
		if (!error)
			error = session_flush(run->session);
	}
	if (!error)
		name_list_free(&host->names);
	if (!error)
		host->names = (struct name_list){ 0 };
	host->is_leaving = !error;
	return error;
}

static struct error *answer(struct trace_run *run, const struct wire_message *message,
			    struct name_list *made)
{
	struct trace_host *host = run->host;

	if ((host->is_over && message->kind == WIRE_ADD) ||
	    (run->has_left && message->kind != WIRE_SETTLE))
		return error_new(ERROR_FAILED,
				 "the dyntrace that traced process %d has just ended (try again)",
				 run->proc->pid);
	switch (message->kind) {
	case WIRE_ADD:
		return do_add(run, message, made);
	case WIRE_TRACEPOINTS:
		return do_list(run, message->sequence);
	case WIRE_PROCESSES:
		send_item(host, message->sequence, WIRE_OUTPUT, trace_path(run), run->proc->pid);
		return NULL;
	case WIRE_DETACH:
		return do_detach(run);
	case WIRE_SETTLE:
		host->has_taken_over = true;
		return NULL;
	default:
		return error_new(ERROR_USAGE, "'%s' is for a daemon",
				 wire_kind_name(message->kind));
	}
}

static void handle(struct trace_run *run, const struct wire_message *message)
{
	struct name_list made = { 0 };
	struct wire_out out = { 0 };
	_cleanup_error_ struct error *error = answer(run, message, &made);

	wire_begin_reply(&out, message->sequence, error);
	for (size_t i = 0; i < made.count; i++)
		wire_text(&out, WIRE_MADE, made.items[i]);
	wire_end(&out);
	channel_send(&run->host->channel, &out);
	wire_free(&out);
	name_list_free(&made);
}

/* ---- the guest ----------------------------------------------------------------------------- */

static void forget_guest(struct trace_run *run)
{
	struct trace_host *host = run->host;

	if (host->names.count && !host->is_over && !run->has_left) {
		_cleanup_error_ struct error *error = do_detach(run);

		if (error)
			cli_note("tracepoints of another dyntrace stay in process %d: %s",
				 run->proc->pid, error_text(error));
	}
	name_list_free(&host->names);
	host->names = (struct name_list){ 0 };
	channel_close(&host->channel);
	close(host->pidfd);
	host->pidfd = -1;
}

/* Does all that the guest has asked, for a bounded time. False: the guest is gone. */
static bool serve(struct trace_run *run)
{
	struct trace_host *host = run->host;
	struct channel *channel = &host->channel;
	struct pollfd ready = { .fd = channel->fd, .events = POLLIN };
	uint64_t end = now_ns() + TURN_NS;
	struct wire_message message;
	bool any;

	/* the counts of a process that has ended, and its trace, come at the session's end */
	if (!host->is_over && !run->has_left && !proc_is_alive(run->proc))
		return true;
	do {
		any = false;
		channel_fill(channel);
		for (; channel_next(channel, &message); any = true)
			handle(run, &message);
		channel_flush(channel);
	} while (any && !channel->ended && now_ns() < end && poll(&ready, 1, NEXT_MS) > 0);
	if (!channel->ended && !channel->broken)
		return true;
	forget_guest(run);
	return false;
}

/* Some sessions can't take foreign tracepoints: their trace comes at the end, loses its oldest
 * events, or is of several processes, or their answer is about all tracepoints. */
static bool can_serve(const struct trace_run *run)
{
	return trace_args.mode == SESSION_DISCARD && !trace_args.follow_exec && !trace_args.wait &&
	       !trace_args.follow_daemons && run->opened.count < 2 && !trace_question_asked() &&
	       !run->screen && !trace_args.limits.max_size && !trace_args.limits.rotate_ns &&
	       !trace_args.overhead && !trace_args.only_inside && !trace_args.depth_text;
}

void trace_host_begin(struct trace_run *run)
{
	int listener = can_serve(run) ? trace_peer_listen() : -1;
	struct trace_host *host = listener < 0 ? NULL : calloc(1, sizeof(*host));

	if (!host && listener >= 0)
		close(listener);
	if (!host)
		return;
	host->listener = listener;
	host->pidfd = -1;
	run->host = host;
}

void trace_host_free(struct trace_host *host)
{
	if (!host)
		return;
	if (host->listener >= 0)
		close(host->listener);
	if (host->pidfd >= 0) {
		channel_close(&host->channel);
		close(host->pidfd);
	}
	name_list_free(&host->names);
	name_list_free(&host->former);
	trace_dir_free(host->spool);
	free(host);
}

/* Has the guest closed its end? What it asked for last is of use to nobody then. */
static bool has_gone(const struct trace_host *host)
{
	struct pollfd guest = { .fd = host->channel.fd };

	return poll(&guest, 1, 0) > 0; /* POLLHUP, POLLERR */
}

void trace_host_step(struct trace_run *run)
{
	struct trace_host *host = run->host;
	int pidfd = -1, fd = host ? trace_peer_accept(host->listener, &pidfd) : -1;

	/* one that went before this one came doesn't keep it out */
	if (fd >= 0 && host->pidfd >= 0 && has_gone(host))
		forget_guest(run);
	if (fd >= 0 && host->pidfd < 0) {
		channel_open(&host->channel, fd, WIRE_REQUEST_MAX, QUEUE_MAX);
		host->pidfd = pidfd;
		host->is_leaving = false;
	} else if (fd >= 0) { /* one at a time */
		close(fd);
		close(pidfd);
	}
	if (host && host->pidfd >= 0)
		serve(run);
}

/* Serves until the guest is gone, or has taken over. */
static void wait_for_guest(struct trace_run *run)
{
	struct trace_host *host = run->host;
	uint64_t end = now_ns() + WAIT_NS;

	while (host->pidfd >= 0 && !host->has_taken_over && now_ns() < end) {
		struct pollfd ready = { .fd = host->channel.fd, .events = POLLIN };

		if (!serve(run) || host->has_taken_over)
			break;
		poll(&ready, 1, 100);
	}
}

/* ---- our own end after the guest's ---------------------------------------------------------- */

struct error *trace_host_finish(struct trace_run *run, struct reader_totals *totals)
{
	struct trace_host *host = run->host;
	struct shared_trace shared = { 0 };

	if (!host)
		return NULL;
	host->is_over = true;
	close(host->listener); /* nobody else comes */
	host->listener = -1;
	wait_for_guest(run);
	if (host->spool)
		shared_trace_remove(host->spool->path);
	if (!run->output || !host->former.count)
		return NULL;
	shared.others = &host->former;
	for (size_t i = 0; i < session_tracepoint_count(run->session); i++) {
		struct tracepoint_info info = session_tracepoint(run->session, i);

		shared.lost += info.lost + info.exits_lost;
	}
	struct error *error = shared_trace_clean(&shared, run->output);
	if (!error)
		*totals = (struct reader_totals){ .events = shared.events,
						  .bytes = shared.bytes,
						  .lost = shared.lost };
	return error;
}

/* ---- our own end before the guest's --------------------------------------------------------- */

bool trace_host_hands_over(const struct trace_run *run)
{
	const struct trace_host *host = run->host;
	struct pollfd ended = { .fd = host ? host->pidfd : -1, .events = POLLIN };

	return host && host->pidfd >= 0 && host->names.count && proc_is_alive(run->proc) &&
	       poll(&ended, 1, 0) == 0;
}

/* Our tracepoints as they are now. Texts are the session's. Caller frees. */
static struct tracepoint_info *note_infos(const struct trace_run *run, size_t *ret_count,
					  uint64_t *ret_lost)
{
	size_t all = session_tracepoint_count(run->session), count = 0;
	struct tracepoint_info *infos = calloc(all + 1, sizeof(*infos));

	for (size_t i = 0; i < all && infos; i++) {
		infos[count] = session_tracepoint(run->session, i);
		if (is_guests(run->host, infos[count].name))
			continue;
		*ret_lost += infos[count].lost + infos[count].exits_lost;
		count++;
	}
	*ret_count = count;
	return infos;
}

/* The guest goes on with the trace at another place: ours comes to where it was. *ret_lock: while
 * it is open, the guest doesn't remove that one. */
static struct error *move_trace(const struct trace_run *run, char **ret_path, int *ret_lock)
{
	_cleanup_free_ char *here = run->host->spool ? strdup(run->host->spool->path) : NULL;
	_cleanup_free_ char *path = NULL;

	if (!run->output) {
		*ret_path = take_ptr(&here); /* NULL: no trace at all */
		return NULL;
	}
	here = realpath(run->output, NULL);
	if (!here || asprintf(&path, "%s.shared-%d", here, getpid()) < 0)
		return error_errno(errno, "%s", run->output);
	if (rename(here, path))
		return error_errno(errno, "cannot rename '%s'", here);
	*ret_lock = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (*ret_lock >= 0)
		flock(*ret_lock, LOCK_SH | LOCK_NB);
	*ret_path = take_ptr(&path);
	return NULL;
}

static void tell_guest(struct trace_host *host, const char *path)
{
	struct wire_out out = { 0 };

	wire_begin(&out, WIRE_EVENT, 0);
	wire_text(&out, WIRE_EVENT_NAME, "yours");
	wire_text(&out, WIRE_OUTPUT, path);
	wire_end(&out);
	channel_send(&host->channel, &out);
	wire_free(&out);
}

/* The guest died before it had taken over: nobody else is left to clean up. */
static struct error *clean_up(const struct trace_run *run, const char *path)
{
	struct takeover takeover = { 0 };

	if (run->output && rename(path, run->output))
		return error_errno(errno, "cannot rename '%s'", path);
	struct error *error = takeover_clean(run->proc, &takeover);
	if (!error && takeover.left)
		cli_note("%s", takeover.why);
	if (!error && run->host->spool)
		shared_trace_remove(path);
	return error;
}

/* Completes our trace, once the guest has taken over or is dead. */
static struct error *complete(struct trace_run *run, const char *path, struct shared_trace *shared)
{
	struct error *error = NULL;

	wait_for_guest(run);
	if (!run->host->has_taken_over) {
		error = clean_up(run, path);
		if (!error && run->output)
			error = shared_trace_clean(shared, run->output);
		return error;
	}
	if (!trace_args.quiet)
		cli_note("the other dyntrace of process %d goes on", run->proc->pid);
	return run->output ? shared_trace_copy(shared, path, run->output) : NULL;
}

struct error *trace_host_leave(struct trace_run *run)
{
	uint64_t begun = session_begun_ns(run->session);
	struct session_summary summary = { .recorded_ns = now_ns() - begun };
	struct shared_trace shared = { .others = &run->host->former, .until = __rdtsc() };
	struct error *error = session_flush(run->session);
	_cleanup_free_ char *path = NULL;
	_cleanup_close_ int lock = -1;
	bool unfinished = false;
	size_t count = 0;
	_cleanup_free_ struct tracepoint_info *infos =
		error ? NULL : note_infos(run, &count, &shared.lost);

	if (!error)
		error = move_trace(run, &path, &lock);
	if (error)
		return error;
	run->has_left = true;
	error = session_leave(run->session, shared.until, &unfinished);
	shared.lost += unfinished;
	tell_guest(run->host, path);
	if (error)
		return error;
	error = complete(run, path, &shared);
	summary.totals = (struct reader_totals){ .events = shared.events,
						 .bytes = shared.bytes,
						 .lost = shared.lost };
	if (!error && !trace_args.quiet)
		summary_print_infos(infos, infos ? count : 0, &summary, run->output,
				    &trace_args.summary);
	return error;
}
