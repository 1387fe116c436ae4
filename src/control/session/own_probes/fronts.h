/*
 * fronts.h - the handlers that the target has for faults see its own addresses (H30).
 *
 * The kernel calls the agent's handler (target/front.c) first, for each of the target's handlers of
 * five signals: those that exist when the agent is mapped, and those that the libc's rt_sigaction
 * installs later, where a guard asks the agent. The target's flags and mask stay. Handlers that the
 * target installs by system calls of its own later see addresses of trampolines.
 */
#ifndef DYNTRACE_FRONTS_H
#define DYNTRACE_FRONTS_H

#include "own_probes.h"
#include "control/stop/stop.h"

/* Adds the guards to the session's own probes. Call before planner_decide. */
struct error *fronts_add_guards(struct session *session);
/* Maps struct dt_fronts by way of a held thread, and puts the agent's handler in front of the
 * target's. */
struct error *fronts_install(struct session *session, struct stop *stop);
/* Has the agent's handler been put in front of any handler? */
bool fronts_any(const struct session *session);
/* Gives the process its own handlers back. */
struct error *fronts_uninstall(const struct session *session, struct proc *proc, struct stop *stop);

#endif
