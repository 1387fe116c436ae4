/*
 * journal.c - the requests that were done to each target, to be done again after a crash.
 *
 * RUNDIR/targets/PID holds messages as they went to the worker: first WIRE_CONFIGURE with the
 * process's start time, then each request that changed something and succeeded, with the names that
 * it made and the rights of its client. New requests are appended. When tracepoints are removed,
 * the file is written anew without the requests that made them. Half a message at the end (a crash,
 * a full disk) is left out when the file is read.
 */
#include "journal.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "daemon/base/log.h"
#include "daemon/supervisor/requests/identity.h"
#include "daemon/supervisor/requests/request_life.h"
#include "daemon/supervisor/supervisor.h"
#include "target.h"

#define JOURNAL_MAX (64u << 20)

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

static void entry_free(struct journal_entry *entry)
{
	for (size_t i = 0; i < entry->names.count; i++)
		free(entry->names.items[i]);
	vec_free(&entry->names);
	free(entry->bytes);
}

void journal_free(struct target *target)
{
	for (size_t i = 0; i < target->entries.count; i++)
		entry_free(&target->entries.items[i]);
	vec_free(&target->entries);
}

void journal_drop(struct target *target)
{
	journal_forget(target->supervisor, target->pid);
	journal_free(target);
}

/* ---- writing --------------------------------------------------------------------------------- */

static void write_head(const struct target *target, struct wire_out *out)
{
	wire_begin(out, WIRE_CONFIGURE, 0);
	wire_number(out, WIRE_PID, (uint64_t)target->pid);
	wire_number(out, WIRE_START_TIME, target->process.start_time);
	wire_text(out, WIRE_GUISE, target->process.guise);
	wire_number(out, WIRE_GENERATION, target->process.generation);
	wire_text(out, WIRE_LOADED, target->loaded);
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
	for (size_t i = 0; i < target->entries.count; i++)
		strbuf_add(&out.bytes, target->entries.items[i].bytes,
			   target->entries.items[i].length);
	if (!path || !new_path || out.bytes.failed ||
	    !write_file(new_path, O_TRUNC, out.bytes.text, out.bytes.length) ||
	    rename(new_path, path))
		log_line("process %d: cannot write the journal: %s", target->pid, strerror(errno));
	wire_free(&out);
}

static void append(struct target *target, const struct journal_entry *entry)
{
	assert(entry->bytes && entry->length);
	_cleanup_free_ char *path = journal_path(target, "");

	if (!path || !write_file(path, O_APPEND, entry->bytes, entry->length))
		log_line("process %d: cannot write the journal: %s", target->pid, strerror(errno));
}

/* ---- entries --------------------------------------------------------------------------------- */

/* The message to be sent again: with the name that the tracepoint got. */
static bool make_entry(const struct request *request, const struct wire_message *reply,
		       struct journal_entry *ret_entry)
{
	static const enum wire_tag name[] = { WIRE_NAME, WIRE_NO_TAG }, none[] = { WIRE_NO_TAG };
	struct journal_entry entry = { .kind = request->kind };
	struct wire_out out = { 0 };
	struct wire_value value;

	for (size_t at = 0; request->kind == WIRE_ADD && wire_next(reply, &at, &value);) {
		if (value.tag == WIRE_NAME && !vec_push(&entry.names, strdup(value.text)))
			out.bytes.failed = true;
	}
	bool renamed = entry.names.count == 1;
	wire_begin(&out, request->kind, 0);
	if (renamed)
		wire_text(&out, WIRE_NAME, entry.names.items[0]);
	wire_copy(&out, &request->message, renamed ? name : none);
	wire_end(&out);
	if (out.bytes.failed) {
		entry_free(&entry);
		wire_free(&out);
		return false;
	}
	entry.bytes = out.bytes.text;
	entry.length = out.bytes.length;
	*ret_entry = entry;
	return true;
}

/* Takes the names that match out of the entries that made them. True: the removal itself needn't be
 * noted. */
static bool forget_names(struct target *target, const char *pattern)
{
	bool whole = true;
	size_t kept = 0;

	for (size_t i = 0; i < target->entries.count; i++) {
		struct journal_entry *entry = &target->entries.items[i];
		size_t before = entry->names.count, left = 0;

		for (size_t j = 0; j < before; j++) {
			if (fnmatch(pattern, entry->names.items[j], 0))
				entry->names.items[left++] = entry->names.items[j];
			else
				free(entry->names.items[j]);
		}
		entry->names.count = left;
		/* the names that it made aren't known: very many, or read from the file */
		whole = whole && (before || entry->kind != WIRE_ADD);
		if (before && !left) {
			entry_free(entry);
			continue;
		}
		whole = whole && left == before;
		target->entries.items[kept++] = *entry;
	}
	assert(kept <= target->entries.count);
	target->entries.count = kept;
	return whole;
}

static bool is_noted(enum wire_kind kind)
{
	static const enum wire_kind noted[] = { WIRE_ADD,     WIRE_REMOVE,  WIRE_ENABLE,
						WIRE_DISABLE, WIRE_CONTEXT, WIRE_START,
						WIRE_STOP,    WIRE_LOAD,    WIRE_UNLOAD };

	for (size_t i = 0; i < sizeof(noted) / sizeof(noted[0]); i++) {
		if (noted[i] == kind)
			return true;
	}
	return false;
}

void journal_note(struct target *target, const struct request *request,
		  const struct wire_message *reply)
{
	struct journal_entry entry;

	assert(request->who.uid != (uid_t)-1 || !request->peer); /* D4 */
	if (!is_noted(request->kind))
		return;
	const char *pattern = wire_get_text(&request->message, WIRE_NAME);
	if (request->kind == WIRE_REMOVE && pattern && forget_names(target, pattern))
		return journal_write(target);
	if (!make_entry(request, reply, &entry))
		return log_line("process %d: cannot write the journal: out of memory", target->pid);
	if (!vec_push(&target->entries, entry))
		return entry_free(&entry);
	append(target, vec_last(&target->entries));
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

static bool read_head(struct target *target, const struct wire_message *head)
{
	static const char *const ways[] = { "injected", "linked", "preloaded" };
	const char *loaded = wire_get_text(head, WIRE_LOADED),
		   *trace = wire_get_text(head, WIRE_OUTPUT);

	for (size_t i = 0; loaded && i < sizeof(ways) / sizeof(ways[0]); i++) {
		if (!strcmp(loaded, ways[i]))
			target->loaded = ways[i];
	}
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

static bool read_entry(struct target *target, const struct wire_message *message, const char *bytes,
		       size_t length)
{
	const char *name = wire_get_text(message, WIRE_NAME);
	struct journal_entry entry = { .kind = message->kind,
				       .bytes = malloc(length),
				       .length = length };

	if (!entry.bytes)
		return false;
	memcpy(entry.bytes, bytes, length);
	if (message->kind == WIRE_ADD && name)
		(void)vec_push(&entry.names, strdup(name));
	if (vec_push(&target->entries, entry))
		return true;
	entry_free(&entry);
	return false;
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

		if (error || !used)
			return at > 0;
		if (at == 0 ? !read_head(target, &message) :
			      !read_entry(target, &message, bytes + at, used))
			return false;
	}
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
