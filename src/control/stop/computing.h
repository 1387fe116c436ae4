/*
 * computing.h - threads that run when a stop of all threads begins.
 *
 * A thread that sleeps has to be woken up to come to its stop, and with many of them that takes
 * most of a stop's time: on a busy machine each waits for a processor. Whoever sleeps misses
 * nothing meanwhile; a thread that computes does.
 *
 * (S16) Where at least half of the threads sleep when the stop begins, a thread that runs is seized
 *      and asked when all that slept stand still. If these don't come to their stop, it never
 *      notices. Threads that run are let go before those that sleep.
 */
#ifndef DYNTRACE_COMPUTING_H
#define DYNTRACE_COMPUTING_H

#include "held.h"

/* Notes which threads run now, before any thread is held, and whether they are spared. A mistake
 * costs nothing but time: a thread may fall asleep or wake up since. */
void computing_look(struct stop *stop);

/* Is it one of them? `hint` makes this cheap where threads are asked for in the list's order. */
bool computing_has(const struct stop *stop, pid_t tid, size_t *hint);

#endif
