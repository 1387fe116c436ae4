/*
 * target_worker.h - the worker of a target: its start, its socket, its end.
 */
#ifndef DYNTRACE_TARGET_WORKER_H
#define DYNTRACE_TARGET_WORKER_H

#include "target.h"

#define WORKER_QUEUE_MAX (16u << 20) /* bytes that a worker hasn't read */

/* Gives the process's target, with a worker: both are made if need be. */
struct error *target_worker_start(struct supervisor *supervisor, pid_t pid,
				  const struct process *process, uid_t asker,
				  const struct target_mode *mode, struct target **ret_target);
/* Is the process still the one that its requests were allowed for (D5)? ERROR_GONE: it isn't. */
struct error *target_worker_check(const struct target *target);
/* A worker for the target: the one at `fd`, which an earlier supervisor started, or, if that is -1,
 * a new one. */
struct error *target_worker_use(struct target *target, int fd);
/* Tells the loop what to wait for, after something was queued. */
void target_worker_set_events(struct target *target);
/* The worker has ended. The target may be gone afterwards. */
void target_worker_ended(struct target *target);
/* Ends the worker; another one takes over when it has ended. The target may be gone afterwards. */
void target_worker_end(struct target *target);
/* The worker says what no worker of ours says: it is ended. `why` goes on after "its worker". */
void target_worker_distrust(struct target *target, const char *why);

/* How long the worker has waited for a processor, in ns since it began; 0: unknown. */
uint64_t target_worker_queued(const struct target *target);
/* By its last WIRE_START or WIRE_STOP; by the daemon's own state without one. */
bool target_worker_is_recording(const struct target *target);

#endif
