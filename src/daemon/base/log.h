/*
 * log.h - the daemon's log: a line each, on stderr or in a file.
 *
 * Never waits: a line that can't be written at once is left out, and the next that can says how
 * many were. Bytes that could act on a terminal are written as '?'.
 */
#ifndef DYNTRACE_LOG_H
#define DYNTRACE_LOG_H

#include "control/base/error.h"

/* NULL: stderr. */
struct error *log_open(const char *path);
__attribute__((format(printf, 1, 2))) void log_line(const char *format, ...);
int log_fd(void);

#endif
