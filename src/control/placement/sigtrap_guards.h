/*
 * sigtrap_guards.h - find `syscall` instructions that might block SIGTRAP or replace its handler
 * (H10). They get guards: probes of ours that ask the agent first.
 *
 * Only reads files.
 */
#ifndef DYNTRACE_SIGTRAP_GUARDS_H
#define DYNTRACE_SIGTRAP_GUARDS_H

#include "plan.h"

struct guard {
	struct module *module;
	uint64_t address; /* of the file */
};

struct guard_list {
	struct guard *items;
	size_t count, room;
};

/* Why a trap in this module is never possible, whatever the process; NULL: it may be possible. */
struct error *sigtrap_guards_module(const struct module *module);

/*
 * Lists the instructions that need a guard, so that SIGTRAP isn't lost: all whose system call is
 * harmful or unknown. If the list can't be complete (no libc), or another module than the libc
 * makes a call that isn't known to be harmless (X10), the result is an error, and the process gets
 * no traps.
 */
struct error *sigtrap_guards_find(struct planner *planner, const struct modules *modules,
				  struct guard_list *ret_list);

/* Is the program alone, with its libc inside (static programs)? Traps there are refused, since such
 * a libc blocks all signals at times. */
bool sigtrap_guards_is_alone(const struct modules *modules);
/*
 * Lists the instructions of such a program that need a guard for plain loads (X9): all whose system
 * call is harmful or unknown. Refuses if code outside of the program's file might make one.
 */
struct error *sigtrap_guards_find_alone(struct planner *planner, const struct modules *modules,
					struct guard_list *ret_list);

/* Why a module loaded later, which gets no guards, rules traps out; NULL: it doesn't. */
struct error *sigtrap_guards_check_later(struct planner *planner, struct module *module);

/* Adds the instructions of the libc and of the program that certainly make that system call to the
 * list, which the caller frees. *ret_complete false: the libc isn't loaded yet. */
struct error *sigtrap_guards_find_call(struct planner *planner, const struct modules *modules,
				       uint64_t number, struct guard_list *list,
				       bool *ret_complete);

#endif
