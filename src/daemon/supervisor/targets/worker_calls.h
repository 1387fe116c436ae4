/*
 * worker_calls.h - what the supervisor asks of a target's worker.
 *
 * (D9) A worker has at most one request of a client's at a time. Of those that wait, root's and
 *      those of the daemon's own user are sent first, so root waits for one request of others at
 *      most. Each is judged again when its turn comes: others may have been done meanwhile.
 * (D13) A worker that replaces another gets what the journal has before any request of a client's:
 *      the request finds the tracepoints that were there.
 * (D15) A request that no worker has seen waits for the next one when the worker dies. One that was
 *      sent fails, because what it asked for may have been done.
 */
#ifndef DYNTRACE_WORKER_CALLS_H
#define DYNTRACE_WORKER_CALLS_H

#include "control/wire/messages.h"

struct request;
struct target;
struct worker_call;

/* Hands the request to the target's worker, at once or when its turn comes; a failure is noted in
 * the request. */
void worker_calls_send(struct target *target, struct request *request);
/* Sends what waits, if its turn has come. */
void worker_calls_go_on(struct target *target);
/* Takes the call that was sent first. */
void worker_calls_take_answered(struct target *target, struct worker_call *ret_call);
/* Sends a call of the supervisor's own: `out` has it, begun with the number target->sequence + 1.
 * `fd`: -1, or goes with it. False: out of memory, and nothing was sent. */
bool worker_calls_send_own(struct target *target, struct wire_out *out, enum wire_kind kind,
			   int fd);
/* Asks whether the process has begun another program: if so, the worker is asked to detach. */
void worker_calls_look(struct target *target);
/* Lets the process go. A target without a worker is gone afterwards. */
void worker_calls_detach(struct target *target);
/* Asks for the next entry of the journal again. */
void worker_calls_replay(struct target *target);

#endif
