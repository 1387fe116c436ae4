/*
 * worker_list.h - the tracepoints of a target, for list-tracepoints.
 */
#ifndef DYNTRACE_WORKER_LIST_H
#define DYNTRACE_WORKER_LIST_H

#include "worker.h"

/* Sends one item per tracepoint. */
struct error *worker_list(struct worker *worker, const struct wire_message *message);

#endif
