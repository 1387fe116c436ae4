/*
 * garbage.h - sites that nobody needs any more, whose trampolines may still run.
 *
 * A site becomes garbage before its bytes are restored, and leaves only when they are (H32): if a
 * stop fails, the jump stays in the text, its tracepoint is off, and the next change tries again.
 *
 * The memory of a removed site is used again only when no thread is in its trampoline, its hop,
 * shared code that returns to the trampoline, or the agent (from where the thread might): in the
 * target, and in every process that was forked from it and whose text may still hold the jump
 * (H12). A look at all threads takes milliseconds, so it serves many sites at once.
 *
 * Return stubs lead to the code of their tracepoint: a site with calls inside stays until they have
 * returned (exits/exits_release.c).
 */
#ifndef DYNTRACE_GARBAGE_H
#define DYNTRACE_GARBAGE_H

#include "control/session/state/session_state.h"

#define GARBAGE_WAIT_MS 10000 /* the longest that garbage is collected patiently */

bool garbage_create(struct session *session);
void garbage_destroy(struct session *session);
/* Frees all garbage; nothing of it may run any more. */
void garbage_free(struct session *session);

/* Makes the new planner keep room for its sites here (L5): what a change takes from the planner is
 * never in no list (H32). */
void garbage_expect(struct session *session);
/* An empty list with room for every site that the planner has. */
struct site_list *garbage_room(struct session *session);
/* Adds a site that was in the planner, and isn't any more. */
void garbage_add(struct session *session, struct site *site);
/* May the target's text still hold the site's jump? Then its memory stays (H32). */
bool garbage_is_in_text(const struct site *site);
/* Restores the bytes of garbage that a change before couldn't take out of the target's text. */
struct error *garbage_take_out(struct session *session);
/* Takes garbage out of a process's text: a forked child may still have it. `all`: also replaced
 * sites with which the child goes on recording. */
struct error *garbage_restore(struct session *session, struct proc *proc, bool all, bool *ret_idle);
/* Frees the garbage, and the retired tracepoints, if nothing of it can run any more. */
void garbage_collect(struct session *session);
/* Collects if enough garbage has come since the last time. */
void garbage_collect_if_due(struct session *session);
/* Collects before another try, with a pause that doubles: a thread that was interrupted in removed
 * code may wait long for a CPU, and makes no progress while it is held. */
void garbage_collect_patiently(struct session *session, unsigned *pause_ms);
/* Collects if return stubs lead to replaced code, past the tracepoints of the code that replaced
 * it. */
void garbage_redirect_stubs(struct session *session);
/* Call regularly: tries that again, if it couldn't be done. */
void garbage_step(struct session *session, uint64_t now_ns);
/* Does no process but the target have our code? Processes forked later have all of it. */
bool garbage_is_unshared(const struct session *session);

#endif
