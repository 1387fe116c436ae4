/*
 * start.h - the way into the background.
 *
 * start_background forks; the process that the user started returns only when the daemon answers at
 * its socket (start_done), or has failed (start_failed), so that the next command of a script finds
 * it.
 */
#ifndef DYNTRACE_START_H
#define DYNTRACE_START_H

#include "control/base/error.h"

/* Returns in the daemon; stderr goes to the log from start_done on. */
struct error *start_background(void);
void start_done(void);

#endif
