#include "tracepoint_state.h"

#include <assert.h>

bool tracepoint_has_values(const struct tracepoint *tracepoint)
{
	const struct tracer *tracer = tracepoint->tracer;

	return tracer->has_values &&
	       (tracer->kind != TRACER_LTTNG || request_is_typed(tracepoint->request));
}

bool tracepoint_knows_exits(const struct tracepoint *tracepoint)
{
	return tracepoint->tracer->uses_pool || tracepoint->tracer->kind == TRACER_COUNT;
}

const struct tracer *tracepoint_placed_tracer(const struct tracepoint *tracepoint)
{
	assert(!tracepoint->probe.site || !tracepoint->waits);
	return tracepoint->probe.site ? tracepoint->tracer : NULL;
}

bool tracepoint_list_has_trace(const struct tracepoint_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		const struct tracer *tracer = tracepoint_placed_tracer(list->items[i]);

		if (tracer && tracer->has_trace)
			return true;
	}
	return false;
}

bool tracepoint_list_uses_pool(const struct tracepoint_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		const struct tracer *tracer = tracepoint_placed_tracer(list->items[i]);

		if (tracer && tracer->uses_pool)
			return true;
	}
	return false;
}

bool tracepoint_is(const struct tracepoint *tracepoint, enum tracer_kind kind)
{
	const struct tracer *tracer = tracepoint_placed_tracer(tracepoint);

	return tracer && tracer->kind == kind;
}

bool tracepoint_list_uses(const struct tracepoint_list *list, enum tracer_kind kind)
{
	for (size_t i = 0; i < list->count; i++) {
		if (tracepoint_is(list->items[i], kind))
			return true;
	}
	return false;
}
