/*
 * fitness.h - can a held thread be borrowed for remote calls?
 *
 * Yes, if it is stopped, runs 64-bit code, isn't in a restartable sequence (H11) and has room on a
 * stack for a signal frame (sigframe.h).
 */
#ifndef DYNTRACE_FITNESS_H
#define DYNTRACE_FITNESS_H

#include "held.h"

bool fitness_of(struct stop *stop, size_t index);
/* fitness_of with the process's mappings. *ret_top, if not NULL: the top of the room. */
bool fitness_check(struct stop *stop, size_t index, const struct maps *maps, uint64_t *ret_top);
/* Reads the thread's vector state; returns its size, at most FRAME_XSTATE_MAX; 0: unreadable. */
size_t fitness_read_xstate(pid_t tid, uint8_t *to);

#endif
