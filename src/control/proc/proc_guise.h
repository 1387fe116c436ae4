/*
 * proc_guise.h - what a process is allowed to do, and what it runs, as one line of text.
 *
 * A pid and a start time survive execve, rights don't (H33). So a permission that was given for a
 * process is good only while its guise is the same: user and group ids, capabilities, whether
 * others may look into it (dumpable), and the file that it runs. Read from
 * /proc/PID/{status,stat,exe} alone, which can't be held up by the process.
 */
#ifndef DYNTRACE_PROC_GUISE_H
#define DYNTRACE_PROC_GUISE_H

#include <stdint.h>
#include <sys/types.h>

#include "control/base/error.h"

#define PROC_GUISE_SIZE 512

struct error *proc_guise_read(pid_t pid, char guise[PROC_GUISE_SIZE]);

/* A number that another execve would change, also one of the same file by the same user: where the
 * kernel has put stack and code. `tid`: a live thread. 0: this user may not know. */
uint64_t proc_guise_generation(pid_t pid, pid_t tid);

#endif
