#include "trace_beside.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <x86intrin.h>

#include "control/base/cleanup.h"
#include "control/base/now.h"
#include "options/commands.h"
#include "options/prototype_options.h"
#include "trace_args.h"
#include "trace_heir.h"
#include "trace_question.h"

#define STEP_MS 50
#define DEATH_MS 5000 /* from the end of its connection to the end of its process */
#define END_NS 10000000000ULL /* for the daemon to complete the trace of a process that has ended */

static void beside_free(struct beside *beside)
{
	for (size_t i = 0; i < beside->own.count; i++)
		free(beside->own.items[i].name);
	for (size_t i = 0; i < beside->made.count; i++)
		name_list_free(&beside->made.items[i]);
	vec_free(&beside->made);
	vec_free(&beside->own);
	client_close(beside->client);
	trace_dir_free(beside->directory);
	free(beside->trace);
	free(beside->output);
}

static struct error *refuse(const struct trace_run *run, const char *option)
{
	pid_t pid = run->proc->pid;

	if (!run->has_daemon)
		return error_new(ERROR_REFUSED,
				 "%s: not beside the other dyntrace that traces process %d already (leave "
				 "it out, or end that first)",
				 option, pid);
	return error_new(ERROR_REFUSED,
			 "%s: not beside the daemon, which traces process %d already (leave it out, "
			 "use 'dyntrace add %d:LOC', or 'dyntrace detach %d' first)",
			 option, pid, pid, pid);
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
		{ trace_args.snapshot_when, "--snapshot-when" },
		{ trace_args.mode != SESSION_DISCARD, "--mode" },
		{ trace_args.buffer_size != DT_POOL_DEFAULT, "--buffer-size" },
		{ trace_args.limits.max_size, "--max-size" },
		{ trace_args.limits.rotate_ns, "--rotate" },
		{ trace_args.overhead > 0, "--overhead" },
		{ trace_args.only_inside, "--only-inside" },
		{ trace_args.depth_text, "--depth" },
		{ run->opened.count > 1, "several processes" },
	};

	for (size_t i = 0; i < sizeof(own_only) / sizeof(own_only[0]); i++) {
		if (own_only[i].is_given)
			return refuse(run, own_only[i].name);
	}
	return NULL;
}

/* ---- requests ------------------------------------------------------------------------------ */

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct own *)a)->name, ((const struct own *)b)->name);
}

