/*
 * trace_keeper.c - keepers for the files of a target: of its trace, and of logs.
 *
 * The first tracepoint that is recorded needs a trace, and so a keeper with the rights of its
 * client. The keeper's socket goes to the worker with the request. If the request fails for another
 * reason, the keeper ends unused, and the next request brings another.
 */
#include "trace_keeper.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "control/base/cleanup.h"
#include "daemon/supervisor/requests/request_life.h"
#include "spawn.h"
#include "daemon/supervisor/supervisor.h"
#include "target.h"

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
			"'%s' can't be a trace or a log (name a directory that doesn't exist yet, or a file)",
			path);
	*ret_folder = slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
	assert(!strchr(slash + 1, '/'));
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

/* Of a profile: the folder of the traces. */
static const char *profile_output(const struct request *request, const char *usual)
{
	const char *folder = wire_get_text(&request->message, WIRE_OUTPUT);

	return folder ? folder : usual;
}

/* A log has a keeper per request: the next one may be another client's. */
static struct error *make_log_keeper(const struct request *request, int *ret_fd)
{
	const char *path = wire_get_text(&request->message, WIRE_ARGUMENT), *name = NULL;
	_cleanup_free_ char *folder = NULL;
	struct error *error = split_path(path, &folder, &name);

	return error ? error : spawn_keeper(&request->who, folder, name, KEEPER_EXACT, ret_fd);
}

static bool has_log_file(const struct request *request)
{
	return is_for(request, "log") && wire_get_text(&request->message, WIRE_ARGUMENT);
}

static char *join(const char *folder, const char *name)
{
	char *path = NULL;

	return asprintf(&path, "%s/%s", folder, name) < 0 ? NULL : path;
}

/* The keeper of the trace that this tracepoint is the first of. */
static struct error *make_keeper(struct target *target, const struct request *request, int *ret_fd,
				 struct promise *ret_promise)
{
	const struct supervisor_options *options = &target->supervisor->options;
	_cleanup_free_ char *folder = NULL;
	const char *path = named_output(request), *name = NULL;
	char made[128];

	struct error *error = NULL;

	if (path) {
		error = split_path(path, &folder, &name);
	} else {
		default_folder(target, made, sizeof(made));
		name = made;
	}
	if (error)
		return error;
	if (!folder)
		folder = strdup(profile_output(request, options->output));
	if (!folder)
		return error_new(ERROR_FAILED, "out of memory");
	struct promise promise = { .path = join(folder, name),
				   .numbered = !path,
				   .who = request->who };
	if (!promise.path)
		return error_new(ERROR_FAILED, "out of memory");
	error = spawn_keeper(&request->who, folder, name,
			     path ? KEEPER_EXACT : KEEPER_NUMBERED, ret_fd);
	if (error)
		free(promise.path);
	else
		*ret_promise = promise;
	return error;
}

static struct error *check_output(const struct target *target, const struct request *request)
{
	const char *path = named_output(request);

	if (path && target->trace && strcmp(path, target->trace) != 0)
		return error_new(
			ERROR_FAILED,
			"process %d is already recorded to %s, with all its tracepoints (detach it to begin another trace)",
			target->pid, target->trace);
	return NULL;
}

struct error *trace_keeper_for(struct target *target, const struct request *request, int *ret_fd,
			       struct promise *ret_promise)
{
	struct error *error = check_output(target, request);

	assert(request->kind == WIRE_ADD);
	if (error)
		return error;
	if (has_log_file(request))
		return make_log_keeper(request, ret_fd);
	if (target->trace || (!is_for(request, "ctf") && !is_for(request, "call")))
		return NULL;
	if (journal_entries_has_masters(target) &&
	    !supervisor_is_master(target->supervisor, request->who.uid))
		return error_new(
			ERROR_NOT_PERMITTED,
			"process %d (%s) is traced by root: only root begins its trace (the tracers "
			"count and log need none)",
			target->pid, target->process.name);
	return make_keeper(target, request, ret_fd, ret_promise);
}

int trace_keeper_again(struct target *target)
{
	_cleanup_free_ char *folder = NULL;
	const char *name = NULL;
	int fd = -1;
	_cleanup_error_ struct error *error =
		target->old_trace ? split_path(target->old_trace, &folder, &name) : NULL;

	if (!error && name)
		error = spawn_keeper(&target->owner, folder, name, KEEPER_AGAIN, &fd);
	return fd;
}

/* ---- promises (D7) --------------------------------------------------------------------------- */

void trace_keeper_promise(struct target *target, struct promise *promise)
{
	promise->sequence = target->sequence;
	if (!promise->path)
		return;
	if (!vec_push(&target->promises, *promise))
		free(promise->path); /* the trace won't be gone on with after a crash */
	promise->path = NULL;
}

void trace_keeper_promise_again(struct target *target)
{
	struct promise promise = { .path = strdup(target->old_trace), .who = target->owner };

	trace_keeper_promise(target, &promise);
}

void trace_keeper_forget(struct target *target, uint32_t answered)
{
	size_t old = 0;

	while (old < target->promises.count && target->promises.items[old].sequence <= answered)
		old++;
	/* The worker keeps the last keeper that it got until the keeper makes a directory. */
	old -= old && answered != UINT32_MAX;
	for (size_t i = 0; i < old; i++)
		free(target->promises.items[i].path);
	target->promises.count -= old;
	for (size_t i = 0; i < target->promises.count; i++)
		target->promises.items[i] = target->promises.items[i + old];
}

static bool is_numbered(const char *rest)
{
	return rest[0] == '-' && rest[1] && !rest[1 + strspn(rest + 1, "0123456789")];
}

const struct promise *trace_keeper_find(const struct target *target, const char *path)
{
	for (size_t i = 0; i < target->promises.count; i++) {
		const struct promise *promise = &target->promises.items[i];
		size_t length = strlen(promise->path);

		if (!strcmp(path, promise->path) ||
		    (promise->numbered && !strncmp(path, promise->path, length) &&
		     is_numbered(path + length)))
			return promise;
	}
	return NULL;
}
