/*
 * change.h - sites of tracepoints that come, are exchanged and go while the target runs.
 *
 * Removing restores the original bytes in one stop; the sites are garbage then (garbage.h).
 */
#ifndef DYNTRACE_CHANGE_H
#define DYNTRACE_CHANGE_H

#include "control/session/state/session_state.h"

/* Before sites are placed: fails those inside whose bytes a thread may come out of removed code.
 * *ret_unshared: garbage may be given to patch_place, too, to be redirected (P8). */
void change_clear_way(struct session *session, bool *ret_unshared);
/* Ends an exchange of sites (plan.h): after planner_decide, in any case. */
void change_settle(struct session *session);
/* Makes garbage of sites that left the planner; frees those that never were in the text. */
void change_discard(struct session *session, const struct site_list *sites);
/* Takes the probes at the ends of their functions (R9) out of their sites; sites without probes are
 * added to `gone`, which has room (garbage_room). */
void change_release_leaves(struct session *session, const struct tracepoint_list *list,
			   struct site_list *gone);
/* Removes the tracepoints' sites, unless other probes share them. The tracepoints have no sites
 * then, also on failure: what is still in the text is garbage, and the next change tries again. */
struct error *change_release(struct session *session, const struct tracepoint_list *list);
/* Removes guards (traps.h) likewise. */
struct error *change_release_guards(struct session *session);

#endif
