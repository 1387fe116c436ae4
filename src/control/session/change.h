/*
 * change.h - sites of tracepoints that come, change and go; and the garbage that they leave.
 */
#ifndef DYNTRACE_CHANGE_H
#define DYNTRACE_CHANGE_H

#include "control/session/state/session_state.h"

bool change_create(struct session *session);
void change_destroy(struct session *session);
/* Sites that are out of the target's text: their memory is used again when nobody can be in it. */
struct error *change_discard(struct session *session, const struct site_list *sites);
/* Takes out of the process's text what is garbage: a forked child still has it. `all`: also what
 * the child goes on recording with, of a tracepoint that is otherwise now. */
struct error *change_restore(struct session *session, struct proc *proc, bool all, bool *ret_idle);
/* Frees what is garbage, if nobody can be in it any more. */
void change_collect(struct session *session);
/* The same, before it is tried again, with a pause that grows: a thread that was interrupted in what
 * was removed may wait long for a CPU, and doesn't get on while it is held to be looked at. */
void change_collect_patiently(struct session *session, unsigned *pause_ms);
#define CHANGE_WAY_MS 10000 /* how long that is tried */
/* Is there no process that was forked from the target, and has its code? */
bool change_is_alone(const struct session *session);
/* Before sites are placed: nobody may come out of what was removed where they are. Those where it
 * isn't certain fail. *ret_alone: what is garbage may be given to patch_place, too (P8). */
void change_clear_way(struct session *session, bool *ret_alone);
/* After planner_decide, in any case: ends an exchange of sites (plan.h). */
struct error *change_settle(struct session *session);
/* After an exchange: calls of functions with exits go through the new code, too. */
void change_redirect_stubs(struct session *session);
/* Their sites, as far as nobody else needs them, out of the target's code. */
struct error *change_release(struct session *session, const struct tracepoint_list *list);
void change_free(struct session *session);

#endif
