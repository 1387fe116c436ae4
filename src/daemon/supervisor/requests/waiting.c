/*
 * waiting.c - tracepoints of programs that don't run yet.
 *
 * The requests are kept as they came, for every process of that name, until they are removed.
 * RUNDIR/waiting has them for the next supervisor.
 */
#include "waiting.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "control/proc/find_process.h"
#include "control/proc/proc_status.h"
#include "daemon/base/log.h"
#include "daemon/supervisor/exec_events.h"
#include "daemon/supervisor/peer.h"
#include "permissions.h"
#include "daemon/supervisor/targets/process.h"
#include "request_life.h"
#include "daemon/supervisor/supervisor.h"
#include "daemon/supervisor/targets/target_worker.h"
#include "daemon/supervisor/targets/worker_calls.h"

#define WAITING_MAX 1024
#define ANCESTORS_MOST 64
#define WAITING_BYTES_MAX (1u << 20) /* of a user's requests; root has no limit but their number */

struct waiting {
	uint64_t number;
	char *program;
	char *name; /* of the tracepoint; its location, if it has none */
	char *bytes; /* the request */
	size_t length;
	struct identity who;
	char *profile; /* NULL: of a client; else its WIRE_PROFILE */
};

static void waiting_free_one(struct waiting *waiting)
{
	free(waiting->program);
	free(waiting->name);
	free(waiting->bytes);
	free(waiting->profile);
	free(waiting);
}

void waiting_free(struct supervisor *supervisor)
{
	for (size_t i = 0; i < supervisor->waiting.count; i++)
		waiting_free_one(supervisor->waiting.items[i]);
	vec_free(&supervisor->waiting);
}

static char *waiting_path(const struct supervisor *supervisor, const char *suffix)
{
	char *path = NULL;

	return asprintf(&path, "%s/waiting%s", supervisor->run_dir, suffix) < 0 ? NULL : path;
}

static void write_all(struct supervisor *supervisor)
{
	_cleanup_free_ char *path = waiting_path(supervisor, ""),
			    *new_path = waiting_path(supervisor, ".new");
	struct strbuf bytes = { 0 };

	for (size_t i = 0; i < supervisor->waiting.count; i++) {
		const struct waiting *waiting = supervisor->waiting.items[i];

		if (!waiting->profile) /* the next supervisor reads the files themselves */
			strbuf_add(&bytes, waiting->bytes, waiting->length);
	}
	_cleanup_close_ int fd =
		new_path ? open(new_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW,
				0600) :
			   -1;
	if (fd < 0 || bytes.failed ||
	    write(fd, bytes.text, bytes.length) != (ssize_t)bytes.length || rename(new_path, path))
		log_line("cannot write the waiting tracepoints: %s", strerror(errno));
	strbuf_free(&bytes);
}

static struct error *keep(struct supervisor *supervisor, const char *bytes, size_t length,
			  const struct wire_message *message)
{
	const char *program = wire_get_text(message, WIRE_TARGET);
	const char *name = wire_get_text(message, WIRE_NAME),
		   *location = wire_get_text(message, WIRE_LOCATION),
		   *profile = wire_get_text(message, WIRE_PROFILE);
	struct waiting *waiting = calloc(1, sizeof(*waiting));

	if (!waiting)
		return error_new(ERROR_FAILED, "out of memory");
	waiting->program = program ? strdup(program) : NULL;
	waiting->name = name || location ? strdup(name ? name : location) : NULL;
	waiting->profile = profile ? strdup(profile) : NULL;
	waiting->bytes = malloc(length);
	waiting->length = length;
	waiting->number = ++supervisor->last_waiting;
	assert(waiting->number); /* never used twice */
	identity_read(message, &waiting->who);
	if (!waiting->program || !waiting->name || !waiting->bytes ||
	    (profile && !waiting->profile) || !vec_push(&supervisor->waiting, waiting)) {
		waiting_free_one(waiting);
		return error_new(ERROR_FAILED, "out of memory");
	}
	memcpy(waiting->bytes, bytes, length);
	exec_events_update(supervisor);
	return NULL;
}

/* (D6) */
static struct error *check_room(const struct supervisor *supervisor, uid_t uid, size_t more)
{
	static const struct users_share share = { .most = WAITING_MAX,
						  .reserve = WAITING_MAX / 8,
						  .per_user = WAITING_MAX / 4 };
	size_t own = 0, bytes = more;

