#include "owners.h"

#include <assert.h>
#include <string.h>

#include "daemon/supervisor/supervisor.h"
#include "daemon/supervisor/targets/journal_entries.h"
#include "daemon/supervisor/targets/target.h"
#include "request_life.h"

static bool names_tracepoints(enum wire_kind kind)
{
	return kind == WIRE_REMOVE || kind == WIRE_ENABLE || kind == WIRE_DISABLE ||
	       kind == WIRE_CONTEXT || kind == WIRE_NO_CONTEXT;
}

/* A list that takes the counts away changes what others see. */
static bool changes_all(const struct request *request)
{
	enum wire_kind kind = request->kind;

	if (kind == WIRE_TRACEPOINTS)
		return wire_get_number(&request->message, WIRE_RESET, 0);
	/* the number of snapshots is limited */
	return kind == WIRE_START || kind == WIRE_STOP || kind == WIRE_DETACH ||
	       kind == WIRE_SNAPSHOT;
}

/* The first name that the pattern means, as the worker finds them; NULL: none. Names that aren't
 * known may be any. */
static const char *find_name(const struct journal_entry *entry, const char *pattern, bool exact)
{
	if (!entry->names.items)
		return pattern;
	for (size_t i = 0; i < entry->names.count; i++) {
		const char *name = entry->names.items[i];

		if (journal_entries_means(pattern, name, exact))
			return name;
	}
	return NULL;
}

static struct error *refuse_name(const struct target *target, const char *name, uid_t owner)
{
	return error_new(
		ERROR_NOT_PERMITTED,
		"process %d (%s): tracepoint '%s' is user %u's: only that user and root may change it",
		target->pid, target->process.name, name, owner);
}

static struct error *check_names(const struct request *request, const struct target *target)
{
	const char *pattern = wire_get_text(&request->message, WIRE_NAME);
	const struct journal_entries *entries = &target->entries;
	const char *name;

	if (!pattern)
		return NULL;
	bool exact = journal_entries_has_name(entries, pattern);
	for (size_t i = 0; i < entries->count; i++) {
		const struct journal_entry *entry = &entries->items[i];

		if (entry->kind == WIRE_ADD && entry->uid != request->who.uid &&
		    (name = find_name(entry, pattern, exact)))
			return refuse_name(target, name, entry->uid);
	}
	return NULL;
}

static struct error *check_all(const struct request *request, const struct target *target)
{
	uid_t uid = request->who.uid;

	for (size_t i = 0; i < target->entries.count; i++) {
		const struct journal_entry *entry = &target->entries.items[i];

		if ((entry->kind == WIRE_ADD || entry->kind == WIRE_LOAD) && entry->uid != uid)
			return error_new(
				ERROR_NOT_PERMITTED,
				"process %d (%s) is traced by user %u, too: only root may %s",
				target->pid, target->process.name, entry->uid,
				request->kind == WIRE_TRACEPOINTS ? "reset its counts" :
								    "stop or detach it");
	}
	if (request->kind == WIRE_DETACH && target->asker != uid &&
	    target->process.user.uid != uid)
		return error_new(
			ERROR_NOT_PERMITTED,
			"process %d (%s) was attached by user %u: only that user and root may detach it",
			target->pid, target->process.name, target->asker);
	return NULL;
}

static struct error *check_library(const struct request *request, const struct target *target)
{
	const char *library = wire_get_text(&request->message, WIRE_LIBRARY);

	for (size_t i = 0; i < target->entries.count && library; i++) {
		const struct journal_entry *entry = &target->entries.items[i];

		if (entry->kind == WIRE_LOAD && entry->uid != request->who.uid &&
		    (!entry->pattern || !strcmp(entry->pattern, library)))
			return error_new(
				ERROR_NOT_PERMITTED,
				"process %d (%s): user %u loaded this library: only that user and root may unload it",
				target->pid, target->process.name, entry->uid);
	}
	return NULL;
}

struct error *owners_check(const struct request *request, const struct target *target)
{
	struct error *error = NULL;

	assert(target); /* D8 */
	if (supervisor_is_master(request->supervisor, request->who.uid))
		return NULL;
	if (names_tracepoints(request->kind))
		error = check_names(request, target);
	else if (changes_all(request))
		error = check_all(request, target);
	else if (request->kind == WIRE_UNLOAD)
		error = check_library(request, target);
	return error;
}
