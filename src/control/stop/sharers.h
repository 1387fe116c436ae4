/*
 * sharers.h - processes that share the target's memory without being its threads (H13).
 *
 * They are children of its threads, and /proc has one list of children per thread: hundreds of
 * files to read. So sharers_look reads them before the target is held.
 *
 * (S8) sharers_take reads them again, unless each thread or process that the machine has made since
 * is known to be no child of the target, and each held thread was looked at or is one of these.
 */
#ifndef DYNTRACE_SHARERS_H
#define DYNTRACE_SHARERS_H

#include "held.h"

/* Prepares sharers_take, before any thread is held. */
void sharers_look(struct stop *stop);

/* With all threads held: seizes the processes that share the memory. *ret_found: it found some,
 * wait for them. */
struct error *sharers_take(struct stop *stop, bool *ret_found);

#endif