	for (size_t i = 0; i < supervisor->waiting.count; i++) {
		const struct waiting *waiting = supervisor->waiting.items[i];

		own += waiting->who.uid == uid;
		bytes += waiting->who.uid == uid ? waiting->length : 0;
	}
	if (bytes > WAITING_BYTES_MAX && !supervisor_is_master(supervisor, uid))
		return error_new(
			ERROR_FAILED,
			"the tracepoints of user %u that wait for programs are too large together: more "
			"than %u KiB (remove some)",
			uid, WAITING_BYTES_MAX >> 10);
	return users_check(supervisor, uid, share, supervisor->waiting.count, own,
			   "tracepoints that wait for programs");
}

struct error *waiting_add(struct supervisor *supervisor, const struct request *request,
			  const char *program)
{
	const char *name = wire_get_text(&request->message, WIRE_NAME);

	struct error *error =
		check_room(supervisor, request->who.uid, request->bytes.bytes.length);

	if (error)
		return error;
	if (!name)
		name = wire_get_text(&request->message, WIRE_LOCATION);
	assert(name); /* check_add wants a LOC */
	for (size_t i = 0; i < supervisor->waiting.count; i++) {
		const struct waiting *waiting = supervisor->waiting.items[i];

		if (waiting->who.uid == request->who.uid && !strcmp(waiting->program, program) &&
		    !strcmp(waiting->name, name))
			return error_new(
				ERROR_FAILED,
				"a tracepoint '%s' waits for '%s' already (name another with -n)",
				name, program);
	}
	error = keep(supervisor, request->bytes.bytes.text,
				   request->bytes.bytes.length, &request->message);
	if (error)
		return error;
	write_all(supervisor);
	if (request->peer) {
		struct wire_out out = { 0 };

		wire_begin(&out, WIRE_ITEM, request->sequence);
		wire_text(&out, WIRE_NAME, name);
		wire_text(&out, WIRE_STATE, "waiting");
		wire_end(&out);
		peer_send(request->peer, &out);
		wire_free(&out);
	}
	return NULL;
}

/* ---- processes that begin -------------------------------------------------------------------- */

/* (D18) Has the journal this tracepoint of a profile, from an earlier daemon? */
static bool is_in_journal(const struct target *target, const struct waiting *waiting)
{
	for (size_t i = 0; i < target->entries.count; i++) {
		const struct journal_entry *entry = &target->entries.items[i];
		struct wire_message message;
		size_t used = 0;

		if (entry->kind != WIRE_ADD)
			continue;
		_cleanup_error_ struct error *error = wire_take(entry->bytes, entry->length,
								WIRE_MESSAGE_MAX, &message, &used);
		const char *profile = error || !used ? NULL : wire_get_text(&message, WIRE_PROFILE);

		if (profile && !strcmp(profile, waiting->profile))
			return true;
	}
	return false;
}

static bool was_asked(const struct target *target, const struct waiting *waiting)
{
	if (target && waiting->profile && is_in_journal(target, waiting))
		return true;
	for (size_t i = 0; target && i < target->waited.count; i++) {
		if (target->waited.items[i] == waiting->number)
			return true;
	}
	return false;
}

/* (D6) Whose share the process counts to. Anybody can start programs of the name that root waits
 * for: these must not use up root's share. */
static uid_t charged(const struct supervisor *supervisor, const struct waiting *waiting,
		     const struct process *process)
{
	return supervisor_is_master(supervisor, waiting->who.uid) ? process->user.uid :
								     waiting->who.uid;
}

