/*
 * front.h - the program's own handlers of faults see the program's own addresses (H30).
 */
#ifndef DYNTRACE_FRONT_H
#define DYNTRACE_FRONT_H

#include "handler.h"

/* Shows the program the place that a trampoline stands for. Does nothing for signals elsewhere. */
void front_show(const struct dt_control *control, struct handler_info *info,
		struct handler_context *context);

/* rt_sigaction with those arguments: true if it was for a signal of dt_front, and is done. */
bool front_guard_action(const struct dt_control *control, const uint64_t args[4],
			uint64_t *ret_result);

/* dt_trap_return. */
extern const uint8_t trap_return_entry[] __attribute__((visibility("hidden")));

/* A handler to which front_show has shown another place returns there. */
extern const uint8_t dt_front_return[] __attribute__((visibility("hidden")));

#endif
