/* report_tell.c - tells the listener of a report of calls. */
#include "report_replay.h"

int64_t report_tell_ns(const struct replay *replay, uint64_t cycles)
{
	return trace_layout_ns(&replay->input->layout, cycles);
}

void report_tell_end(struct replay *replay, enum report_end end, uint32_t function,
		     const struct open_call *call, uint64_t duration)
{
	struct report_listener *listener = replay->report->listener;
	uint64_t children = call ? call->children : duration;
	const struct packet_cursor *cursor = replay->cursor;
	struct report_call told = { .end = end,
				    .function = function,
				    .depth = (uint32_t)replay->stack.count,
				    .duration = duration,
				    .self = duration > children ? duration - children : 0,
				    .head = &cursor->head };

	if (!listener || !listener->end)
		return;
	told.end_ns = report_tell_ns(replay, replay->now);
	told.entry_ns = call ? report_tell_ns(replay, call->cycles) : told.end_ns;
	if (call) {
		told.number = call->number;
		told.entry = call->entry;
		told.entry_type = call->entry_type;
	}
	if (end == CALL_WHOLE || end == CALL_PARTIAL) {
		told.exit = cursor->event;
		told.exit_type = cursor->type;
	}
	listener->end(listener, &told);
}

void report_tell_entry(struct replay *replay, const struct open_call *call)
{
	struct report_listener *listener = replay->report->listener;

	if (listener && listener->enter)
		listener->enter(
			listener,
			&(struct report_call){ .end = CALL_INSIDE,
					       .function = call->function,
					       .depth = (uint32_t)replay->stack.count,
					       .number = call->number,
					       .entry_ns = report_tell_ns(replay, call->cycles) });
}