static void place_one(struct supervisor *supervisor, const struct waiting *waiting, pid_t pid,
		      const struct process *process, struct request *parent)
{
	struct request *request = NULL;
	struct target *target = NULL;
	_cleanup_error_ struct error *error =
		request_again(supervisor, waiting->bytes, waiting->length, &request);

	if (error) {
		log_line("process %d: cannot place a waiting tracepoint: %s", pid,
			 error_text(error));
		return;
	}
	request->parent = parent;
	if (parent)
		request_open_call(parent);
	request_open_call(request);
	error = permissions_check(request, pid, process);
	target = target_find(supervisor, pid);
	if (!error && target && target->leaving)
		error = error_new(ERROR_FAILED,
				  "process %d is being detached: try again in a moment", pid);
	struct target_mode mode;
	if (!error)
		error = target_mode_choose(supervisor, target && target->has_worker ? target : NULL,
					   process, &waiting->who, &request->message, &mode);
	if (!error)
		error = target_worker_start(supervisor, pid, process,
					    charged(supervisor, waiting, process), &mode, &target);
	if (!error && !vec_push(&target->waited, waiting->number))
		error = error_new(ERROR_FAILED, "out of memory");
	if (error)
		request_note(request, take_ptr(&error));
	else
		worker_calls_send(target, request);
	request_close_call(request);
}

void waiting_process(struct supervisor *supervisor, pid_t pid, struct request *request)
{
	struct process process;
	bool asked = false;

	if (!supervisor->waiting.count || supervisor->ending)
		return;
	_cleanup_error_ struct error *gone = process_read(pid, &process);
	if (gone || !process.alive)
		return;
	/* Those of root first: names in a process are unique, and nobody takes root's. */
	for (size_t i = 0; i < 2 * supervisor->waiting.count; i++) {
		size_t count = supervisor->waiting.count;
		const struct waiting *waiting = supervisor->waiting.items[i % count];

		if (supervisor_is_master(supervisor, waiting->who.uid) != (i < count) ||
		    !process_is_called(&process, waiting->program))
			continue;
		if (was_asked(target_find(supervisor, pid), waiting))
			asked = true;
		else
			place_one(supervisor, waiting, pid, &process, request);
	}
	/* The process was seen when it began, and now registers: the worker answers this request
	 * behind those of before. */
	struct target *target = asked && request ? target_find(supervisor, pid) : NULL;
	if (target && target->has_worker)
		worker_calls_send(target, request);
}

/* ---- the user's view ------------------------------------------------------------------------- */

static bool may_see(const struct supervisor *supervisor, const struct identity *who,
		    const struct waiting *waiting)
{
	return who->uid == 0 || !supervisor->options.own_only || who->uid == waiting->who.uid;
}

static bool may_remove(const struct supervisor *supervisor, const struct identity *who,
		       const struct waiting *waiting)
{
	return who->uid == waiting->who.uid || supervisor_is_master(supervisor, who->uid);
}

size_t waiting_list(struct supervisor *supervisor, struct request *request, const char *program)
{
	size_t count = 0;

	for (size_t i = 0; i < supervisor->waiting.count && request->peer; i++) {
		const struct waiting *waiting = supervisor->waiting.items[i];
		struct wire_message message;
		struct wire_out out = { 0 };
		size_t used = 0;

		if (strcmp(waiting->program, program) != 0 ||
		    !may_see(supervisor, &request->who, waiting))
			continue;
		_cleanup_error_ struct error *error = wire_take(waiting->bytes, waiting->length,
								WIRE_MESSAGE_MAX, &message, &used);
		if (error)
			continue;
		const char *tracer = wire_get_text(&message, WIRE_TRACER);
		wire_begin(&out, WIRE_ITEM, request->sequence);
		wire_text(&out, WIRE_NAME, waiting->name);
		wire_text(&out, WIRE_LOCATION, wire_get_text(&message, WIRE_LOCATION));
		wire_text(&out, WIRE_TRACER, tracer ? tracer : "ctf");
		wire_text(&out, WIRE_STATE,
			  waiting->profile ? "waiting for the program, by a profile" :
					     "waiting for the program");
		wire_end(&out);
		peer_send(request->peer, &out);
		wire_free(&out);
		count++;
	}
	return count;
}

size_t waiting_remove(struct supervisor *supervisor, const struct identity *who,
		      const char *program, const char *pattern, size_t *ret_others)
{
	size_t kept = 0, removed = 0;

	*ret_others = 0;

	for (size_t i = 0; i < supervisor->waiting.count; i++) {
		struct waiting *waiting = supervisor->waiting.items[i];

		bool named = !strcmp(waiting->program, program) &&
			     !fnmatch(pattern, waiting->name, 0);

		if (!named || !may_remove(supervisor, who, waiting)) {
			*ret_others += named && may_see(supervisor, who, waiting);
			supervisor->waiting.items[kept++] = waiting;
			continue;
		}
		waiting_free_one(waiting);
		removed++;
	}
	assert(kept + removed == supervisor->waiting.count);
	supervisor->waiting.count = kept;
	if (removed)
		write_all(supervisor);
	exec_events_update(supervisor);
	return removed;
}

