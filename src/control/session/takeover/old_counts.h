/*
 * old_counts.h - what tracepoints of a dead controller had counted in the target.
 *
 * Read when nothing counts there any more, and given to the tracepoints that are placed again, by
 * name. The target can write all of it: it is shown, and nothing else.
 */
#ifndef DYNTRACE_OLD_COUNTS_H
#define DYNTRACE_OLD_COUNTS_H

#include "shared/layout.h"
#include "control/base/vec.h"

struct session;
struct tracepoint;

struct old_counts_item {
	uint64_t name; /* dt_name_hash */
	uint64_t missed, unwound;
	struct dt_cell *words; /* only `hits`, unless has_times; owned */
	bool has_times;
};

struct old_counts {
	struct old_counts_item *items;
	size_t count, room;
};

bool old_counts_create(struct session *session);
void old_counts_destroy(struct session *session);

/* Of all that `dead` has noted; its pool was read. */
struct error *old_counts_read(struct session *dead, struct old_counts *old_counts);
/* To the session's tracepoints; what nobody is called after is forgotten. */
void old_counts_give(struct session *session);
/* All of it to the other, which may have some. */
void old_counts_move(struct old_counts *from, struct old_counts *to);
void old_counts_free(struct old_counts *old_counts);

#endif
