/*
 * waiting.h - tracepoints of programs that don't run yet.
 */
#ifndef DYNTRACE_WAITING_H
#define DYNTRACE_WAITING_H

#include "identity.h"

struct profile_requests;
struct request;
struct supervisor;

/* Keeps the request for every process of that name that comes. */
struct error *waiting_add(struct supervisor *supervisor, const struct request *request,
			  const char *program);
/* A process has begun: places what waits for it. `request`: NULL, or ends when that is done. */
void waiting_process(struct supervisor *supervisor, pid_t pid, struct request *request);
/* Sends the tracepoints that wait for the program as items; gives their number. */
size_t waiting_list(struct supervisor *supervisor, struct request *request, const char *program);
/* Removes those of the user that the pattern names, root those of all users; gives their number.
 * *ret_others: such of other users, which stay. */
size_t waiting_remove(struct supervisor *supervisor, const struct identity *who,
		      const char *program, const char *pattern, size_t *ret_others);
/* Keeps the tracepoints of profiles for every process that comes, and places them in those that run
 * already and haven't got them (D18). */
void waiting_add_profiles(struct supervisor *supervisor, const struct profile_requests *requests);
/* Reads those that an earlier supervisor kept. */
void waiting_read(struct supervisor *supervisor);
void waiting_free(struct supervisor *supervisor);

#endif
