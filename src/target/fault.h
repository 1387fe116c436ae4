/*
 * fault.h - the target's own actions for signals that we have taken over (fault.c).
 */
#ifndef DYNTRACE_FAULT_H
#define DYNTRACE_FAULT_H

#include "agent_parts.h"

/* rt_sigaction, with those arguments: true if it was about one of ours, and is done. */
bool fault_guard_action(const struct dt_control *control, const uint64_t args[4],
			uint64_t *ret_result);

#endif
