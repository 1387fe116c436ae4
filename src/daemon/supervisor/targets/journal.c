/*
 * journal.c - the requests that were done to each target, to be done again after a crash.
 *
 * RUNDIR/targets/PID holds messages as they went to the worker: first WIRE_CONFIGURE with the
 * process's start time, then each request that changed something and succeeded, with the names that
 * it made and the rights of its client. New requests are appended. What they make needless is left
 * out (journal_entries.h) when the file is read, and when it is written anew, which it is when half
 * of it is needless. Half a message at the end (a crash, a full disk) is left out when the file is
 * read.
 */
#include "journal.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "control/proc/proc_status.h"
#include "daemon/base/log.h"
#include "daemon/supervisor/requests/identity.h"
#include "daemon/supervisor/requests/request_life.h"
#include "daemon/supervisor/supervisor.h"
#include "target.h"

#define JOURNAL_MAX (256u << 20) /* more than J4 allows, with as much that is needless */
#define NEEDLESS_MAX (64u << 10) /* is never written anew for less */

static char *make_path(const struct supervisor *supervisor, pid_t pid, const char *suffix)
{
	char *path = NULL;

	return asprintf(&path, "%s/targets/%d%s", supervisor->run_dir, pid, suffix) < 0 ? NULL :
											  path;
}

static char *journal_path(const struct target *target, const char *suffix)
{
	return make_path(target->supervisor, target->pid, suffix);
}

void journal_forget(const struct supervisor *supervisor, pid_t pid)
{
	_cleanup_free_ char *path = make_path(supervisor, pid, "");

	if (path)
		unlink(path);
}

void journal_drop(struct target *target)
{
	journal_forget(target->supervisor, target->pid);
	journal_entries_free(target);
	target->journal_written = 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

static uint64_t start_time_of(pid_t pid)
{
	struct thread_stat stat = { 0 };

	error_free(proc_status_read_stat(pid, pid, &stat));
	return stat.start_time;
}

static void write_head(const struct target *target, struct wire_out *out)
{
	wire_begin(out, WIRE_CONFIGURE, 0);
	wire_number(out, WIRE_PID, (uint64_t)target->pid);
	wire_number(out, WIRE_START_TIME, target->process.start_time);
	wire_text(out, WIRE_GUISE, target->process.guise);
	wire_number(out, WIRE_GENERATION, target->process.generation);
	wire_text(out, WIRE_LOADED, target->loaded);
	wire_number(out, WIRE_ASKER, target->asker);
	target_mode_write(&target->mode, out);
	if (target->worker)
		wire_number(out, WIRE_WORKER, (uint64_t)target->worker);
	if (target->worker)
		wire_number(out, WIRE_WORKER_START, start_time_of(target->worker));
	if (target->trace || target->old_trace) {
		wire_text(out, WIRE_OUTPUT, target->trace ? target->trace : target->old_trace);
		identity_write(&target->owner, out);
	}
	wire_end(out);
}

static bool write_file(const char *path, int flags, const char *bytes, size_t length)
{
	_cleanup_close_ int fd =
		open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | flags, 0600);

	return fd >= 0 && write(fd, bytes, length) == (ssize_t)length;
}

void journal_write(struct target *target)
{
	assert(target->pid > 0 && target->loaded);
	_cleanup_free_ char *path = journal_path(target, ""),
			    *new_path = journal_path(target, ".new");
	struct wire_out out = { 0 };

	write_head(target, &out);
	for (size_t i = 0; i < target->entries.count && !out.bytes.failed; i++)
		strbuf_add(&out.bytes, target->entries.items[i].bytes,
			   target->entries.items[i].length);
	bool done = path && new_path && !out.bytes.failed &&
		    write_file(new_path, O_TRUNC, out.bytes.text, out.bytes.length) &&
		    !rename(new_path, path);
	if (!done)
		log_line("process %d: cannot write the journal: %s", target->pid, strerror(errno));
	/* SIZE_MAX: half a message may be there, and nothing may follow it */
	target->journal_written = done ? out.bytes.length : SIZE_MAX;
	wire_free(&out);
}

