/*
 * beside_requests.c - ask the controller that has the process already, as any client does: to add
 * tracepoints, to count their hits, to remove them.
 */
#include <stdlib.h>
#include <string.h>
#include <x86intrin.h>

#include "control/base/cleanup.h"
#include "control/base/now.h"
#include "options/commands.h"
#include "options/prototype_options.h"
#include "trace_args.h"
#include "trace_beside.h"

#define STEP_MS 50
#define END_NS 10000000000ULL /* for the daemon to complete the trace of a process that has ended */

static struct wire_out *begin(struct beside *beside, enum wire_kind kind)
{
	struct wire_out *out = client_out(beside->client);

	wire_begin(out, kind, 0);
	if (kind != WIRE_PROCESSES)
		wire_text(out, WIRE_TARGET, beside->target);
	return out;
}

static struct error *finish(struct beside *beside, client_answer_fn answer)
{
	wire_end(client_out(beside->client));
	return client_call(beside->client, answer, beside);
}

/* ---- answers -------------------------------------------------------------------------------- */

/* Notes that the other dyntrace leaves the process to us. */
static bool is_left(struct beside *beside, const struct wire_message *message)
{
	const char *name = message->kind == WIRE_EVENT ? wire_get_text(message, WIRE_EVENT_NAME) :
							 NULL;
	const char *trace = wire_get_text(message, WIRE_OUTPUT);

	if (beside->run->has_daemon || !name || strcmp(name, "yours"))
		return false;
	beside->is_ours = true;
	free(beside->trace);
	beside->trace = trace ? strdup(trace) : NULL;
	return true;
}

struct error *beside_requests_note(void *context, const struct wire_message *answer)
{
	const char *text = answer->kind == WIRE_NOTE ? wire_get_text(answer, WIRE_NOTE_TEXT) : NULL;

	if (text)
		cli_note("%s", text);
	is_left(context, answer);
	return NULL;
}

/* Notes all names that were made, in their order: another session makes the same with them. */
static struct error *take_made(struct beside *beside, const struct wire_message *reply)
{
	struct name_list made = { 0 };
	struct wire_value value;
	bool enough = true;

	for (size_t at = 0; enough && wire_next(reply, &at, &value);) {
		char *name = value.tag == WIRE_MADE ? strdup(value.text) : NULL;

		enough = value.tag != WIRE_MADE || (name && vec_push(&made, name));
	}
	if (enough && vec_push(&beside->made, made))
		return NULL;
	name_list_free(&made);
	return error_new(ERROR_FAILED, "out of memory");
}

static struct error *take_name(void *context, const struct wire_message *answer)
{
	struct beside *beside = context;

	if (answer->kind == WIRE_REPLY)
		return take_made(beside, answer);
	const char *name = answer->kind == WIRE_ITEM ? wire_get_text(answer, WIRE_NAME) : NULL;
	struct own own = { .name = name ? strdup(name) : NULL };

	if (!name)
		return beside_requests_note(context, answer);
	if (own.name && vec_push(&beside->own, own))
		return NULL;
	free(own.name);
	return error_new(ERROR_FAILED, "out of memory");
}

/* Notes what the daemon says of the process. */
static struct error *take_process(void *context, const struct wire_message *answer)
{
	struct beside *beside = context;
	const char *trace = wire_get_text(answer, WIRE_OUTPUT);

	if (is_left(beside, answer))
		return NULL;
	if (answer->kind != WIRE_ITEM ||
	    wire_get_number(answer, WIRE_PID, 0) != (uint64_t)beside->run->proc->pid)
		return NULL;
	beside->is_listed = true;
	if (trace && *trace) {
		free(beside->trace);
		beside->trace = strdup(trace);
	}
	return NULL;
}

/* Notes hits and losses of our tracepoints. */
static struct error *take_counts(void *context, const struct wire_message *answer)
{
	struct beside *beside = context;
	const char *name = answer->kind == WIRE_ITEM ? wire_get_text(answer, WIRE_NAME) : NULL;
	struct own *own = name ? trace_beside_find(beside, name) : NULL;

