/*
 * worker_snapshots.h - snapshots of a target in overwrite mode: asked for by a client, by a hit
 * (--snapshot-when), and the trace that is left when the target is killed.
 *
 * Watchers hear of each by the event "snapshot", with its directory. Snapshots that hits asked for
 * are removed when there are more than the target keeps (--max-files); those that a client asked
 * for are the client's.
 */
#ifndef DYNTRACE_WORKER_SNAPSHOTS_H
#define DYNTRACE_WORKER_SNAPSHOTS_H

#include "control/session/triggers/triggers.h"
#include "worker_commands.h"

#define WORKER_SNAPSHOTS_KEPT 16 /* the default */

/* WIRE_SNAPSHOT */
struct error *worker_snapshots_do(struct worker *worker, const struct wire_message *message,
				  struct worker_reply *reply);
/* WIRE_ADD with an expression: fails unless the target is in overwrite mode. */
struct error *worker_snapshots_check(const struct worker *worker,
				     const struct wire_message *message);
/* ... adds the triggers of the spec. `names`: those that they had before. */
struct error *worker_snapshots_add(struct worker *worker, const struct wire_message *message,
				   const struct tracepoint_spec *spec,
				   const struct name_list *names, struct worker_reply *reply);
/* Tracepoints were removed or switched. */
struct error *worker_snapshots_follow(struct worker *worker);

/* The longest that poll may sleep; -1: no hit can ask. */
int worker_snapshots_timeout_ms(const struct worker *worker);
/* Takes the snapshot that hits ask for, if one is due. */
void worker_snapshots_step(struct worker *worker);
/* The target has ended: tells triggers without a snapshot, and a killed target's trace, which is
 * complete now. `how`: "killed by SIGSEGV"; NULL: it ended by itself. */
void worker_snapshots_end(struct worker *worker, const char *trace, const char *how);
void worker_snapshots_free(struct worker *worker);

#endif
