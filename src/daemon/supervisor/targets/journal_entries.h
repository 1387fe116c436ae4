/*
 * journal_entries.h - what a journal holds: requests to be done again, and no more of them than
 * that needs.
 *
 * (J3) Entries that a later one makes needless are dropped: doing the rest again, in their order,
 *      gives the same tracepoints, switches and libraries.
 * (J4) Entries have a bounded size: per process, per user, and of all users together. Root, and
 *      the daemon's own user, have room in each process that others can't take.
 */
#ifndef DYNTRACE_JOURNAL_ENTRIES_H
#define DYNTRACE_JOURNAL_ENTRIES_H

#include <stdbool.h>
#include <sys/types.h>

#include "control/base/error.h"
#include "control/base/vec.h"
#include "shared/wire.h"

struct request;
struct target;

/* A request that succeeded. Texts lie in `bytes`. */
struct journal_entry {
	enum wire_kind kind;
	uid_t uid; /* of its client */
	char *bytes; /* the message, with a WIRE_MADE per tracepoint that it made */
	size_t length;
	size_t size; /* that counts (J4) */
	const char *pattern; /* WIRE_NAME, or WIRE_LIBRARY; NULL: none */
	const char *context; /* NULL: none */
	VEC(const char *) names; /* WIRE_ADD: made, and not removed since; none: unknown */
};

/* A user's part of one journal. */
struct journal_share {
	uid_t uid;
	size_t size;
};

struct journal_entries {
	struct journal_entry *items;
	size_t count, room;
	VEC(struct journal_share) shares;
	size_t size; /* of all */
};

/* Adds an entry, and drops those that are needless now (J3); owns the bytes from now on, whole
 * messages. False: out of memory, or no message. */
bool journal_entries_add(struct target *target, char *bytes, size_t length);
/* Has a tracepoint this very name? A pattern is a name first, as the worker finds them; else a
 * glob. */
bool journal_entries_has_name(const struct journal_entries *entries, const char *name);
/* Does the pattern mean the name? `exact`: journal_entries_has_name of the pattern. */
bool journal_entries_means(const char *pattern, const char *name, bool exact);
/* Is one of root's, or of the daemon's own user's, among them? */
bool journal_entries_has_masters(const struct target *target);
/* Drops a WIRE_START or WIRE_STOP of another user than root. True: there was one. */
bool journal_entries_forget_switch(struct target *target);
/* No tracepoint is left. */
void journal_entries_forget_tracepoints(struct target *target);
void journal_entries_free(struct target *target);

/* (J4) May the request be sent to the worker? */
struct error *journal_entries_check_room(const struct target *target,
					 const struct request *request);
/* (J4) Can that user have `more` bytes, too? */
bool journal_entries_has_room(const struct target *target, uid_t uid, size_t more);

#endif
