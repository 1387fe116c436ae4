/*
 * trial.h - what our own filters forbid, learnt by trial.
 *
 * A dyntrace inside a container can't read filters, but has those of the container, as its target
 * has. Children of ours make each call of the table once, with arguments that do nothing, and may
 * die of it.
 */
#ifndef DYNTRACE_TRIAL_H
#define DYNTRACE_TRIAL_H

#include "fence.h"

/* Does this process have a filter? */
bool trial_is_due(void);
/* Adds a thread that has our own filters. Takes some 20 ms: not while a thread is held. A call
 * whose trial can't be made counts as forbidden. */
void trial_run(struct fence *fence);

#endif
