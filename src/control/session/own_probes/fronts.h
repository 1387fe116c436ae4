/*
 * fronts.h - the handlers that the target has for faults see its own addresses (H30).
 *
 * The kernel calls the agent's handler (target/signals/front.c) first, for each of the target's
 * handlers of five signals: those that exist when the first probes are placed, and those that
 * rt_sigaction installs later, where a guard asks the agent. The target's flags and mask stay;
 * for two of the signals plain_loads.h wants more.
 *
 * (H42) The target never sees the agent's handler as its own: it might keep it, and install it when
 * the agent is gone. So handlers are put in front in the stop that places the guards, and given
 * back in the stop that removes them, after all other probes.
 */
#ifndef DYNTRACE_FRONTS_H
#define DYNTRACE_FRONTS_H

#include "own_probes.h"
#include "control/remote/ahead.h"
#include "control/stop/stop.h"

/* Adds the guards to the session's own probes. Call before planner_decide. */
struct error *fronts_add_guards(struct session *session);
/* Chooses a place near `near` for struct dt_fronts, and claims it in `maps`; 0: none is free. */
taddr fronts_find_place(struct maps *maps, taddr near);
/* Adds the call that maps it there (ahead.h). */
void fronts_ahead(struct ahead *list, taddr at);
/* Maps struct dt_fronts by way of a held thread: where dt_control says if that is free. */
struct error *fronts_map(struct session *session, struct stop *stop);
/* Puts the agent's handler in front of the target's, unless that is done: for patch_place (struct
 * patch_also), `data` is the session. */
struct error *fronts_install(void *data, struct stop *stop);
/* If the action that the kernel has for a signal is the one in front: gives the target's own. */
struct error *fronts_own_action(const struct session *session, unsigned signal,
				struct dt_sigaction *action);
/* Of a dead controller's session: ends plain loads (X4), and gives their two signals back, unless
 * the target has handlers of its own for these. fronts_any tells whether that worked. */
struct error *fronts_end_loads(struct session *session);
/* Has the agent's handler been put in front of any handler of the process? */
bool fronts_any(const struct session *session, struct proc *proc);
/* Gives the process its own handlers back. */
struct error *fronts_give_back(const struct session *session, struct proc *proc, struct stop *stop);
/* Adds struct dt_fronts, if it is mapped, to what is to be unmapped. */
struct remote_map_list;
struct error *fronts_list_memory(const struct session *session, struct proc *proc,
				 struct remote_map_list *list);

#endif
