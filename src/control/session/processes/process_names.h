/*
 * process_names.h - the name of the process that an event is of.
 *
 * Events are read some time after they happened: the process may execute another program meanwhile,
 * or end. So a name is true from a clock on, and is taken from /proc only while the process runs a
 * program that the session knows.
 */
#ifndef DYNTRACE_PROCESS_NAMES_H
#define DYNTRACE_PROCESS_NAMES_H

#include "control/session/state/session_state.h"

bool process_names_create(struct session *session);
void process_names_free(struct session *session);

/* The process executes a program of that name, from now on. `before`: the name until now. */
void process_names_exec(struct session *session, pid_t pid, const char *before, const char *name);

/* A reader_name_fn; the context is the session. */
void process_names_find(void *context, struct packet *packet);

#endif
