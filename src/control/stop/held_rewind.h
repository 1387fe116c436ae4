/*
 * held_rewind.h - begin anew the system call that a stop interrupted, where the kernel wouldn't
 * restart it by itself, or must not (S5).
 */
#ifndef DYNTRACE_HELD_REWIND_H
#define DYNTRACE_HELD_REWIND_H

#include "held.h"

/* Remembers what the verdict over the process's filters, if there is one, says to restarts. */
void held_rewind_note_verdict(const struct proc *proc);
/* Rewinds the call of a thread that has stopped, if need be. At once, not at release: a controller
 * killed in between then leaves no EINTR behind. */
void held_rewind_call(struct stop *stop, size_t index);
/* Rewinds the call of a thread that stops when its stop was given up. Runs in a signal handler:
 * only ptrace. */
void held_rewind_late(pid_t tid);
/* Lets a rewound call end with EINTR after all, if a signal with a handler came meanwhile. */
void held_rewind_undo(struct stop *stop, size_t index);

#endif
