/*
 * start.h - the way into the background.
 *
 * start_background forks. The process that the user started exits only when the daemon listens
 * (start_done) or has failed, so that the next command of a script finds the daemon.
 */
#ifndef DYNTRACE_START_H
#define DYNTRACE_START_H

#include "control/base/error.h"

/* Returns in the daemon only. */
struct error *start_background(void);
/* The daemon listens: stderr goes to the log from now on. In the foreground this does nothing. */
void start_done(void);

#endif
