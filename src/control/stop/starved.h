/*
 * starved.h - threads that are asked to stop, and have no processor to do so (S13).
 */
#ifndef DYNTRACE_STARVED_H
#define DYNTRACE_STARVED_H

#include "held.h"

/* How many times the caller's time is waited in all for such threads. */
#define STARVED_TIMES 15

/* Notes how long the thread has run so far, unless that was noted before. */
void starved_note(struct held *held);
/* Is the thread ready to run, and has run for less than half of that time since starved_note? */
bool starved_is(const struct held *held, uint64_t us);
/* Waits until the thread `tid`, which was asked, is stopped or gone. Nobody else is held. */
struct error *starved_wait(struct stop *stop, pid_t tid, uint64_t deadline_us);

#endif
