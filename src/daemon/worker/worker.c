#include "worker.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "control/base/ready.h"
#include "control/proc/proc_end.h"
#include "daemon/asker/asker.h"
#include "daemon/keeper/keeper.h"
#include "worker_attach.h"
#include "worker_commands.h"
#include "worker_events.h"
#include "worker_list.h"
#include "worker_snapshots.h"

#define LISTENER_FD 3
#define ASKER_FD 6
#define QUEUE_MAX (64u << 20) /* a list of very many tracepoints */

/* ---- the supervisor -------------------------------------------------------------------------- */

static void accept_supervisor(struct worker *worker)
{
	int fd = accept4(worker->listener, NULL, NULL, SOCK_CLOEXEC);

	if (fd < 0)
		return;
	channel_close(&worker->channel);
	worker_list_end(worker);
	channel_open(&worker->channel, fd, WIRE_MESSAGE_MAX, QUEUE_MAX);
	worker->channel.takes_fds = true;
	if (worker->unsent.bytes.length)
		channel_send(&worker->channel, &worker->unsent);
}

static void serve(struct worker *worker)
{
	struct wire_message message;

	/* Nothing more is done for a supervisor that hasn't read what was asked for before. */
	channel_flush(&worker->channel);
	if (channel_is_idle(&worker->channel) && !worker->listing.active)
		channel_fill(&worker->channel);
	while (!worker->over && channel_is_idle(&worker->channel)) {
		if (worker->listing.active)
			worker_commands_go_on(worker);
		else if (channel_next(&worker->channel, &message))
			worker_commands_do(worker, &message);
		else
			break;
	}
	if (!worker->channel.ended && !worker->channel.broken)
		return;
	worker_list_end(worker);
	channel_close(&worker->channel);
	/* Without a session this worker is of no use to a next supervisor. */
	if (!worker->session)
		worker->over = true;
}

/* Sends the last answers; a supervisor that doesn't take them within a second is dead. */
static void say_goodbye(struct worker *worker)
{
	while (worker->channel.fd >= 0 && !channel_flush(&worker->channel) &&
	       !worker->channel.ended) {
		if (!ready_within(worker->channel.fd, POLLOUT, 1000))
			break;
	}
	channel_close(&worker->channel);
}

/* ---- the session ----------------------------------------------------------------------------- */

static void end_with_target(struct worker *worker)
{
	assert(worker->session);
	struct session_summary summary = { 0 };
	char how[128], killed[64];
	int status = 0;
	_cleanup_free_ char *trace =
		worker->directory && keeper_has_made(worker->directory) ?
			strdup(worker->directory->path) :
			NULL;

	proc_end_describe(worker->proc, how, sizeof(how));
	bool is_killed = proc_end_status(worker->proc, &status) &&
			 proc_end_killed(status, killed, sizeof(killed));
	if (worker->has_triggers) {
		worker->triggers.next_look = 0;
		triggers_look(&worker->triggers, worker->session);
	}
	error_free(worker_attach_leave(worker, &summary));
	worker_snapshots_end(worker, trace, is_killed ? killed : NULL);
	worker_events_tell(worker, "exited", how);
	worker->over = true;
}

static void step(struct worker *worker)
{
	assert(worker->session && worker->proc);
	_cleanup_error_ struct error *error = session_step(worker->session, 0);

	if (error)
		worker_events_tell(worker, "failed", error_text(error));
	else
		worker_events_tell_losses(worker);
	if (!error && !session_ended(worker->session))
		worker_snapshots_step(worker);
	if (session_ended(worker->session))
		end_with_target(worker);
	else if (error) {
		struct session_summary summary = { 0 };

		error_free(worker_attach_leave(worker, &summary));
		worker->over = true;
	}
}

static int session_descriptor(const struct worker *worker)
{
	int fd = -1;

	if (worker->session)
		error_free(session_fd(worker->session, &fd));
	return fd;
}

static void run(struct worker *worker)
{
	while (!worker->over) {
		struct pollfd ready[] = {
			{ .fd = worker->listener, .events = POLLIN },
			{ .fd = worker->channel.fd },
			{ .fd = session_descriptor(worker), .events = POLLIN },
		};
		int timeout = worker->session ? session_timeout_ms(worker->session) : -1;
		int look = worker_snapshots_timeout_ms(worker);

		if (look >= 0 && (timeout < 0 || timeout > look))
			timeout = look;
		ready[1].events = channel_is_idle(&worker->channel) ? POLLIN : POLLOUT;
		int count = poll(ready, 3, timeout);
		if (count < 0 && errno != EINTR)
			break;
		if (ready[0].revents)
			accept_supervisor(worker);
		else if (ready[1].revents)
			serve(worker);
		if (worker->session && !worker->over && (ready[2].revents || count == 0))
			step(worker);
	}
}

/* The worker's struct asker. */
static struct error *ask(void *context, pid_t pid, struct fence_verdict *ret_verdict)
{
	const struct worker *worker = context;

	return asker_ask(ASKER_FD, pid == worker->pid ? 0 : pid, ret_verdict);
}

int worker_main(pid_t pid)
{
	struct worker worker = { .pid = pid, .listener = LISTENER_FD, .log = -1 };

	prctl(PR_SET_NAME, "dyntraced-work", 0, 0, 0);
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* its user takes no descriptor from it (H34) */
	worker.channel = (struct channel){ .fd = -1, .to_send = -1, .fds = { -1, -1, -1, -1 } };
	fcntl(LISTENER_FD, F_SETFD, FD_CLOEXEC);
	if (!fcntl(ASKER_FD, F_SETFD, FD_CLOEXEC))
		worker.asker = (struct asker){ ask, &worker };
	fcntl(LISTENER_FD, F_SETFL, fcntl(LISTENER_FD, F_GETFL) | O_NONBLOCK);
	run(&worker);
	say_goodbye(&worker);
	free(worker.cleaned);
	assert(worker.over || worker.channel.fd < 0);
	session_destroy(worker.session);
	worker_snapshots_free(&worker);
	trace_dir_free(worker.directory);
	proc_close(worker.proc);
	wire_free(&worker.unsent);
	return EXIT_SUCCESS;
}
