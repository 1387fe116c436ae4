/*
 * request_targets.h - the processes that a request names, and their workers.
 */
#ifndef DYNTRACE_REQUEST_TARGETS_H
#define DYNTRACE_REQUEST_TARGETS_H

#include <stdbool.h>

#include "control/proc/proc.h"

struct request;
struct supervisor;

/* A TARGET that is a pid, not a name. */
bool request_targets_is_pid(const char *text);
/* Adds the targets that are called `name`. */
void request_targets_find(const struct supervisor *supervisor, const char *name,
			  struct tids *ret_pids);
/* Hands the request to the workers of the processes that WIRE_TARGET names. `starts`: a process
 * without the agent gets it. */
void request_targets_ask(struct request *request, bool starts);
/* The same for a process whose worker has ended before the request's turn came. */
void request_targets_ask_again(struct request *request, pid_t pid);
/* Without a WIRE_TARGET: to all workers, as far as the client may. */
void request_targets_ask_all(struct request *request);

#endif
