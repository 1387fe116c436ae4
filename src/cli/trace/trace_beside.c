#include "trace_beside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <x86intrin.h>

#include "client/client.h"
#include "control/base/cleanup.h"
#include "control/base/now.h"
#include "control/ctf/read/trace_copy.h"
#include "options/commands.h"
#include "trace_args.h"
#include "trace_question.h"

#define STEP_MS 50
#define END_NS 10000000000ULL /* for the daemon to complete the trace of a process that has ended */

/* A tracepoint of ours. Another tracepoint may have had the name that it would have alone: then
 * `suffix` bytes at the end of its name, such as "-2", aren't shown. */
struct own {
	char *name;
	size_t suffix;
	uint64_t hits, exits;
	struct tracepoint_info info; /* the rest, as the daemon tells it */
};

struct beside {
	struct trace_run *run;
	struct client *client;
	char target[16];
	VEC(struct own) own; /* by name, once all are there */
	char *trace; /* the daemon's; NULL: none yet */
	bool is_listed; /* the daemon knows the process */
	uint64_t since, until; /* clocks */
	uint64_t begun_ns, ended_ns; /* of CLOCK_MONOTONIC */
};

static void beside_free(struct beside *beside)
{
	for (size_t i = 0; i < beside->own.count; i++)
		free(beside->own.items[i].name);
	vec_free(&beside->own);
	client_close(beside->client);
	free(beside->trace);
}

/* Fails for options that mean something to a session of our own only. */
static struct error *check_options(const struct trace_run *run)
{
	const struct {
		bool is_given;
		const char *name;
	} own_only[] = {
		{ trace_args.print, "--print" },
		{ trace_args.explain, "--explain" },
		{ trace_question_asked(), "--by and --of" },
		{ trace_args.wait, "--wait" },
		{ trace_args.follow_exec, "--follow-exec" },
		{ trace_args.follow_daemons, "--follow-daemons" },
		{ trace_args.no_follow_fork, "--no-follow-fork" },
		{ trace_args.no_suspend, "--no-suspend" },
		{ trace_args.mode != SESSION_DISCARD, "--mode" },
		{ trace_args.buffer_size != DT_POOL_DEFAULT, "--buffer-size" },
		{ run->opened.count > 1, "several processes" },
	};

	for (size_t i = 0; i < sizeof(own_only) / sizeof(own_only[0]); i++) {
		if (own_only[i].is_given)
			return error_new(ERROR_REFUSED,
					 "%s: not beside the daemon, which traces process %d already "
					 "(leave it out, use 'dyntrace add %d:LOC', or 'dyntrace "
					 "detach %d' first)",
					 own_only[i].name, run->proc->pid, run->proc->pid,
					 run->proc->pid);
	}
	return NULL;
}

/* ---- requests -------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct own *)a)->name, ((const struct own *)b)->name);
}

static struct own *find_own(const struct beside *beside, const char *name)
{
	const struct own key = { .name = (char *)name };

	return beside->own.count ? bsearch(&key, beside->own.items, beside->own.count, sizeof(key),
					   by_name) :
				   NULL;
}

/* Length of "-2" at the end of the name; 0: there is none. */
static size_t suffix_of(const char *name)
{
	size_t length = strlen(name), digits = 0;

	while (digits < length && strchr("0123456789", name[length - digits - 1]))
		digits++;
	return digits && digits + 1 < length && name[length - digits - 1] == '-' ? digits + 1 : 0;
}

/* Two of ours keep their different names. */
static void choose_names(struct beside *beside)
{
	for (size_t i = 0; i < beside->own.count && !trace_args.name; i++) {
		struct own *own = &beside->own.items[i], *before = i ? own - 1 : NULL;
		size_t suffix = suffix_of(own->name), length = strlen(own->name) - suffix;
		_cleanup_free_ char *stem = suffix ? strndup(own->name, length) : NULL;

		if (!stem || find_own(beside, stem) ||
		    (before && before->suffix && !strncmp(before->name, stem, length) &&
		     strlen(before->name) - before->suffix == length))
			continue;
		own->suffix = suffix;
	}
}

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

static struct error *note_answer(void *context, const struct wire_message *answer)
{
	const char *text = answer->kind == WIRE_NOTE ? wire_get_text(answer, WIRE_NOTE_TEXT) : NULL;

	(void)context;
	if (text)
		cli_note("%s", text);
	return NULL;
}

