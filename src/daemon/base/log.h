/*
 * log.h - the daemon's log, on stderr or in a file: one line per message.
 *
 * Never waits: a line that can't be written at once is left out, and the next line says how many
 * were left out before it. Strings are escaped (quote.h). A file of 16 MiB becomes FILE.1, in place
 * of the one before it: the log needs no more than twice that.
 */
#ifndef DYNTRACE_LOG_H
#define DYNTRACE_LOG_H

#include "control/base/error.h"

/* NULL: stderr. */
struct error *log_open(const char *path);
__attribute__((format(printf, 1, 2))) void log_line(const char *format, ...);
int log_fd(void);

#endif
