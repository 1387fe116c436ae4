#include "status_cost.h"

#include <inttypes.h>
#include <stdio.h>
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

static struct error *take_tracepoint(void *context, const struct wire_message *answer)
{
	struct status_cost *cost = context;

	if (answer->kind != WIRE_ITEM)
		return NULL;
	cost->cost_ns += wire_get_number(answer, WIRE_COST, 0);
	cost->reader_ns = wire_get_number(answer, WIRE_READER_NS, cost->reader_ns);
	return NULL;
}

static struct error *ask(struct client *client, enum wire_kind kind, const char *target,
			 client_answer_fn answer, void *context)
{
	struct wire_out *out = client_out(client);

	wire_begin(out, kind, 0);
	wire_text(out, WIRE_TARGET, target);
	wire_end(out);
	return client_call(client, answer, context);
}

struct error *status_cost_collect(struct client *client, struct status_costs *ret_costs)
{
	struct error *error = ask(client, WIRE_PROCESSES, NULL, take_process, ret_costs);

	for (size_t i = 0; i < ret_costs->list.count && !error; i++) {
		char pid[24];

		snprintf(pid, sizeof(pid), "%" PRIu64, ret_costs->list.items[i].pid);
		error_free(ask(client, WIRE_TRACEPOINTS, pid, take_tracepoint,
			       &ret_costs->list.items[i]));
	}
	return error;
}

void status_cost_free(struct status_costs *costs)
{
	for (size_t i = 0; i < costs->list.count; i++)
		free(costs->list.items[i].program);
	vec_free(&costs->list);
}
