/*
 * fault.h - the target's own actions for the signals of dt_fault (fault.c).
 */
#ifndef DYNTRACE_FAULT_H
#define DYNTRACE_FAULT_H

#include "target/agent_parts.h"

/* rt_sigaction with those arguments: true if it was for a signal of dt_fault, and is done. */
bool fault_guard_action(const struct dt_control *control, const uint64_t args[4],
			uint64_t *ret_result);

#endif
