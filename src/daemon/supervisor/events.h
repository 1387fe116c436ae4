/*
 * events.h - notifications to watchers.
 */
#ifndef DYNTRACE_EVENTS_H
#define DYNTRACE_EVENTS_H

#include <sys/types.h>

#include "control/wire/messages.h"

struct supervisor;
struct target;

#define FAILURES_KEPT 64

/* Recordings that couldn't go on, for clients that ask later. */
struct failures {
	struct failure {
		pid_t pid;
		uint64_t start_time; /* of the process */
		char text[256];
	} items[FAILURES_KEPT]; /* a ring */
	size_t count; /* ever noted */
};

void events_tell(struct supervisor *supervisor, pid_t pid, const char *program, const char *event,
		 const char *detail);
/* Tells of an event at a time in the past; 0: now. */
void events_tell_at(struct supervisor *supervisor, uint64_t ns, pid_t pid, const char *program,
		    const char *event, const char *detail);
/* Passes on an event of the target's worker. */
void events_forward(struct target *target, const struct wire_message *event);
/* Why the recording of that process ended; NULL: it didn't. */
const char *events_failure(const struct supervisor *supervisor, pid_t pid);

#endif
