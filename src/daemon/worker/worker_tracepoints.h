/*
 * worker_tracepoints.h - requests that change tracepoints.
 */
#ifndef DYNTRACE_WORKER_TRACEPOINTS_H
#define DYNTRACE_WORKER_TRACEPOINTS_H

#include "worker_commands.h"

struct error *worker_tracepoints_add(struct worker *worker, const struct wire_message *message,
				     struct worker_reply *reply);
struct error *worker_tracepoints_remove(struct worker *worker, const struct wire_message *message,
					struct worker_reply *reply);
/* WIRE_ENABLE, WIRE_DISABLE */
struct error *worker_tracepoints_switch(struct worker *worker, const struct wire_message *message,
					struct worker_reply *reply);
struct error *worker_tracepoints_change_context(struct worker *worker,
					     const struct wire_message *message,
					     struct worker_reply *reply);

#endif
