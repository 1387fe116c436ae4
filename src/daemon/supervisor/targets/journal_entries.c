#include "journal_entries.h"

#include <assert.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "control/wire/messages.h"
#include "daemon/supervisor/requests/request_life.h"
#include "daemon/supervisor/supervisor.h"
#include "target.h"

/* (J4), in bytes. Root's 65,536 tracepoints, added one by one, need half of TARGET_MAX. */
#define TARGET_MAX (32u << 20) /* a process: of all users */
#define TARGET_OTHERS_MAX (16u << 20) /* ... of all but root */
#define USER_MAX (8u << 20) /* a user other than root: in all processes */
#define OTHERS_MAX (64u << 20) /* all users but root: in all processes */
/* A removal may take as much again: whoever has too much must be able to have less. */
#define REMOVAL_FACTOR 2

/* ---- sizes ----------------------------------------------------------------------------------- */

static size_t *share_of(struct journal_entries *entries, uid_t uid)
{
	struct journal_share share = { .uid = uid };

	for (size_t i = 0; i < entries->shares.count; i++) {
		if (entries->shares.items[i].uid == uid)
			return &entries->shares.items[i].size;
	}
	return vec_push(&entries->shares, share) ? &vec_last(&entries->shares)->size : NULL;
}

static void count_off(struct journal_entries *entries, const struct journal_entry *entry)
{
	size_t *share = share_of(entries, entry->uid);

	assert(share && *share >= entry->size && entries->size >= entry->size); /* J4 */
	*share -= entry->size;
	entries->size -= entry->size;
}

/* Sizes of entries, and of requests that will become some. */
struct sizes {
	size_t target, target_others, user, others;
};

static void add_size(struct sizes *sizes, const struct target *asked, const struct target *target,
		     uid_t asker, uid_t uid, size_t size)
{
	bool other = !supervisor_is_master(target->supervisor, uid);

	sizes->target += asked == target ? size : 0;
	sizes->target_others += asked == target && other ? size : 0;
	sizes->user += asker == uid ? size : 0;
	sizes->others += other ? size : 0;
}

/* The size of a request as an entry, without the names that it will make. */
static size_t size_of_request(const struct request *request)
{
	return sizeof(struct journal_entry) + request->bytes.bytes.length;
}

static struct sizes measure(const struct target *asked, uid_t uid, bool with_calls)
{
	const struct supervisor *supervisor = asked->supervisor;
	struct sizes sizes = { 0 };

	for (size_t i = 0; i < supervisor->targets.count; i++) {
		const struct target *target = supervisor->targets.items[i];
		const struct journal_entries *entries = &target->entries;

		for (size_t j = 0; j < entries->shares.count; j++)
			add_size(&sizes, asked, target, uid, entries->shares.items[j].uid,
				 entries->shares.items[j].size);
		for (size_t j = 0; j < target->calls.count && with_calls; j++) {
			const struct worker_call *call = &target->calls.items[j];

			if (call->request && call->entry == SIZE_MAX)
				add_size(&sizes, asked, target, uid, call->request->who.uid,
					 size_of_request(call->request));
		}
	}
	return sizes;
}

static struct error *check_sizes(const struct target *target, uid_t uid,
				 const struct sizes *sizes, size_t more, size_t factor)
{
	static const char *const help = "remove tracepoints, or detach processes";
	bool master = supervisor_is_master(target->supervisor, uid);

	if (!master && sizes->user + more > USER_MAX * factor)
		return error_new(
			ERROR_FAILED,
			"the requests of user %u that must be remembered are too large together: more than %u MiB (%s)",
			uid, USER_MAX >> 20, help);
	if (!master && sizes->others + more > OTHERS_MAX * factor)
		return error_new(
			ERROR_FAILED,
			"the requests of all users that must be remembered are too large together: more than %u MiB (%s)",
			OTHERS_MAX >> 20, help);
	if (sizes->target + more > TARGET_MAX * factor ||
	    (!master && sizes->target_others + more > TARGET_OTHERS_MAX * factor))
		return error_new(
			ERROR_FAILED,
			"process %d (%s): the requests that must be remembered for it are too large together (%s)",
			target->pid, target->process.name, help);
	return NULL;
}

