#include "status_cost.h"

#include <stdlib.h>
#include <string.h>

#include "shared/wire.h"

static struct error *take_process(void *context, const struct wire_message *answer)
{
	struct status_costs *costs = context;
	const char *program = wire_get_text(answer, WIRE_PROGRAM);
	struct status_cost cost = { .pid = wire_get_number(answer, WIRE_PID, 0) };

	if (answer->kind != WIRE_ITEM || !wire_get_number(answer, WIRE_TRACEPOINT_COUNT, 0))
		return NULL;
	cost.program = strdup(program ? program : "");
	if (cost.program && vec_push(&costs->list, cost))
		return NULL;
	free(cost.program);
	return error_new(ERROR_FAILED, "out of memory");
}

static struct error *take_cost(void *context, const struct wire_message *answer)
{
	struct status_costs *costs = context;

	for (size_t i = 0; answer->kind == WIRE_ITEM && i < costs->list.count; i++) {
		struct status_cost *cost = &costs->list.items[i];

		if (cost->pid != wire_get_number(answer, WIRE_PID, 0))
			continue;
		cost->is_known = true;
		cost->cost_ns = wire_get_number(answer, WIRE_COST, 0);
		cost->is_measured = wire_get_number(answer, WIRE_COST_MEASURED, 0);
		cost->reader_ns = wire_get_number(answer, WIRE_READER_NS, 0);
	}
	return NULL;
}

struct error *status_cost_collect(struct client *client, struct status_costs *ret_costs)
{
	struct wire_out *out = client_out(client);

	wire_begin(out, WIRE_PROCESSES, 0);
	wire_end(out);
	struct error *error = client_call(client, take_process, ret_costs);
	if (error || !ret_costs->list.count)
		return error;
	out = client_out(client);
	wire_begin(out, WIRE_TRACEPOINTS, 0);
	wire_number(out, WIRE_COST, 1);
	wire_end(out);
	/* of a worker that doesn't answer, the cost stays unknown */
	error_free(client_call(client, take_cost, ret_costs));
	return NULL;
}

void status_cost_free(struct status_costs *costs)
{
	for (size_t i = 0; i < costs->list.count; i++)
		free(costs->list.items[i].program);
	vec_free(&costs->list);
}
