/*
 * worker_calls.c - requests on their way to a target's worker.
 *
 * The first tracepoint that is recorded needs a trace, and so a keeper with the rights of who asks;
 * its socket goes to the worker with the request. If that fails for another reason, the keeper ends
 * unused, and the next request brings another.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "supervisor.h"

/* ---- asking ---------------------------------------------------------------------------------- */

static void default_folder(const struct target *target, char *ret_name, size_t size)
{
	time_t now = time(NULL);
	struct tm tm;
	char date[32], program[64];

	snprintf(program, sizeof(program), "%s", target->process.name);
	for (char *c = program; *c; c++) {
		if (*c == '/' || (unsigned char)*c <= ' ' || *c == 0x7f)
			*c = '_';
	}
	strftime(date, sizeof(date), "%Y%m%d-%H%M%S", localtime_r(&now, &tm));
	snprintf(ret_name, size, "%s-%d-%s", program, target->pid, date);
}

/* "/home/me/trace" to "/home/me" and "trace". */
static struct error *split_path(const char *path, char **ret_folder, const char **ret_name)
{
	const char *slash = strrchr(path, '/');

	if (path[0] != '/' || !slash[1] || !strcmp(slash, "/.") || !strcmp(slash, "/.."))
		return error_new(
			ERROR_USAGE,
			"'%s' can't be a trace or a log: name a directory that doesn't exist yet, or a file",
			path);
	*ret_folder = slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
	*ret_name = slash + 1;
	return *ret_folder ? NULL : error_new(ERROR_FAILED, "out of memory");
}

static bool is_for(const struct request *request, const char *tracer)
{
	const char *named = wire_get_text(&request->message, WIRE_TRACER);

	return !strcmp(named ? named : "ctf", tracer);
}

/* The directory that the request names; NULL: it names none. */
static const char *named_output(const struct request *request)
{
	return is_for(request, "ctf") ? wire_get_text(&request->message, WIRE_ARGUMENT) : NULL;
}

/* Who opens the file of a log: with every request, for it is another client's next time. */
static struct error *make_log_keeper(struct target *target, const struct request *request,
				     int *ret_fd)
{
	const char *path = wire_get_text(&request->message, WIRE_ARGUMENT), *name = NULL;
	_cleanup_free_ char *folder = NULL;
	struct error *error = split_path(path, &folder, &name);

	return error ? error :
		       spawn_keeper(target->supervisor, &request->who, folder, name, KEEPER_EXACT,
				    ret_fd);
}

static bool has_log_file(const struct request *request)
{
	return is_for(request, "log") && wire_get_text(&request->message, WIRE_ARGUMENT);
}

/* Who makes the files of the trace that this tracepoint is the first of. */
static struct error *make_keeper(struct target *target, const struct request *request, int *ret_fd)
{
	const struct supervisor_options *options = &target->supervisor->options;
	_cleanup_free_ char *folder = NULL;
	const char *path = named_output(request), *name = NULL;
	char made[128];

	if (!path) {
		default_folder(target, made, sizeof(made));
		return spawn_keeper(target->supervisor, &request->who, options->output, made,
				    KEEPER_NUMBERED, ret_fd);
	}
	struct error *error = split_path(path, &folder, &name);
	return error ? error :
		       spawn_keeper(target->supervisor, &request->who, folder, name, KEEPER_EXACT,
				    ret_fd);
}

int target_old_keeper(struct target *target)
{
	_cleanup_free_ char *folder = NULL;
	const char *name = NULL;
	int fd = -1;
	_cleanup_error_ struct error *error =
		target->old_trace ? split_path(target->old_trace, &folder, &name) : NULL;

	if (!error && name)
		error = spawn_keeper(target->supervisor, &target->owner, folder, name, KEEPER_AGAIN,
				     &fd);
	return fd;
}

static struct error *check_output(const struct target *target, const struct request *request)
{
	const char *path = named_output(request);

	if (path && target->trace && strcmp(path, target->trace) != 0)
		return error_new(
			ERROR_FAILED,
			"process %d is recorded to %s already: all its tracepoints go there (detach it to begin another trace)",
			target->pid, target->trace);
	return NULL;
}

static struct error *send_request(struct target *target, struct request *request, size_t entry)
{
	static const enum wire_tag none[] = { WIRE_NO_TAG };
	struct wire_out out = { 0 };
	int keeper = -1;
	struct error *error = NULL;

	if (request->kind == WIRE_ADD && target->tracepoints >= TRACEPOINTS_MAX)
		error = error_new(ERROR_FAILED, "process %d has %zu tracepoints: no more than that",
				  target->pid, target->tracepoints);
	if (!error && request->kind == WIRE_ADD)
		error = check_output(target, request);
	if (!error && request->kind == WIRE_ADD && has_log_file(request))
		error = make_log_keeper(target, request, &keeper);
	else if (!error && request->kind == WIRE_ADD &&
		 (is_for(request, "ctf") || is_for(request, "call")) && !target->trace)
		error = make_keeper(target, request, &keeper);
	if (!error && !target_push_call(target, request, request->kind, entry))
		error = error_new(ERROR_FAILED, "out of memory");
	if (error) {
		if (keeper >= 0)
			close(keeper);
		return error;
	}
	wire_begin(&out, request->kind, target->sequence);
	wire_copy(&out, &request->message, none);
	wire_end(&out);
	if (keeper >= 0)
		channel_send_fd(&target->channel, &out, keeper);
	else
		channel_send(&target->channel, &out);
	wire_free(&out);
	target_set_events(target);
	return NULL;
}

void target_call(struct target *target, struct request *request)
{
	struct error *error = send_request(target, request, SIZE_MAX);

	if (error)
		request_note(request, error);
	else if (request->kind == WIRE_DETACH)
		target->leaving = true;
}

void target_leave(struct target *target)
{
	struct wire_out out = { 0 };

	if (!target->has_worker)
		return target_free(target);
	if (target->leaving)
		return;
	target->leaving = true;
	if (target_push_call(target, NULL, WIRE_DETACH, SIZE_MAX)) {
		wire_begin(&out, WIRE_DETACH, target->sequence);
		wire_end(&out);
		channel_send(&target->channel, &out);
	}
	wire_free(&out);
	target_set_events(target);
}

/* ---- doing it again -------------------------------------------------------------------------- */

/* The worker may let go of what the one before it left. */
static void settle(struct target *target)
{
	struct wire_out out = { 0 };

	if (target->leaving || !target_push_call(target, NULL, WIRE_SETTLE, SIZE_MAX))
		return;
	wire_begin(&out, WIRE_SETTLE, target->sequence);
	wire_end(&out);
	channel_send(&target->channel, &out);
	wire_free(&out);
	target_set_events(target);
}

void target_replay(struct target *target)
{
	while (target->replay < target->entries.count) {
		struct entry *entry = &target->entries.items[target->replay++];
		struct request *request = NULL;

		if (entry->kind == WIRE_START || entry->kind == WIRE_STOP)
			continue; /* the worker was told how it ended */
		struct error *error =
			request_again(target->supervisor, entry->bytes, entry->length, &request);

		if (!error)
			error = send_request(target, request, target->replay - 1);
		if (!error)
			return;
		if (request) {
			request_note(request, error);
			request_settle(request);
		} else {
			error_free(error);
		}
	}
	target->replay = SIZE_MAX;
	settle(target);
}
