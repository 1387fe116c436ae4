/*
 * status_cost.h - what tracing takes, by process of the daemon: CPU time of the process, by
 * estimate, and of its worker.
 */
#ifndef DYNTRACE_STATUS_COST_H
#define DYNTRACE_STATUS_COST_H

#include <stdbool.h>

#include "client/client.h"
#include "control/base/vec.h"

struct status_cost {
	uint64_t pid;
	char *program;
	bool is_known; /* its worker has answered */
	bool is_measured; /* cost_ns, in the process; else it is at least that */
	uint64_t cost_ns, reader_ns;
};

struct status_costs {
	VEC(struct status_cost) list;
};

/* Asks about all processes that have tracepoints, at once: workers that don't answer cost the time
 * of one. */
struct error *status_cost_collect(struct client *client, struct status_costs *ret_costs);
void status_cost_free(struct status_costs *costs);

#endif
