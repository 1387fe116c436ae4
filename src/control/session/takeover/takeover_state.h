/*
 * takeover_state.h - functions that the files of takeover/ share.
 *
 * `dead` is a session that stands for the dead controller: its agent, its sites and its return
 * stubs, as they were found in the process.
 */
#ifndef DYNTRACE_TAKEOVER_STATE_H
#define DYNTRACE_TAKEOVER_STATE_H

#include "control/session/session.h"
#include "control/session/state/session_state.h"
#include "old_counts.h"
#include "takeover.h"

/* takeover.c: makes the session `dead`. */
struct error *takeover_create_dead(struct proc *proc, const struct session_options *options,
				   struct session **ret_dead);

/* takeover_find.c: the mapping of a control page that follows `before`; NULL: the first one.
 * Returns NULL at the end. */
const struct mapping *takeover_next(const struct maps *maps, const struct mapping *before);
/* Fills `dead` with the agent at that mapping. */
struct error *takeover_find(struct session *dead, const struct maps *maps,
			    const struct mapping *code);
/* Was the agent half made or half removed? Then it has no probes. */
bool takeover_is_half(const struct session *dead);

/* takeover.c: removes all agents from the process. `goes_on`: the trace will be reopened.
 * `limits` bound it. `old_counts` gets their counts. */
struct error *takeover_clean_to(struct proc *proc, struct trace_dir *dir, bool goes_on,
				const struct writer_limits *limits, struct old_counts *old_counts,
				struct takeover *ret_takeover);
/* Removes the probes and unmaps everything; dead->agent keeps a copy of the pool. */
struct error *takeover_undo(struct session *dead, struct takeover *takeover);
struct writer_part takeover_part(const struct session *dead);
/* Reopens the trace. `types` gets its event types; `resume` says how much the trace has of each
 * thread, for which the pool's records must have been read. */
struct error *takeover_reopen(struct session *dead, struct trace_dir *dir,
			      struct event_types *types, struct reader_resume *resume,
			      struct trace_writer **ret_writer);
/* Writes the other events of the pool's copy to the trace. */
struct error *takeover_read(struct session *dead, struct trace_writer *writer,
			    const struct reader_resume *resume, struct takeover *takeover);

#endif
