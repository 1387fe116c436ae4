/*
 * interrupt.h - does the user want this process to end?
 *
 * Long work asks from time to time, leaves everything as it was, and returns the error. A process
 * whose handlers never request anything (a daemon's worker) is never interrupted.
 */
#ifndef DYNTRACE_INTERRUPT_H
#define DYNTRACE_INTERRUPT_H

#include <stdbool.h>

#include "error.h"

/* Only sets a flag: for signal handlers. */
void interrupt_request(void);
bool interrupt_requested(void);
/* NULL unless requested. */
__attribute__((warn_unused_result)) struct error *interrupt_check(void);

#endif