static struct error *take_name(void *context, const struct wire_message *answer)
{
	struct beside *beside = context;
	const char *name = answer->kind == WIRE_ITEM ? wire_get_text(answer, WIRE_NAME) : NULL;
	struct own own = { .name = name ? strdup(name) : NULL };

	if (!name)
		return note_answer(context, answer);
	if (own.name && vec_push(&beside->own, own))
		return NULL;
	free(own.name);
	return error_new(ERROR_FAILED, "out of memory");
}

static void write_number(struct wire_out *out, enum wire_tag tag, uint64_t value)
{
	if (value)
		wire_number(out, tag, value);
}

static struct error *add_one(struct beside *beside, const struct option_value *value)
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
	for (size_t i = 0; i < trace_args.contexts.count; i++)
		wire_text(out, WIRE_CONTEXT_TYPE, trace_args.contexts.items[i].text);
	wire_text(out, WIRE_TRACER, trace_args.tracer->name);
	write_number(out, WIRE_EVERY, trace_args.every);
	write_number(out, WIRE_FIRST, trace_args.first);
	write_number(out, WIRE_RATE, trace_args.rate);
	write_number(out, WIRE_STRING_MAX, trace_args.string_max);
	struct error *error = client_write_arguments(out, trace_args.tracer->name, &argument,
						     argument != NULL);
	return error ? error : finish(beside, take_name);
}

/* Notes what the daemon says of the process. */
static struct error *take_process(void *context, const struct wire_message *answer)
{
	struct beside *beside = context;
	const char *trace = wire_get_text(answer, WIRE_OUTPUT);

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

static struct error *look_up(struct beside *beside)
{
	beside->is_listed = false;
	begin(beside, WIRE_PROCESSES);
	return finish(beside, take_process);
}

/* Notes hits and losses of our tracepoints. */
static struct error *take_counts(void *context, const struct wire_message *answer)
{
	const struct beside *beside = context;
	const char *name = answer->kind == WIRE_ITEM ? wire_get_text(answer, WIRE_NAME) : NULL;
	struct own *own = name ? find_own(beside, name) : NULL;

