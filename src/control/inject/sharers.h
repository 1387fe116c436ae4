/*
 * sharers.h - processes that share the target's memory without being its threads (H13).
 */
#ifndef DYNTRACE_INJECT_SHARERS_H
#define DYNTRACE_INJECT_SHARERS_H

#include "held.h"

/* With all threads held: seizes those that share the memory. *ret_found: there were some, wait for them. */
struct error *sharers_take(struct stop *stop, bool *ret_found);

#endif
