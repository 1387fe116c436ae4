#include "run_merge.h"

#include <assert.h>
#include <stdlib.h>

void run_merge_free(struct run_merge *merge)
{
	for (size_t i = 0; i < merge->readings.count; i++) {
		packet_cursor_free(&merge->readings.items[i]->cursor);
		free(merge->readings.items[i]);
	}
	vec_free(&merge->readings);
}

void run_merge_begin(struct run_merge *merge, const struct trace_input *input, size_t run)
{
	uint64_t end = input->runs.items[run].end;

	assert(run < input->runs.count);
	merge->input = input;
	merge->next = run;
	merge->open = 0;
	merge->given = NULL;
	merge->done = 0;
	for (run++; run < input->runs.count && !trace_input_is_new_thread(input, run) &&
		    input->runs.items[run].begin < end;
	     run++)
		end = input->runs.items[run].end > end ? input->runs.items[run].end : end;
	merge->end = run;
}

/* The clock of the item that was given last. */
static uint64_t clock_of(const struct run_reading *reading)
{
	return reading->item == CURSOR_EVENT ? reading->cursor.cycles : reading->cursor.lost_begin;
}

/* The open run whose item is the earliest; the first of them if several are. */
static size_t earliest(const struct run_merge *merge)
{
	size_t best = 0;

	for (size_t i = 1; i < merge->open; i++) {
		if (clock_of(merge->readings.items[i]) < clock_of(merge->readings.items[best]))
			best = i;
	}
	return best;
}

/* Reads on, and closes the run at its end. The last open run takes its place. */
static void advance(struct run_merge *merge, size_t at)
{
	struct run_reading *reading = merge->readings.items[at];

	reading->item = packet_cursor_next(&reading->cursor);
	if (reading->item != CURSOR_END)
		return;
	merge->done += reading->cursor.to - reading->from;
	merge->open--;
	merge->readings.items[at] = merge->readings.items[merge->open];
	merge->readings.items[merge->open] = reading;
}

static bool open_run(struct run_merge *merge)
{
	const struct trace_run *run = &merge->input->runs.items[merge->next];

	if (merge->open == merge->readings.count) {
		struct run_reading *more = calloc(1, sizeof(*more));

		if (!more || !packet_cursor_begin(&more->cursor) ||
		    !vec_push(&merge->readings, more)) {
			if (more)
				packet_cursor_free(&more->cursor);
			free(more);
			return false;
		}
	}
	struct run_reading *reading = merge->readings.items[merge->open];
	trace_input_run(merge->input, merge->next, &reading->cursor);
	reading->from = run->from;
	merge->next++;
	merge->open++;
	advance(merge, merge->open - 1);
	return true;
}

enum cursor_item run_merge_next(struct run_merge *merge, struct packet_cursor **ret_cursor)
{
	size_t at = 0;

	while (merge->given && at < merge->open && merge->readings.items[at] != merge->given)
		at++;
	if (merge->given && at < merge->open)
		advance(merge, at);
	merge->given = NULL;
	while (merge->next < merge->end &&
	       (!merge->open || merge->input->runs.items[merge->next].begin <=
					clock_of(merge->readings.items[earliest(merge)]))) {
		if (!open_run(merge))
			return CURSOR_DAMAGED;
	}
	if (!merge->open)
		return CURSOR_END;
	merge->given = merge->readings.items[earliest(merge)];
	*ret_cursor = &merge->given->cursor;
	return merge->given->item;
}

uint64_t run_merge_bytes(const struct run_merge *merge)
{
	const struct packet_cursor *cursor = merge->given ? &merge->given->cursor : NULL;

	return merge->done + (cursor ? cursor->window_at + cursor->next - merge->given->from : 0);
}
