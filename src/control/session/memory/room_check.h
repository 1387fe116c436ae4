/*
 * room_check.h - refuse to trace where a memory cgroup has no room for it (H17).
 *
 * Reads cgroups only. After the planner has decided: each page with a site counts.
 */
#ifndef DYNTRACE_ROOM_CHECK_H
#define DYNTRACE_ROOM_CHECK_H

#include "control/session/state/session_state.h"

/* The agent's memory, and each page of code with a probe, is the process's own. */
struct error *room_check_target(const struct session *session);
/* The whole buffer is taken at once: the kernel would end us without a word. */
struct error *room_check_own(const struct session *session);

#endif
