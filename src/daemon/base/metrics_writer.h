/*
 * metrics_writer.h - a process beside the supervisor that writes the file of `dyntraced --metrics`.
 *
 * It has the daemon's own rights, asks the daemon at its socket as any client does, and ends with
 * the daemon. So the supervisor opens no file and waits for nobody (D1 to D4).
 */
#ifndef DYNTRACE_METRICS_WRITER_H
#define DYNTRACE_METRICS_WRITER_H

#include <sys/types.h>

#include "control/base/error.h"

/* Both paths are absolute. */
struct error *metrics_writer_start(const char *socket, const char *path, pid_t *ret_pid);
/* Ends the process (0: none), and removes the file: what it says isn't true any more. */
void metrics_writer_end(pid_t pid, const char *path);

#endif
