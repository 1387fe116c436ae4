/*
 * sharers.h - processes that share the target's memory without being its threads (H13).
 *
 * They are children of its threads, and each thread has a list of its own: hundreds of files to
 * read. So that is done before the target is held; and if nobody on the machine has made a thread
 * or a process since, it needn't be done again.
 */
#ifndef DYNTRACE_SHARERS_H
#define DYNTRACE_SHARERS_H

#include "held.h"

/* Before anything is held: what sharers_take may rely on. */
void sharers_look(struct stop *stop);

/* With all threads held: seizes those that share the memory. *ret_found: there were some, wait for
 * them. */
struct error *sharers_take(struct stop *stop, bool *ret_found);

#endif
