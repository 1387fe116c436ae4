/*
 * prejudge.h - ask a process's filters of system calls while the process runs.
 *
 * Many filters take milliseconds to evaluate, for all calls that dyntrace makes. So one thread is
 * held while its filters are read, and no thread while they are evaluated. A stop that follows
 * finds the answers in proc->answers, if its threads have the same filters then.
 *
 * Only saves time: whatever can't be had is asked in that stop.
 */
#ifndef DYNTRACE_PREJUDGE_H
#define DYNTRACE_PREJUDGE_H

#include "control/proc/proc.h"

void prejudge(struct proc *proc);

#endif
