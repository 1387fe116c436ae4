/*
 * trace_keeper.h - keepers for the files of a target: of its trace, and of logs.
 */
#ifndef DYNTRACE_TRACE_KEEPER_H
#define DYNTRACE_TRACE_KEEPER_H

#include "control/base/error.h"

struct request;
struct target;

/* The keeper that a WIRE_ADD needs; -1: none. */
struct error *trace_keeper_for(struct target *target, const struct request *request, int *ret_fd);
/* The keeper of the trace that a dead worker left, for the next; -1: none. */
int trace_keeper_again(struct target *target);

#endif
