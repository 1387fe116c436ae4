/*
 * trace_beside.c - trace a process that a daemon or another dyntrace has: check what can be asked,
 * have the tracepoints added, wait, and copy the events.
 */
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
#include "trace_args.h"
#include "trace_heir.h"
#include "trace_question.h"

#define STEP_MS 50
#define DEATH_MS 5000 /* from the end of its connection to the end of its process */

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

/* ---- tracepoints --------------------------------------------------------------------------- */

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
	_cleanup_error_ struct error *error =
		beside->run->has_daemon ? NULL : beside_requests_look_up(beside);

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
		error = beside_requests_add(beside, &trace_args.what.items[i]);
	if (!error && (trace_args.tracer->has_trace || !beside->run->has_daemon))
		error = beside_requests_look_up(beside);
	if (!error && trace_args.tracer->has_trace)
		error = check_trace(beside);
	if (error)
		error_free(beside_requests_remove(beside));
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
			error = beside_requests_note(beside, &message);
	}
	return error;
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
		error = beside_requests_end(beside);
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