	if (!own)
		return NULL;
	uint64_t self = wire_get_number(answer, WIRE_SELF, UINT64_MAX);
	own->info = (struct tracepoint_info){
		.lost = wire_get_number(answer, WIRE_LOST, 0),
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

/* Removes all that were added. The first error counts. */
static struct error *remove_all(struct beside *beside)
{
	struct error *error = NULL;

	for (size_t i = 0; i < beside->own.count; i++) {
		wire_text(begin(beside, WIRE_REMOVE), WIRE_NAME, beside->own.items[i].name);
		struct error *failed = finish(beside, note_answer);

		if (error)
			error_free(failed);
		else
			error = failed;
	}
	return error;
}

/* The daemon makes a trace with the rights of its first user. */
static struct error *check_trace(const struct beside *beside)
{
	pid_t pid = beside->run->proc->pid;

	if (!beside->trace || !access(beside->trace, R_OK | X_OK))
		return NULL;
	return error_new(ERROR_NOT_PERMITTED,
			 "process %d is recorded in %s, which isn't yours to read ('--tracer count' "
			 "needs no trace; 'dyntrace detach %d' ends that one)",
			 pid, beside->trace, pid);
}

static struct error *add_all(struct beside *beside)
{
	struct error *error = NULL;

	beside->since = __rdtsc();
	for (size_t i = 0; i < trace_args.what.count && !error; i++)
		error = add_one(beside, &trace_args.what.items[i]);
	if (!error && trace_args.tracer->has_trace)
		error = look_up(beside);
	if (!error)
		error = check_trace(beside);
	if (error)
		error_free(remove_all(beside));
	if (!error && beside->own.count)
		qsort(beside->own.items, beside->own.count, sizeof(struct own), by_name);
	choose_names(beside);
	beside->begun_ns = now_ns();
	return error;
}

/* ---- recording ------------------------------------------------------------------------------- */

static struct error *wait_for_end(struct beside *beside)
{
	uint64_t end = beside->begun_ns + (uint64_t)(trace_args.seconds * 1e9);
	struct wire_message ignored;
	struct error *error = NULL;
	bool some;

	while (!error && !trace_must_stop() && proc_is_alive(beside->run->proc) &&
	       (!(trace_args.seconds > 0) || now_ns() < end))
		error = client_next(beside->client, STEP_MS, &ignored, &some);
	return error;
}

/* The daemon completes the trace of a process that has ended, and forgets the process. */
static struct error *wait_for_trace(struct beside *beside)
{
	uint64_t end = now_ns() + END_NS;
	struct error *error = look_up(beside);

	while (!error && beside->is_listed && now_ns() < end) {
		struct wire_message ignored;
		bool some;

		error = client_next(beside->client, STEP_MS, &ignored, &some);
		if (!error)
			error = look_up(beside);
	}
	return error;
}

/* Reads the counts, takes the tracepoints out, and has all events written. */
static struct error *end(struct beside *beside)
{
	beside->until = __rdtsc();
	beside->ended_ns = now_ns();
	begin(beside, WIRE_TRACEPOINTS);
	struct error *error = finish(beside, take_counts);
	struct error *removing = remove_all(beside);

	if (!error && !removing) {
		begin(beside, WIRE_FLUSH);
		error = finish(beside, note_answer);
	}
	if (!proc_is_alive(beside->run->proc)) { /* then there is nothing to ask or to remove */
		error_free(error);
		error_free(removing);
		return wait_for_trace(beside);
	}
	if (error)
		error_free(removing);
	return error ? error : removing;
}

/* ---- the trace ------------------------------------------------------------------------------- */

static struct own *find_type(void *context, const struct layout_event *type)
{
	_cleanup_free_ char *stem = strndup(type->name, type->stem);

	return stem ? find_own(context, stem) : NULL;
}

/* trace_copy.wants */
static uint64_t *find_counter(void *context, const struct layout_event *type)
{
	struct own *own = find_type(context, type);

	return !own ? NULL : type->part == LAYOUT_EXIT ? &own->exits : &own->hits;
}

/* trace_copy.drops */
static size_t find_suffix(void *context, const struct layout_event *type)
{
	const struct own *own = find_type(context, type);

	return own ? own->suffix : 0;
}

static struct error *copy_trace(struct beside *beside, struct trace_copy *copy)
{
	if (!beside->trace)
		return error_new(ERROR_FAILED, "the daemon has no trace of process %d",
				 beside->run->proc->pid);
	copy->from = beside->trace;
	copy->to = beside->run->output;
	copy->since = beside->since;
	copy->until = beside->until;
	copy->wants = find_counter;
	copy->drops = find_suffix;
	copy->context = beside;
	for (size_t i = 0; i < beside->own.count; i++)
		copy->lost += beside->own.items[i].info.lost;
	trace_will_change(); /* a trace that is there becomes DIR.old */
	struct error *error = trace_copy(copy);
	return error_wrap(error, "cannot copy the events from the daemon's trace");
}

/* ---- summary --------------------------------------------------------------------------------- */

static void print_summary(struct beside *beside, const struct trace_copy *copy)
{
	size_t count = beside->own.count;
	_cleanup_free_ struct tracepoint_info *infos = calloc(count + 1, sizeof(*infos));
	struct session_summary summary = { .totals = { .events = copy->events,
						       .lost = copy->lost,
						       .bytes = copy->bytes },
					   .recorded_ns = beside->ended_ns - beside->begun_ns };

	for (size_t i = 0; i < count && infos; i++) {
		struct own *own = &beside->own.items[i];

		own->name[strlen(own->name) - own->suffix] = '\0';
		infos[i] = own->info;
		infos[i].name = own->name;
		infos[i].tracer = trace_args.tracer->name;
		infos[i].hits = own->hits;
	}
	summary_print_infos(infos, infos ? count : 0, &summary,
			    trace_args.tracer->has_trace ? beside->run->output : NULL,
			    &trace_args.summary);
}

struct error *trace_beside_run(struct trace_run *run)
{
	_cleanup_(beside_free) struct beside beside = { .run = run };
	struct trace_copy copy = { 0 };
	struct error *error = check_options(run);

	snprintf(beside.target, sizeof(beside.target), "%d", run->proc->pid);
	if (!error)
		error = trace_begin_choose_output(run);
	if (!error)
		error = client_connect(NULL, &beside.client);
	if (!error)
		error = add_all(&beside);
	if (error)
		return error;
	if (!trace_args.quiet)
		cli_note("tracing %s (%d) by the daemon that has it: %zu tracepoint%s placed; "
			 "Ctrl-C ends it",
			 run->proc->comm, run->proc->pid, beside.own.count,
			 beside.own.count == 1 ? "" : "s");
	error = wait_for_end(&beside);
	if (!error)
		error = end(&beside);
	if (!error && trace_args.tracer->has_trace)
		error = copy_trace(&beside, &copy);
	if (!error && !trace_args.quiet)
		print_summary(&beside, &copy);
	return error;
}
