/*
 * target.c - processes with the agent: their life, and those that have no worker yet.
 */
#include "target.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "daemon/supervisor/events.h"
#include "journal.h"
#include "daemon/supervisor/requests/request_life.h"
#include "spawn.h"
#include "daemon/supervisor/supervisor.h"

struct target *target_find(struct supervisor *supervisor, pid_t pid)
{
	for (size_t i = 0; i < supervisor->targets.count; i++) {
		if (supervisor->targets.items[i]->pid == pid)
			return supervisor->targets.items[i];
	}
	return NULL;
}

/* ---- life ---------------------------------------------------------------------------------- */

struct error *target_check_room(const struct supervisor *supervisor, uid_t asker)
{
	size_t own = 0;

	for (size_t i = 0; i < supervisor->targets.count; i++)
		own += supervisor->targets.items[i]->asker == asker;
	return users_check(supervisor, asker, users_targets(supervisor), supervisor->targets.count,
			   own, "processes with the agent");
}

struct error *target_create(struct supervisor *supervisor, pid_t pid, const struct process *process,
			    uid_t asker, struct target **ret_target)
{
	assert(pid > 0 && !target_find(supervisor, pid));
	struct target *target = calloc(1, sizeof(*target));
	if (!target || !vec_push(&supervisor->targets, target)) {
		free(target);
		return error_new(ERROR_FAILED, "out of memory");
	}
	*target =
		(struct target){ .supervisor = supervisor,
				 .pid = pid,
				 .process = *process,
				 .asker = asker,
				 .mode = target_mode_default(supervisor),
				 .worker_fd = -1,
				 .loaded = "injected",
				 .source = { .fd = -1 },
				 .last_words = -1,
				 .channel = { .fd = -1, .to_send = -1, .fds = { -1, -1, -1, -1 } },
				 .replay = SIZE_MAX };
	*ret_target = target;
	return NULL;
}

void target_forget_worker(struct target *target)
{
	_cleanup_free_ char *path = spawn_socket_path(target->supervisor, target->pid);

	if (!target->has_worker)
		return;
	loop_remove(&target->supervisor->loop, &target->source);
	channel_close(&target->channel);
	target->source.fd = -1;
	if (target->worker_fd >= 0)
		close(take_fd(&target->worker_fd));
	cleanup_close(&target->last_words);
	target->last_words = -1;
	target->has_worker = target->attached = target->leaving = target->gone = false;
	target->ending = target->found_again = target->distrusted = false;
	target->worker = 0;
	target->sent = 0;
	trace_keeper_forget(target, UINT32_MAX);
	target->tracepoints = 0;
	target->waited.count = 0;
	if (target->trace) {
		free(target->old_trace);
		target->old_trace = take_ptr(&target->trace);
	}
	if (path)
		unlink(path);
}

static void remove_from_list(struct supervisor *supervisor, const struct target *target)
{
	size_t i = 0;

	while (i < supervisor->targets.count && supervisor->targets.items[i] != target)
		i++;
	assert(i < supervisor->targets.count);
	supervisor->targets.items[i] = supervisor->targets.items[--supervisor->targets.count];
}

void target_free(struct target *target)
{
	struct supervisor *supervisor = target->supervisor;

	target_forget_worker(target);
	assert(!target->has_worker && !target->trace);
	if (target->source.fd >= 0) { /* its pidfd */
		loop_remove(&supervisor->loop, &target->source);
		close(target->source.fd);
	}
	remove_from_list(supervisor, target);
	journal_entries_free(target);
	cleanup_close(&target->last_words);
	vec_free(&target->calls);
	vec_free(&target->waited);
	trace_keeper_forget(target, UINT32_MAX);
	vec_free(&target->promises);
	if (target->worker_fd >= 0)
		close(target->worker_fd);
	free(target->old_trace);
	free(target);
	supervisor_end_if_idle(supervisor);
}

void target_fail_calls(struct target *target, size_t count, const struct error *error)
{
	assert(count <= target->calls.count);
	while (count) {
		struct worker_call *call = &target->calls.items[--count];
		struct request *request = call->request;

		memmove(call, call + 1, (--target->calls.count - count) * sizeof(*call));
		if (!request)
			continue;
		request_note(request, error_repeat(error_kind(error), error_text(error)));
		request_close_call(request);
	}
}

/* ---- processes without a worker ------------------------------------------------------------ */

static void process_ended(struct loop_source *source, uint32_t events)
{
	struct target *target = (struct target *)((char *)source - offsetof(struct target, source));

	(void)events;
	events_tell(target->supervisor, target->pid, target->process.name, "exited", NULL);
	target_free(target);
}

struct error *target_watch_process(struct target *target)
{
	assert(!target->has_worker && target->source.fd < 0);
	int fd = pidfd_open(target->pid, 0);

	if (fd < 0 && errno != ESRCH)
		return error_errno(errno, "cannot watch process %d", target->pid);
	if (fd < 0)
		return error_new(ERROR_GONE, "process %d has ended", target->pid);
	target->source = (struct loop_source){ .fd = fd, .ready = process_ended };
	struct error *error = loop_add(&target->supervisor->loop, &target->source, EPOLLIN);
	if (error) {
		close(fd);
		target->source.fd = -1;
	}
	return error;
}

bool target_is_registered(const struct target *target)
{
	return strcmp(target->loaded, "injected") != 0;
}

struct error *target_register(struct supervisor *supervisor, pid_t pid,
			      const struct process *process, const char *loaded,
			      struct target **ret_target)
{
	struct target *target = target_find(supervisor, pid);
	struct error *error = NULL;

	if (!target) {
		error = target_check_room(supervisor, process->user.uid);
		if (!error)
			error = target_create(supervisor, pid, process, process->user.uid, &target);
		if (!error && (error = target_watch_process(target)))
			target_free(target);
		if (!error)
			events_tell(supervisor, pid, process->name, "attached", loaded);
		if (!error)
			target->announced = true;
	}
	if (error)
		return error;
	/* With a worker or a journal, the process that these are for stays the one that it was. */
	if (!target->has_worker && !target->entries.count)
		target->process = *process;
	else if (!process_is_same(&target->process, process))
		return error_new(ERROR_NOT_PERMITTED,
				 "process %d has begun another program, and its worker hasn't left yet",
				 pid);
	target->loaded = loaded;
	*ret_target = target;
	return NULL;
}
