/*
 * sigtrap_guards.h - `syscall` instructions that might block SIGTRAP or take its handler away (H10).
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

/* Why there can't be a trap in this module, whatever the process; NULL: there may be. */
struct error *sigtrap_guards_module(const struct module *module);

/*
 * The instructions that need a guard, so that SIGTRAP isn't lost: all in the libc whose system call
 * can do it, or isn't known. If it isn't certain that these are all (no libc, system calls in other
 * modules), that is an error, and there can be no traps.
 */
struct error *sigtrap_guards_find(struct planner *planner, const struct modules *modules,
			  struct guard_list *ret_list);

/* Why there can be no traps any more, now that this one is loaded too; NULL: it doesn't matter. */
struct error *sigtrap_guards_check_later(struct planner *planner, struct module *module);

/* The instructions of the libc that certainly make that system call, behind those in the list,
 * which is the caller's to free. */
struct error *sigtrap_guards_find_call(struct planner *planner, const struct modules *modules,
			       uint64_t number, struct guard_list *list);

#endif