static void append(struct target *target, const char *bytes, size_t length)
{
	_cleanup_free_ char *path = journal_path(target, "");

	assert(bytes && length);
	if (path && write_file(path, O_APPEND, bytes, length)) {
		target->journal_written += length;
		return;
	}
	log_line("process %d: cannot write the journal: %s", target->pid, strerror(errno));
	target->journal_written = SIZE_MAX;
}

/* ---- entries --------------------------------------------------------------------------------- */

/* Does it make more tracepoints later, when libraries are loaded? */
static bool makes_more(const struct request *request)
{
	const char *location = wire_get_text(&request->message, WIRE_LOCATION);

	return location && strpbrk(location, "*?[") &&
	       wire_get_number(&request->message, WIRE_WAIT, 0);
}

/* The message to be sent again: with the name that the tracepoint got, and all names that were
 * made, if there is room for them (J4). */
static bool make_bytes(const struct target *target, const struct request *request,
		       const struct wire_message *reply, struct wire_out *ret_out)
{
	static const enum wire_tag name[] = { WIRE_NAME, WIRE_NO_TAG }, none[] = { WIRE_NO_TAG };
	bool adds = request->kind == WIRE_ADD && !makes_more(request) &&
		    journal_entries_has_room(target, request->who.uid, 2 * reply->length);
	struct wire_out out = { 0 };
	struct wire_value value;
	size_t made = 0;

	for (size_t at = 0; adds && wire_next(reply, &at, &value);)
		made += value.tag == WIRE_MADE;
	wire_begin(&out, request->kind, 0);
	if (made == 1)
		wire_text(&out, WIRE_NAME, wire_get_text(reply, WIRE_MADE));
	wire_copy(&out, &request->message, made == 1 ? name : none);
	for (size_t at = 0; adds && wire_next(reply, &at, &value);) {
		if (value.tag == WIRE_MADE || value.tag == WIRE_MADE_TRIGGER)
			wire_text(&out, value.tag, value.text);
	}
	wire_end(&out);
	if (out.bytes.failed || out.bytes.length > WIRE_MESSAGE_MAX) {
		wire_free(&out);
		return false;
	}
	*ret_out = out;
	return true;
}

bool journal_notes(enum wire_kind kind)
{
	static const enum wire_kind noted[] = { WIRE_ADD,     WIRE_REMOVE,  WIRE_ENABLE,
						WIRE_DISABLE, WIRE_CONTEXT, WIRE_NO_CONTEXT,
						WIRE_START,   WIRE_STOP,    WIRE_LOAD,
						WIRE_UNLOAD };

	for (size_t i = 0; i < sizeof(noted) / sizeof(noted[0]); i++) {
		if (noted[i] == kind)
			return true;
	}
	return false;
}

/* Writes the file anew if half of it is needless. */
static void keep_short(struct target *target)
{
	if (target->journal_written > 2 * target->entries.size + NEEDLESS_MAX)
		journal_write(target);
}

void journal_note(struct target *target, const struct request *request,
		  const struct wire_message *reply)
{
	struct wire_out out = { 0 };

	assert(request->who.uid != (uid_t)-1 || !request->peer); /* D4 */
	if (!journal_notes(request->kind))
		return;
	if (!make_bytes(target, request, reply, &out))
		return log_line("process %d: cannot write the journal: out of memory", target->pid);
	if (target->journal_written != SIZE_MAX)
		append(target, out.bytes.text, out.bytes.length);
	if (!journal_entries_add(target, out.bytes.text, out.bytes.length))
		log_line("process %d: cannot write the journal: out of memory", target->pid);
	/* also tracepoints whose names aren't known; but not while more are asked for again */
	if (request->kind == WIRE_REMOVE && target->replay == SIZE_MAX &&
	    !wire_get_number(reply, WIRE_TRACEPOINT_COUNT, 1) && target->entries.count) {
		journal_entries_forget_tracepoints(target);
		journal_write(target);
	}
	keep_short(target);
}