struct error *journal_entries_check_room(const struct target *target,
					 const struct request *request)
{
	struct sizes sizes = measure(target, request->who.uid, true);

	return check_sizes(target, request->who.uid, &sizes, size_of_request(request),
			   request->kind == WIRE_REMOVE || request->kind == WIRE_UNLOAD ?
				   REMOVAL_FACTOR :
				   1);
}

bool journal_entries_has_room(const struct target *target, uid_t uid, size_t more)
{
	struct sizes sizes = measure(target, uid, false);
	struct error *error = check_sizes(target, uid, &sizes, more, 1);

	error_free(error);
	return !error;
}

/* ---- entries --------------------------------------------------------------------------------- */

static void entry_free(struct journal_entry *entry)
{
	vec_free(&entry->names);
	free(entry->bytes);
}

void journal_entries_free(struct target *target)
{
	struct journal_entries *entries = &target->entries;

	for (size_t i = 0; i < entries->count; i++)
		entry_free(&entries->items[i]);
	free(entries->items);
	vec_free(&entries->shares);
	*entries = (struct journal_entries){ 0 };
}

static bool make_entry(char *bytes, size_t length, struct journal_entry *ret_entry)
{
	struct wire_message message;
	struct wire_value value;
	size_t used = 0;
	struct error *error = wire_take(bytes, length, WIRE_MESSAGE_MAX, &message, &used);

	error_free(error);
	if (error || used != length)
		return false;
	struct journal_entry entry = { .kind = message.kind, .bytes = bytes, .length = length };
	entry.uid = (uid_t)wire_get_number(&message, WIRE_UID, (uint64_t)-1);
	entry.pattern = wire_get_text(&message, message.kind == WIRE_LOAD ||
							message.kind == WIRE_UNLOAD ?
							WIRE_LIBRARY :
							WIRE_NAME);
	entry.context = wire_get_text(&message, WIRE_CONTEXT_TYPE);
	for (size_t at = 0; wire_next(&message, &at, &value);) {
		if ((value.tag == WIRE_MADE || value.tag == WIRE_MADE_TRIGGER) &&
		    !vec_push(&entry.names, value.text)) {
			vec_free(&entry.names);
			return false;
		}
	}
	entry.size = sizeof(entry) + length + entry.names.count * sizeof(*entry.names.items);
	*ret_entry = entry;
	return true;
}

/* Drops the needless ones of the entries `from` to `end` - 1. The next one to be asked for again
 * stays the same. Gives their number. */
static size_t drop(struct target *target, size_t from, size_t end,
		   bool (*is_needless)(const struct journal_entry *old,
				       const struct journal_entry *new),
		   const struct journal_entry *new)
{
	struct journal_entries *entries = &target->entries;
	size_t kept = from, before = target->replay;

	for (size_t i = from; i < entries->count; i++) {
		struct journal_entry *entry = &entries->items[i];

		if (i >= end || !is_needless(entry, new)) {
			entries->items[kept++] = *entry;
			continue;
		}
		if (before != SIZE_MAX && i < before)
			target->replay--;
		count_off(entries, entry);
		entry_free(entry);
	}
	size_t dropped = entries->count - kept;
	entries->count = kept;
	return dropped;
}

/* ---- entries that are needless (J3) ---------------------------------------------------------- */

static bool is_switch(enum wire_kind kind)
{
	return kind == WIRE_ENABLE || kind == WIRE_DISABLE;
}

static bool is_recording(const struct journal_entry *old, const struct journal_entry *new)
{
	(void)new;
	return old->kind == WIRE_START || old->kind == WIRE_STOP;
}

/* No glob. */
static bool is_plain(const char *pattern)
{
	return !pattern[strcspn(pattern, "*?[\\")];
}

