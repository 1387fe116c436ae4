/*
 * old_counts.h - counts that a dead controller's tracepoints kept in the target.
 *
 * Read when nothing counts any more, and added to tracepoints of the same name that are placed
 * again. The target can write all of it: the counts are shown to the user and used for nothing
 * else.
 */
#ifndef DYNTRACE_OLD_COUNTS_H
#define DYNTRACE_OLD_COUNTS_H

#include "shared/layout.h"
#include "control/base/vec.h"
#include "control/tracers/count/old_keys.h"

struct session;
struct tracepoint;

struct old_counts_item {
	uint64_t name; /* dt_name_hash */
	uint64_t missed, unwound;
	struct dt_cell *words; /* only `hits`, unless has_times; owned; NULL: by key */
	struct old_keys keys;
	bool has_times;
};

struct old_counts {
	struct old_counts_item *items;
	size_t count, room;
};

bool old_counts_create(struct session *session);
void old_counts_destroy(struct session *session);

/* Reads all counts that `dead` has noted, after its pool was copied. */
struct error *old_counts_read(struct session *dead, struct old_counts *old_counts);
/* Adds the counts to the session's tracepoints; forgets those whose name no tracepoint has. */
void old_counts_give(struct session *session);
/* Moves all counts to `to`, which may have some already. */
void old_counts_move(struct old_counts *from, struct old_counts *to);
void old_counts_free(struct old_counts *old_counts);

#endif
