/*
 * takeover_state.h - what the files that take over from a dead controller share.
 *
 * What it left is a session, `dead`, which has found its agent, its sites and its return stubs.
 */
#ifndef DYNTRACE_TAKEOVER_STATE_H
#define DYNTRACE_TAKEOVER_STATE_H

#include "control/session/session.h"
#include "control/session/state/session_state.h"
#include "old_counts.h"
#include "takeover.h"

/* takeover.c: a session for what the dead controller left. */
struct error *takeover_create_dead(struct proc *proc, const struct session_options *options,
				   struct session **ret_dead);

/* takeover_find.c: mappings of control pages, one after the other. NULL: none, or no more. */
const struct mapping *takeover_next(const struct maps *maps, const struct mapping *before);
/* Fills `dead`, for its agent at that mapping. */
struct error *takeover_find(struct session *dead, const struct maps *maps,
			    const struct mapping *code);
/* It was half made, or half removed: there are no probes. */
bool takeover_is_half(const struct session *dead);

/* takeover.c: all agents that are there, away. `goes_on`: the trace will be reopened; `old_counts`:
 * gets what they had counted. */
struct error *takeover_clean_to(struct proc *proc, struct trace_dir *dir, bool goes_on,
				struct old_counts *old_counts, struct takeover *ret_takeover);
/* Takes the probes out and unmaps everything; a copy of the pool is left. */
struct error *takeover_undo(struct session *dead, struct takeover *takeover);
struct writer_part takeover_part(const struct session *dead);
/* Its trace, and what that has already of each thread; needs the pool's records. `types`: of its
 * events. */
struct error *takeover_reopen(struct session *dead, struct trace_dir *dir,
			      struct event_types *types, struct reader_resume *resume,
			      struct trace_writer **ret_writer);
/* What the pool's copy has beyond that, to the trace. */
struct error *takeover_read(struct session *dead, struct trace_writer *writer,
			    const struct reader_resume *resume, struct takeover *takeover);

#endif