/* Does the pattern of `new` name all that the pattern of `old` does? */
static bool covers(const struct journal_entry *new, const struct journal_entry *old)
{
	if (!new->pattern || !old->pattern)
		return false;
	return !strcmp(new->pattern, old->pattern) ||
	       (is_plain(old->pattern) && !fnmatch(new->pattern, old->pattern, 0));
}

static bool is_switched_again(const struct journal_entry *old, const struct journal_entry *new)
{
	return is_switch(old->kind) && covers(new, old);
}

static bool changes_contexts(enum wire_kind kind)
{
	return kind == WIRE_CONTEXT || kind == WIRE_NO_CONTEXT;
}

/* A tracepoint gets a context once: those of the older entry have gone since. */
static bool is_same_context(const struct journal_entry *old, const struct journal_entry *new)
{
	return old->kind == WIRE_CONTEXT && old->pattern && new->pattern && old->context &&
	       new->context && !strcmp(old->pattern, new->pattern) &&
	       !strcmp(old->context, new->context);
}

static bool is_of_library(const struct journal_entry *old, const struct journal_entry *new)
{
	return (old->kind == WIRE_LOAD || old->kind == WIRE_UNLOAD) && old->pattern &&
	       new->pattern && !strcmp(old->pattern, new->pattern);
}

static bool is_load_of(const struct journal_entry *old, const struct journal_entry *new)
{
	return old->kind == WIRE_LOAD && is_of_library(old, new);
}

static bool is_same_removal(const struct journal_entry *old, const struct journal_entry *new)
{
	return old->kind == WIRE_REMOVE && old->pattern && new->pattern &&
	       !strcmp(old->pattern, new->pattern);
}

/* Does the old entry change a tracepoint that the new one removes? */
static bool is_of_removed(const struct journal_entry *old, const struct journal_entry *new)
{
	return (is_switch(old->kind) || changes_contexts(old->kind)) && covers(new, old);
}

static bool is_of_tracepoints(const struct journal_entry *old, const struct journal_entry *new)
{
	(void)new;
	return old->kind == WIRE_ADD || old->kind == WIRE_REMOVE || is_switch(old->kind) ||
	       changes_contexts(old->kind);
}

void journal_entries_forget_tracepoints(struct target *target)
{
	struct journal_entry none = { 0 };

	drop(target, 0, SIZE_MAX, is_of_tracepoints, &none);
}

static bool is_others_switch(const struct journal_entry *old, const struct journal_entry *new)
{
	return is_recording(old, new) && old->uid != new->uid && old->uid != 0;
}

bool journal_entries_forget_switch(struct target *target)
{
	struct journal_entry masters = { .uid = target->supervisor->self.uid };

	return drop(target, 0, SIZE_MAX, is_others_switch, &masters) > 0;
}

bool journal_entries_has_masters(const struct target *target)
{
	for (size_t i = 0; i < target->entries.count; i++) {
		const struct journal_entry *entry = &target->entries.items[i];

		if (entry->kind == WIRE_ADD &&
		    supervisor_is_master(target->supervisor, entry->uid))
			return true;
	}
	return false;
}

/* ---- removals -------------------------------------------------------------------------------- */

bool journal_entries_has_name(const struct journal_entries *entries, const char *name)
{
	for (size_t i = 0; i < entries->count; i++) {
		for (size_t j = 0; j < entries->items[i].names.count; j++) {
			if (!strcmp(entries->items[i].names.items[j], name))
				return true;
		}
	}
	return false;
}

bool journal_entries_means(const char *pattern, const char *name, bool exact)
{
	return exact ? !strcmp(pattern, name) : !fnmatch(pattern, name, 0);
}

/* An entry without names made none that still exists: forget_names has taken the last. */
static bool is_empty_add(const struct journal_entry *old, const struct journal_entry *new)
{
	(void)new;
	return old->kind == WIRE_ADD && old->names.items && !old->names.count;
}

/* Takes names out of the entries that made them. `exact`: the pattern is one of the names. True:
 * the removal itself needn't be kept. */
