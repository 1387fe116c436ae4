/*
 * journal.h - the requests that were done to a target, to be done again after a crash.
 */
#ifndef DYNTRACE_JOURNAL_H
#define DYNTRACE_JOURNAL_H

#include "control/proc/proc.h"
#include "control/wire/messages.h"

struct request;
struct supervisor;
struct target;

/* Is it noted when it has succeeded? */
bool journal_notes(enum wire_kind kind);
/* A request succeeded; the reply has the names that it made. */
void journal_note(struct target *target, const struct request *request,
		  const struct wire_message *reply);
/* Writes the whole file: the target's head has changed. */
void journal_write(struct target *target);
/* Removes the file and the entries. */
void journal_drop(struct target *target);
/* Removes the file of a process that has gone. */
void journal_forget(const struct supervisor *supervisor, pid_t pid);
/* False: no journal of this process. */
bool journal_read(struct target *target);
/* Adds the pids that have a journal. */
void journal_pids(const struct supervisor *supervisor, struct tids *ret_pids);

#endif