/* ---- reading --------------------------------------------------------------------------------- */

static char *slurp(const char *path, size_t *ret_length)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	struct stat stat;

	if (fd < 0 || fstat(fd, &stat) || !S_ISREG(stat.st_mode) || stat.st_uid != geteuid() ||
	    stat.st_size > JOURNAL_MAX)
		return NULL;
	char *bytes = malloc((size_t)stat.st_size + 1);
	ssize_t n = bytes ? read(fd, bytes, (size_t)stat.st_size) : -1;
	if (n < 0) {
		free(bytes);
		return NULL;
	}
	*ret_length = (size_t)n;
	return bytes;
}

/* The worker that an earlier supervisor started; its pid may be another process's by now. */
static void find_worker(struct target *target, const struct wire_message *head)
{
	pid_t pid = (pid_t)wire_get_number(head, WIRE_WORKER, 0);
	_cleanup_close_ int fd = pid > 1 ? pidfd_open(pid, 0) : -1;

	if (fd < 0 || start_time_of(pid) != wire_get_number(head, WIRE_WORKER_START, 0))
		return;
	target->worker = pid;
	target->worker_fd = take_fd(&fd);
}

static bool read_head(struct target *target, const struct wire_message *head)
{
	static const char *const ways[] = { "injected", "linked", "preloaded" };
	const char *loaded = wire_get_text(head, WIRE_LOADED),
		   *trace = wire_get_text(head, WIRE_OUTPUT);

	for (size_t i = 0; loaded && i < sizeof(ways) / sizeof(ways[0]); i++) {
		if (!strcmp(loaded, ways[i]))
			target->loaded = ways[i];
	}
	target->asker = (uid_t)wire_get_number(head, WIRE_ASKER, target->asker);
	target_mode_read(head, &target->mode);
	find_worker(target, head);
	if (trace) {
		identity_read(head, &target->owner);
		target->old_trace = strdup(trace);
	}
	const char *guise = wire_get_text(head, WIRE_GUISE);
	struct process then = { .start_time = wire_get_number(head, WIRE_START_TIME, 0),
				.generation = wire_get_number(head, WIRE_GENERATION, 0) };

	snprintf(then.guise, sizeof(then.guise), "%s", guise ? guise : "");
	return head->kind == WIRE_CONFIGURE && process_is_same(&then, &target->process); /* D5 */
}

static bool read_entry(struct target *target, const char *bytes, size_t length)
{
	char *copy = malloc(length);

	if (!copy)
		return false;
	memcpy(copy, bytes, length);
	return journal_entries_add(target, copy, length);
}

bool journal_read(struct target *target)
{
	_cleanup_free_ char *path = journal_path(target, "");
	size_t length = 0, used = 0;
	_cleanup_free_ char *bytes = path ? slurp(path, &length) : NULL;

	for (size_t at = 0; bytes && at < length; at += used) {
		struct wire_message message;
		_cleanup_error_ struct error *error =
			wire_take(bytes + at, length - at, WIRE_MESSAGE_MAX, &message, &used);

		target->journal_written = SIZE_MAX; /* until all of it was read */
		if (error || !used)
			return at > 0;
		if (at == 0 ? !read_head(target, &message) :
			      !read_entry(target, bytes + at, used))
			return false;
	}
	target->journal_written = length;
	return bytes && length;
}

void journal_pids(const struct supervisor *supervisor, struct tids *ret_pids)
{
	_cleanup_free_ char *path = NULL;

	if (asprintf(&path, "%s/targets", supervisor->run_dir) < 0)
		return;
	DIR *dir = opendir(path);
	for (struct dirent *entry; dir && (entry = readdir(dir));) {
		char *end;
		long pid = strtol(entry->d_name, &end, 10);

		if (pid > 0 && !*end)
			(void)vec_push(ret_pids, (pid_t)pid);
	}
	if (dir)
		closedir(dir);
}
