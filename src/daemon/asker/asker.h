/*
 * asker.h - a process that reads the seccomp filters of targets, for workers, which may not.
 *
 * Reading filters needs CAP_SYS_ADMIN, and a process without a filter. A worker has neither, and
 * parses foreign data. So the asker is a process of its own. It opens no file but those of /proc,
 * and takes no data from a target but its filters, and which memory it maps. A child of its own
 * answers each question: who names a process that doesn't stop keeps nobody else waiting.
 *
 * (D12) The supervisor names the process, by a pidfd. Whoever has the other end of the question's
 *       socket, a worker, can only ask again for the same process, or for one that has the same
 *       code of dyntrace's mapped: which that process has forked. It gets what the filters say to
 *       dyntrace's own system calls.
 */
#ifndef DYNTRACE_ASKER_H
#define DYNTRACE_ASKER_H

#include <stdbool.h>
#include <sys/types.h>

#include "control/fence/verdict.h"

/* The process; its socket is descriptor 3. Ends when nobody can ask any more. */
int asker_main(void);

/* The supervisor's end. Hands over a process, and gives the worker's end of a socket for questions
 * about it; -1: the asker is gone, or is too busy. Doesn't wait. */
int asker_hand(int asker, pid_t pid);
/* Is there an asker of root's that listens at the path (systemd)? Its socket, or -1. */
int asker_connect(const char *path);
/* Has the process at the other end ended? */
bool asker_is_gone(int asker);

/* The worker's end. Waits for the answer, some seconds at most. `child`: a process that the target
 * has forked; 0: the target. */
struct error *asker_ask(int fd, pid_t child, struct fence_verdict *ret_verdict);

#endif
