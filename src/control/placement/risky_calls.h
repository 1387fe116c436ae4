/*
 * risky_calls.h - find the `syscall` instructions of one module that might block signals or replace
 * their handlers, by the numbers that the code gives them.
 *
 * Only reads files.
 */
#ifndef DYNTRACE_RISKY_CALLS_H
#define DYNTRACE_RISKY_CALLS_H

#include "planner.h"

/* Which risky calls a search wants, and those that it has found. */
struct risky_calls {
	const struct module_view *view;
	bool harmful; /* leave out calls that are known to be harmless */
	bool other; /* a module that is no libc (X10) */
	uint64_t only; /* find this call alone, where it is certain; 0: any */
	struct body body; /* of the last function judged */
	struct branch_targets *branch_targets; /* NULL until needed */
	VEC(uint64_t) list;
};

/* Fills in the list, which the caller frees: with all `syscall` instructions of the module, if
 * nothing else is wanted. Fails where an instruction can't be judged. */
struct error *risky_calls_find(struct risky_calls *search);
/* Might the code make that system call? A look at its bytes. */
bool risky_calls_anywhere(const struct symtab *symtab, uint32_t number);
/* Are there bytes of a `syscall` in the module's code? */
struct error *risky_calls_in_bytes(struct proc *proc, const struct module *module,
				   const struct maps *maps, bool *ret_found);

#endif
