/*
 * exit_check.h - may a function's exit be recorded? (H6)
 *
 * Only where it is proven that its return address is at [rsp] when it is entered, and that nobody
 * but its `ret` looks at it. Pure.
 */
#ifndef DYNTRACE_EXIT_CHECK_H
#define DYNTRACE_EXIT_CHECK_H

#include "control/elf/frame_rule.h"

/* Address of the file; the name may be NULL. NULL: it may. Else ERROR_REFUSED with the reason. */
struct error *exit_check(const struct symtab *symtab, struct frame_rules *rules, uint64_t address,
			 const char *name);

#endif
