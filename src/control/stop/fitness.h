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
/* (H10) Has the held thread run into a trap, to whose handler it gets as soon as it is let go? If
 * the controller were killed while the thread is borrowed, the handler might find our registers. A
 * thread of a stopped process gets to no handler: waiting for that is in vain. */
bool fitness_is_trapped(pid_t tid);
/* Reads the thread's vector state; returns its size, at most FRAME_XSTATE_MAX; 0: unreadable. */
size_t fitness_read_xstate(pid_t tid, uint8_t *to);

#endif
