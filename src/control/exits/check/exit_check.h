/*
 * exit_check.h - may a function's exit be recorded? (H6)
 *
 * Only if its return address is proven to be at [rsp] on entry, and only its `ret` reads it. Pure.
 */
#ifndef DYNTRACE_EXIT_CHECK_H
#define DYNTRACE_EXIT_CHECK_H

#include "control/elf/frame_rule.h"

/* `address` is the file's; `name` may be NULL. NULL: the exit may be recorded. Otherwise
 * ERROR_REFUSED with the reason. */
struct error *exit_check(const struct symtab *symtab, struct frame_rules *rules, uint64_t address,
			 const char *name);

#endif