struct own *trace_beside_find(const struct beside *beside, const char *name)
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

		if (!stem || trace_beside_find(beside, stem) ||
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

static struct error *note_answer(void *context, const struct wire_message *answer)
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

static struct error *look_up(struct beside *beside)
{
	beside->is_listed = false;
	begin(beside, WIRE_PROCESSES);
	return finish(beside, take_process);
}

/* Notes hits and losses of our tracepoints. */
static struct error *take_counts(void *context, const struct wire_message *answer)
{
	struct beside *beside = context;
	const char *name = answer->kind == WIRE_ITEM ? wire_get_text(answer, WIRE_NAME) : NULL;
	struct own *own = name ? trace_beside_find(beside, name) : NULL;

	if (!own)
		return note_answer(context, answer);
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

/* Removes all that were added. The first error counts. */
static struct error *remove_all(struct beside *beside)
{
	struct error *error = NULL;

	if (!beside->run->has_daemon) {
		begin(beside, WIRE_DETACH); /* all at once, and writes their events */
		return finish(beside, note_answer);
	}
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

/* The other dyntrace closes the connection if it has a guest already. */
static struct error *greet(struct beside *beside)
{
	pid_t pid = beside->run->proc->pid;
	_cleanup_error_ struct error *error = beside->run->has_daemon ? NULL : look_up(beside);

	if (!error)
		return NULL;
	return error_new(ERROR_REFUSED,
			 "process %d is being traced by two dyntrace already, or the one that traced it "
			 "has just ended (end one of them, or try again; where a daemon has the "
			 "process, any number can trace it: 'dyntraced --daemonize', 'dyntrace attach "
			 "%d')",
			 pid, pid);
}

static struct error *add_all(struct beside *beside)
{
	struct error *error = greet(beside);

	if (error)
		return error;
	beside->since = __rdtsc();
	for (size_t i = 0; i < trace_args.what.count && !error; i++)
		error = add_one(beside, &trace_args.what.items[i]);
	if (!error && (trace_args.tracer->has_trace || !beside->run->has_daemon))
		error = look_up(beside);
	if (!error && trace_args.tracer->has_trace)
		error = check_trace(beside);
	if (error)
		error_free(remove_all(beside));
	if (!error && beside->own.count)
		qsort(beside->own.items, beside->own.count, sizeof(struct own), by_name);
	choose_names(beside);
	beside->begun_ns = now_ns();
	return error;
}

/* ---- recording ----------------------------------------------------------------------------- */

bool trace_beside_is_over(const struct beside *beside)
{
	uint64_t end = beside->begun_ns + (uint64_t)(trace_args.seconds * 1e9);

	return trace_must_stop() || !proc_is_alive(beside->run->proc) ||
	       (trace_args.seconds > 0 && now_ns() >= end);
}

static struct error *wait_for_end(struct beside *beside)
{
	struct wire_message message;
	struct error *error = NULL;
	bool some;

	while (!error && !beside->is_ours && !trace_beside_is_over(beside)) {
		error = client_next(beside->client, STEP_MS, &message, &some);
		if (!error && some)
			error = note_answer(beside, &message);
	}
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

	if (!error && !removing && beside->run->has_daemon) {
		begin(beside, WIRE_FLUSH);
		error = finish(beside, note_answer);
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

/* ---- the trace ----------------------------------------------------------------------------- */

static struct own *find_type(void *context, const struct layout_event *type)
{
	_cleanup_free_ char *stem = strndup(type->name, type->stem);

	return stem ? trace_beside_find(context, stem) : NULL;
}

/* trace_copy.wants */
static uint64_t *find_counter(void *context, const struct layout_event *type)
{
	struct beside *beside = context;
	struct own *own = find_type(context, type);

	if (own)
		beside->copy.lost += trace_heir_lost(beside, type->id);
	return !own ? NULL : type->part == LAYOUT_EXIT ? &own->exits : &own->hits;
}

/* trace_copy.drops */
static size_t find_suffix(void *context, const struct layout_event *type)
{
	const struct own *own = find_type(context, type);

	return own ? own->suffix : 0;
}

static struct error *copy_trace(struct beside *beside)
{
	struct trace_copy *copy = &beside->copy;

	if (!beside->trace)
		return error_new(ERROR_FAILED, "%s has no trace of process %d",
				 beside->run->has_daemon ? "the daemon" : "the other dyntrace",
				 beside->run->proc->pid);
	copy->from = beside->trace;
	copy->to = beside->run->output;
	copy->since = beside->since;
	copy->until = beside->until;
	copy->wants = find_counter;
	copy->drops = find_suffix;
	copy->context = beside;
	for (size_t i = 0; i < beside->own.count; i++)
		copy->lost += beside->own.items[i].info.lost + beside->own.items[i].info.exits_lost;
	trace_will_change(); /* a trace that is there becomes DIR.old */
	struct error *error = trace_copy(copy);
	return error_wrap(error, "cannot copy the events from '%s'", beside->trace);
}

/* ---- summary ------------------------------------------------------------------------------- */

static void print_summary(struct beside *beside)
{
	const struct trace_copy *copy = &beside->copy;
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

/* ---- all of it ------------------------------------------------------------------------------ */

static struct error *connect_to(struct beside *beside)
{
	struct trace_run *run = beside->run;
	struct error *error = run->output ? client_absolute(run->output, &beside->output) : NULL;

	if (error)
		return error;
	return run->has_daemon ? client_connect(NULL, &beside->client) :
				 client_adopt(take_fd(&run->host_fd), "the other dyntrace",
					      &beside->client);
}

/* The other dyntrace has gone away without a word, or is about to. */
static bool is_host_dead(const struct beside *beside)
{
	struct pollfd ended = { .fd = beside->run->host_pidfd, .events = POLLIN };

	return !beside->run->has_daemon && poll(&ended, 1, DEATH_MS) > 0;
}

/* Records until the end, with the other dyntrace or without it. */
static struct error *record(struct beside *beside)
{
	struct error *error = wait_for_end(beside);

	if (!error && !beside->is_ours)
		error = end(beside);
	if (!beside->is_ours && (!error || !is_host_dead(beside)))
		return error;
	error_free(error);
	if (proc_is_alive(beside->run->proc))
		return trace_heir_run(beside);
	beside->until = __rdtsc();
	beside->ended_ns = now_ns();
	return NULL;
}

struct error *trace_beside_run(struct trace_run *run)
{
	_cleanup_(beside_free) struct beside beside = { .run = run };
	struct error *error = check_options(run), *copying = NULL;

	snprintf(beside.target, sizeof(beside.target), "%d", run->proc->pid);
	if (!error)
		error = trace_begin_choose_output(run);
	if (!error)
		error = connect_to(&beside);
	if (!error)
		error = add_all(&beside);
	if (error)
		return error;
	if (!trace_args.quiet)
		cli_note("tracing %s (%d) by the %s that has it: %zu tracepoint%s placed; Ctrl-C "
			 "ends it",
			 run->proc->comm, run->proc->pid,
			 run->has_daemon ? "daemon" : "other dyntrace", beside.own.count,
			 beside.own.count == 1 ? "" : "s");
	error = record(&beside);
	if ((!error || beside.is_heir) && trace_args.tracer->has_trace)
		copying = copy_trace(&beside);
	if (!copying && beside.is_heir)
		copying = trace_heir_tidy(&beside);
	if (error)
		error_free(copying);
	else
		error = copying;
	if (!error && !trace_args.quiet)
		print_summary(&beside);
	return error;
}
