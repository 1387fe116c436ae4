/*
 * rseq.h - is a held thread inside a restartable sequence (H11)?
 *
 * The kernel sends a thread that was interrupted inside a sequence to the sequence's abort address
 * when it goes on. If its RIP is elsewhere at that moment, the kernel forgets the abort, and the
 * data that the sequence protects gets corrupted. So such a thread runs no remote call, and is
 * moved to its abort address only.
 */
#ifndef DYNTRACE_RSEQ_H
#define DYNTRACE_RSEQ_H

#include "held.h"

/* *ret_abort (may be NULL) is set if the result is true. */
bool rseq_inside(struct stop *stop, size_t index, taddr *ret_abort);

#endif