static bool forget_names(struct target *target, const struct journal_entry *removal, bool exact)
{
	struct journal_entries *entries = &target->entries;
	const char *pattern = removal->pattern;
	bool whole = true;

	for (size_t i = 0; i < entries->count; i++) {
		struct journal_entry *entry = &entries->items[i];
		size_t before = entry->names.count, left = 0;

		for (size_t j = 0; j < before; j++) {
			const char *name = entry->names.items[j];

			if (!journal_entries_means(pattern, name, exact))
				entry->names.items[left++] = name;
		}
		entry->names.count = left;
		/* the names that it made aren't known; or it makes some that are to be removed */
		if (entry->kind == WIRE_ADD && (!before || (left && left < before)))
			whole = false;
	}
	drop(target, 0, SIZE_MAX, is_empty_add, removal);
	return whole;
}

/* Where the first, or after the last entry that adds is. */
static size_t first_add(const struct journal_entries *entries)
{
	size_t first = 0;

	while (first < entries->count && entries->items[first].kind != WIRE_ADD)
		first++;
	return first;
}

static size_t behind_last_add(const struct journal_entries *entries)
{
	size_t behind = entries->count;

	while (behind && entries->items[behind - 1].kind != WIRE_ADD)
		behind--;
	return behind;
}

/* True: nothing is left of the removal that must be kept. */
static bool remove_names(struct target *target, const struct journal_entry *removal)
{
	struct journal_entries *entries = &target->entries;

	if (!removal->pattern)
		return true;
	bool exact = journal_entries_has_name(entries, removal->pattern);
	bool whole = forget_names(target, removal, exact);
	if (!exact || is_plain(removal->pattern))
		drop(target, 0, entries->count, is_of_removed, removal);
	/* Between two removals of the same names nothing was added: one is enough. Before the
	 * first tracepoint was added none could be changed. */
	drop(target, behind_last_add(entries), entries->count, is_same_removal, removal);
	drop(target, 0, first_add(entries), is_of_tracepoints, removal);
	return whole;
}

/* A context that was added, and taken away before tracepoints or their contexts changed otherwise,
 * leaves nothing. True: so it is. */
static bool take_context_back(struct target *target, const struct journal_entry *new)
{
	struct journal_entries *entries = &target->entries;
	size_t last = entries->count;

	while (last && (is_switch(entries->items[last - 1].kind) ||
			!is_of_tracepoints(&entries->items[last - 1], new)))
		last--;
	return last && drop(target, last - 1, last, is_same_context, new);
}

/* Drops what is needless beside the new entry. True: the new one is needless, too. */
static bool make_way(struct target *target, const struct journal_entry *new)
{
	switch (new->kind) {
	case WIRE_START:
	case WIRE_STOP:
		drop(target, 0, SIZE_MAX, is_recording, new);
		return false;
	case WIRE_ENABLE:
	case WIRE_DISABLE:
		drop(target, 0, SIZE_MAX, is_switched_again, new);
		return false;
	case WIRE_CONTEXT:
		drop(target, 0, SIZE_MAX, is_same_context, new);
		return false;
	case WIRE_NO_CONTEXT:
		return take_context_back(target, new);
	case WIRE_UNLOAD: {
		bool loaded = drop(target, 0, SIZE_MAX, is_load_of, new);

		drop(target, 0, SIZE_MAX, is_of_library, new);
		return loaded;
	}
	case WIRE_REMOVE:
		return remove_names(target, new);
	default:
		return false;
	}
}

bool journal_entries_add(struct target *target, char *bytes, size_t length)
{
	struct journal_entries *entries = &target->entries;
	struct journal_entry entry = { 0 };

	if (!make_entry(bytes, length, &entry)) {
		free(bytes);
		return false;
	}
	if (make_way(target, &entry)) {
		entry_free(&entry);
		return true;
	}
	size_t *share = share_of(entries, entry.uid);
	if (!share || !vec_push(entries, entry)) {
		entry_free(&entry);
		return false;
	}
	*share += entry.size;
	entries->size += entry.size;
	return true;
}