	if (!own)
		return beside_requests_note(context, answer);
	uint64_t self = wire_get_number(answer, WIRE_SELF, UINT64_MAX);
	own->info = (struct tracepoint_info){
		.lost = wire_get_number(answer, WIRE_LOST, 0),
		.exits_lost = wire_get_number(answer, WIRE_EXITS_LOST, 0),
		.rate = (double)wire_get_number(answer, WIRE_HIT_RATE, 0),
		.has_exit = wire_get_number(answer, WIRE_CALLS, 0) > 0,
		.times = { .calls = wire_get_number(answer, WIRE_CALLS, 0),
			   .total = wire_get_number(answer, WIRE_TOTAL, 0),
			   .durations = wire_get_number(answer, WIRE_DURATIONS, 0),
			   .self = self,
			   .self_known = self != UINT64_MAX,
			   .p50 = wire_get_number(answer, WIRE_P50, 0),
			   .p90 = wire_get_number(answer, WIRE_P90, 0),
			   .p99 = wire_get_number(answer, WIRE_P99, 0),
			   .max = wire_get_number(answer, WIRE_LONGEST, 0) },
	};
	if (!trace_args.tracer->has_trace)
		own->hits = wire_get_number(answer, WIRE_HITS, 0);
	return NULL;
}

/* ---- requests ------------------------------------------------------------------------------- */

static void write_number(struct wire_out *out, enum wire_tag tag, uint64_t value)
{
	if (value)
		wire_number(out, tag, value);
}

struct error *beside_requests_add(struct beside *beside, const struct option_value *value)
{
	static const enum wire_shape shapes[] = { [TRACEPOINT_BARE] = WIRE_BARE,
						  [TRACEPOINT_ENTRY] = WIRE_ENTRY,
						  [TRACEPOINT_FUNCTION] = WIRE_FUNCTION };
	struct wire_out *out = begin(beside, WIRE_ADD);
	char *argument = (char *)trace_args.tracer_argument;

	wire_text(out, WIRE_LOCATION, value->text);
	wire_number(out, WIRE_SHAPE, shapes[trace_begin_kind(value)]);
	wire_text(out, WIRE_NAME, trace_args.name);
	wire_text(out, WIRE_FILTER, trace_args.filter);
	wire_text(out, WIRE_PROTOTYPES, trace_args.prototypes);
	write_number(out, WIRE_FLOATS, floats_size(trace_args.floats));
	write_number(out, WIRE_SYNC, trace_args.sync);
	for (size_t i = 0; i < trace_args.contexts.count; i++)
		wire_text(out, WIRE_CONTEXT_TYPE, trace_args.contexts.items[i].text);
	wire_text(out, WIRE_TRACER, trace_args.tracer->name);
	write_number(out, WIRE_EVERY, trace_args.every);
	write_number(out, WIRE_FIRST, trace_args.first);
	write_number(out, WIRE_RATE, trace_args.rate);
	write_number(out, WIRE_STRING_MAX, trace_args.string_max);
	write_number(out, WIRE_DEREF, trace_args.deref);
	if (beside->output)
		wire_text(out, WIRE_OUTPUT, beside->output);
	struct error *error = client_write_arguments(out, trace_args.tracer->name, &argument,
						     argument != NULL);
	return error ? error : finish(beside, take_name);
}

struct error *beside_requests_look_up(struct beside *beside)
{
	beside->is_listed = false;
	begin(beside, WIRE_PROCESSES);
	return finish(beside, take_process);
}

struct error *beside_requests_remove(struct beside *beside)
{
	struct error *error = NULL;

	if (!beside->run->has_daemon) {
		begin(beside, WIRE_DETACH); /* all at once, and writes their events */
		return finish(beside, beside_requests_note);
	}
	for (size_t i = 0; i < beside->own.count; i++) {
		wire_text(begin(beside, WIRE_REMOVE), WIRE_NAME, beside->own.items[i].name);
		struct error *failed = finish(beside, beside_requests_note);

		if (error)
			error_free(failed);
		else
			error = failed;
	}
	return error;
}

/* The daemon completes the trace of a process that has ended, and forgets the process. */
static struct error *wait_for_trace(struct beside *beside)
{
	uint64_t end = now_ns() + END_NS;
	struct error *error = beside_requests_look_up(beside);

	while (!error && beside->is_listed && now_ns() < end) {
		struct wire_message ignored;
		bool some;

		error = client_next(beside->client, STEP_MS, &ignored, &some);
		if (!error)
			error = beside_requests_look_up(beside);
	}
	return error;
}

struct error *beside_requests_end(struct beside *beside)
{
	beside->until = __rdtsc();
	beside->ended_ns = now_ns();
	begin(beside, WIRE_TRACEPOINTS);
	struct error *error = finish(beside, take_counts);
	struct error *removing = beside_requests_remove(beside);

	if (!error && !removing && beside->run->has_daemon) {
		begin(beside, WIRE_FLUSH);
		error = finish(beside, beside_requests_note);
	}
	/* of a process that has ended there is nothing to ask or to remove */
	if (!proc_is_alive(beside->run->proc) && beside->run->has_daemon) {
		error_free(error);
		error_free(removing);
		return wait_for_trace(beside);
	}
	if (error)
		error_free(removing);
	return error ? error : removing;
}