/* ---- profiles -------------------------------------------------------------------------------- */

static struct error *keep_profile(struct supervisor *supervisor,
				  const struct profile_request *request)
{
	static const enum wire_tag none[] = { WIRE_NO_TAG };
	struct wire_message message;
	struct wire_out out = { 0 };
	size_t used = 0;
	struct error *error = check_room(supervisor, supervisor->self.uid, 0);

	if (!error)
		error = wire_take(request->bytes, request->length, WIRE_MESSAGE_MAX, &message,
				  &used);
	if (error)
		return error;
	wire_begin(&out, WIRE_ADD, 1);
	wire_copy(&out, &message, none);
	identity_write(&supervisor->self, &out);
	wire_end(&out);
	error = out.bytes.failed ? error_new(ERROR_FAILED, "out of memory") :
				   wire_take(out.bytes.text, out.bytes.length, WIRE_MESSAGE_MAX,
					     &message, &used);
	if (!error)
		error = keep(supervisor, out.bytes.text, out.bytes.length, &message);
	wire_free(&out);
	return error;
}

/* Was it forked from a process that an earlier daemon traced? Then it is in that one's session,
 * whose worker may be about to come back. */
static bool is_of_found_again(struct supervisor *supervisor, pid_t pid,
			      const struct process *process)
{
	struct thread_status status = { .parent = pid };

	for (unsigned up = 0; up < ANCESTORS_MOST && status.parent > 1; up++) {
		_cleanup_error_ struct error *gone =
			proc_status_read(status.parent, status.parent, &status);
		const struct target *target = gone ? NULL : target_find(supervisor, status.parent);

		if (gone)
			return false;
		if (target && target->entries.count &&
		    !strcmp(target->process.executable, process->executable))
			return true;
	}
	return false;
}

/* Processes that run already when the daemon starts. */
static void place_in_running(struct supervisor *supervisor, size_t index)
{
	const struct waiting *waiting = supervisor->waiting.items[index];
	struct tids pids = { 0 };

	error_free(find_process_all(waiting->program, false, &pids));
	for (size_t i = 0; i < pids.count; i++) {
		struct process process;
		_cleanup_error_ struct error *gone = process_read(pids.items[i], &process);

		if (!gone && process.alive &&
		    !was_asked(target_find(supervisor, pids.items[i]), waiting) &&
		    (target_find(supervisor, pids.items[i]) ||
		     !is_of_found_again(supervisor, pids.items[i], &process)))
			place_one(supervisor, waiting, pids.items[i], &process, NULL);
	}
	vec_free(&pids);
}

void waiting_add_profiles(struct supervisor *supervisor, const struct profile_requests *requests)
{
	for (size_t i = 0; i < requests->count; i++) {
		_cleanup_error_ struct error *error =
			keep_profile(supervisor, &requests->items[i]);

		if (error)
			log_line("profiles: %s", error_text(error));
	}
	for (size_t i = 0; i < supervisor->waiting.count; i++) {
		if (supervisor->waiting.items[i]->profile)
			place_in_running(supervisor, i);
	}
}

void waiting_read(struct supervisor *supervisor)
{
	_cleanup_free_ char *path = waiting_path(supervisor, "");
	_cleanup_close_ int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
	struct stat stat;
	size_t used = 0;

	if (fd < 0 || fstat(fd, &stat) || stat.st_uid != geteuid() || stat.st_size <= 0)
		return;
	_cleanup_free_ char *bytes = malloc((size_t)stat.st_size);
	ssize_t length = bytes ? read(fd, bytes, (size_t)stat.st_size) : 0;
	for (ssize_t at = 0; at < length; at += (ssize_t)used) {
		struct wire_message message;
		_cleanup_error_ struct error *error = wire_take(bytes + at, (size_t)(length - at),
								WIRE_MESSAGE_MAX, &message, &used);

		if (error || !used)
			return;
		error_free(keep(supervisor, bytes + at, used, &message));
	}
}
