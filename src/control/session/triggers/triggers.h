/*
 * triggers.h - hits that ask for a snapshot (--snapshot-when).
 *
 * A hit asks by counting: a tracepoint has a second one at the same place, its trigger, with the
 * tracer count and the expression as its filter. So asking costs the target one counter, however
 * often it asks, and no system call. The session's owner looks at these counters every few
 * milliseconds.
 *
 * (O11) Between two snapshots that hits ask for, at least the time of --snapshot-every passes.
 *       Triggers in between are counted, and told with the next snapshot or at the end.
 */
#ifndef DYNTRACE_TRIGGERS_H
#define DYNTRACE_TRIGGERS_H

#include "control/session/session.h"

#define TRIGGERS_EVERY_S 10.0 /* the default of --snapshot-every */
#define TRIGGERS_LOOK_MS 5 /* between looks at the counters */

struct triggers {
	uint64_t every_ns; /* --snapshot-every */
	uint64_t seen; /* at the last look */
	uint64_t fresh; /* since the last snapshot */
	uint64_t next_look, next_due; /* ns of CLOCK_MONOTONIC */
};

/* Adds the triggers of the tracepoints of `spec`, before session_begin. `when`: the expression. */
struct error *triggers_add(struct session *session, const struct tracepoint_spec *spec,
			   const char *when);
/* ... and after session_begin; `names`, ret_made: as of session_add_as. */
struct error *triggers_add_as(struct session *session, const struct tracepoint_spec *spec,
			      const char *when, const struct name_list *names,
			      struct name_list *ret_made);
/* Removes triggers whose tracepoints are gone, and switches the others as theirs. */
struct error *triggers_follow(struct session *session);
/* Does the session have any? */
bool triggers_exist(const struct session *session);

/* Looks at the counters, if it is time to. True: a snapshot is due (O11). */
bool triggers_look(struct triggers *triggers, const struct session *session);
/* Takes what the counters have for seen: a controller before this one has heard of it. */
void triggers_begin(struct triggers *triggers, const struct session *session);
/* A snapshot is taken now: "3 triggers", and none is left to tell. */
void triggers_tell(struct triggers *triggers, char *ret_text, size_t size);

#endif
