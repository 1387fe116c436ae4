/*
 * request_table.h - what the supervisor does with each kind of request: one table.
 */
#ifndef DYNTRACE_DAEMON_COMMANDS_H
#define DYNTRACE_DAEMON_COMMANDS_H

#include "supervisor.h"

/* Answers it, or hands it on. */
void commands_run(struct request *request);

#endif
