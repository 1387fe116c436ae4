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

struct legacy_item {
	uint64_t name; /* dt_name_hash */
	uint64_t missed, unwound;
	struct dt_cell *words; /* only `hits`, unless has_times; owned */
	bool has_times;
};

struct legacy {
	struct legacy_item *items;
	size_t count, room;
};

/* Where the tracepoint counts, for who takes over; and that it doesn't any more. */
void legacy_note(struct session *session, struct tracepoint *tracepoint);
void legacy_unnote(struct session *session, struct tracepoint *tracepoint);

/* Of all that `dead` has noted; its pool was read. */
struct error *legacy_read(struct session *dead, struct legacy *legacy);
/* To the session's tracepoints; what nobody is called after is forgotten. */
void legacy_give(struct session *session);
/* All of it to the other, which may have some. */
void legacy_move(struct legacy *from, struct legacy *to);
void legacy_free(struct legacy *legacy);

#endif
