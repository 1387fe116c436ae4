#include "trace_begin.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <wordexp.h>

#include "control/base/cleanup.h"
#include "control/base/plain_text.h"
#include "control/base/quote.h"
#include "control/session/budget/budget.h"
#include "control/session/follow_exec/follow_exec.h"
#include "leftovers.h"
#include "old_trace.h"
#include "options/commands.h"
#include "options/prototype_options.h"
#include "trace_args.h"
#include "trace_peer.h"
#include "trace_snapshot.h"

#define PRINT_MS 20
#define SAME_SECOND_MAX 1000u /* traces of one program that begin in one second */

/* ---- target --------------------------------------------------------------------------------- */

/* Splits -c "COMMAND ARGS" into words as a shell does, without its operators, and starts it. */
static struct error *launch_line(const char *line, struct launch **ret_launch)
{
	wordexp_t words;
	struct error *error;

	switch (wordexp(line, &words, WRDE_NOCMD)) {
	case 0:
		break;
	case WRDE_NOSPACE:
		return error_new(ERROR_FAILED, "out of memory");
	case WRDE_SYNTAX:
		return error_new(ERROR_USAGE, "-c: unbalanced quotes in '%s'", line);
	default:
		return error_new(
			ERROR_USAGE,
			"-c takes one command (for '|', ';', '>', '$(' and the like use -- sh -c '...')");
	}
	if (words.we_wordc)
		error = launch_start(words.we_wordv, ret_launch);
	else
		error = error_new(ERROR_USAGE, "-c: no command");
	wordfree(&words);
	return error;
}

/* Cleans up after a dyntrace that traced this process and was killed. */
static struct error *clean_leftovers(struct proc *proc)
{
	struct takeover takeover = { 0 };
	struct error *error = takeover_clean(proc, &takeover);

	if (!error)
		leftovers_note(proc, &takeover);
	if (!error && takeover.left)
		cli_note("%s", takeover.why);
	return error;
}

static bool has_tracer(const struct trace_run *run)
{
	return run->has_daemon || run->host_fd >= 0;
}

/* Looks for one that has the process already, and takes requests. */
static void find_tracer(struct trace_run *run)
{
	pid_t controller = takeover_controller(run->proc, &run->has_daemon);

	if (controller && !run->has_daemon && run->opened.count == 1)
		run->host_fd = trace_peer_connect(controller, &run->host_pidfd);
}

/* Has just this process ended, while others are there? */
static bool has_others(const struct trace_run *run, const struct error *error)
{
	return error && error_kind(error) == ERROR_GONE && run->opened.count > 1;
}

struct error *trace_begin_open(const struct words *words, struct trace_run *run)
{
	struct error *error;

	if (trace_args.targets.count) {
		error = trace_targets_open(&run->opened);
		for (size_t i = 0; i < run->opened.count; i++)
			run->opened.items[i]->may_suspend = !trace_args.no_suspend;
		for (size_t i = 0; i < run->opened.count && !error && !has_tracer(run); i++) {
			run->proc = run->opened.items[i];
			find_tracer(run);
			if (!has_tracer(run))
				error = clean_leftovers(run->proc);
			if (has_others(run, error)) /* trace_begin_record passes it over */
				error = (error_free(error), NULL);
		}
		if (run->opened.count && !has_tracer(run))
			run->proc = run->opened.items[0];
		return error;
	}
	if (trace_args.command)
		error = launch_line(trace_args.command, &run->launch);
	else
		error = launch_start(words->rest, &run->launch);
	if (error)
		return error;
	run->proc = launch_proc(run->launch);
	run->proc->may_suspend = !trace_args.no_suspend;
	return NULL;
}

/* ---- directory of the trace ------------------------------------------------------------------ */

struct error *trace_begin_check_output(void)
{
	struct stat st;

	if (!trace_args.output || lstat(trace_args.output, &st))
		return NULL;
	if (!old_trace_is_one(trace_args.output))
		return error_new(ERROR_FAILED,
				 "%s: exists already, and is no complete trace (name another directory)",
				 trace_args.output);
	return old_trace_check(trace_args.output);
}

/* The executable's file name, or comm if the program was started through a link of another name
 * (redis-server is a link to redis-check-rdb). */
static const char *program_name(const struct proc *proc)
{
	const char *slash = strrchr(proc->exe, '/'), *comm = proc->comm;

	if (!slash || !slash[1])
		return comm;
	return strncmp(slash + 1, comm, strlen(comm)) == 0 || !*comm || strpbrk(comm, "/ \t\n") ?
		       slash + 1 :
		       comm;
}

struct error *trace_begin_choose_output(struct trace_run *run)
{
	char date[32];
	time_t now = time(NULL);
	struct tm tm;

	if (!trace_args.tracer->has_trace)
		return NULL;
	if (trace_args.output) {
		run->output = strdup(trace_args.output);
		return run->output ? NULL : error_new(ERROR_FAILED, "out of memory");
	}
	strftime(date, sizeof(date), "%Y%m%d-%H%M%S", localtime_r(&now, &tm));
	for (unsigned number = 1; number < SAME_SECOND_MAX; number++) {
		struct strbuf name = { 0 }; /* no file name that acts on a terminal */
		struct stat st;

		quote_format(&name, "./%s-%s", program_name(run->proc), date);
		if (number > 1)
			quote_format(&name, "-%u", number);
		text_add(&name, ".dyntrace");
		free(run->output);
		run->output = name.text;
		if (name.failed)
			return error_new(ERROR_FAILED, "out of memory");
		if (lstat(run->output, &st))
			break;
	}
	return NULL;
}

/* ---- session -------------------------------------------------------------------------------- */

enum tracepoint_kind trace_begin_kind(const struct option_value *value)
{
	enum tracepoint_kind kind = (enum tracepoint_kind)value->option->tag;

	return kind == TRACEPOINT_ENTRY && trace_args.exit ? TRACEPOINT_FUNCTION : kind;
}

struct tracepoint_spec trace_begin_spec(const struct option_value *value)
{
	for (size_t i = 0; i < trace_args.contexts.count; i++)
		trace_args.context_types[i] = trace_args.contexts.items[i].text;
	return (struct tracepoint_spec){ .location = value->text,
					 .wait = trace_args.wait,
					 .kind = trace_begin_kind(value),
					 .name = trace_args.name,
					 .tracer = trace_args.tracer_name,
					 .tracer_argument = trace_args.tracer_argument,
					 .filter = trace_args.filter,
					 .contexts = trace_args.context_types,
					 .context_count = trace_args.contexts.count,
					 .every = trace_args.every,
					 .first = trace_args.first,
					 .rate = trace_args.rate,
					 .string_max = (uint32_t)trace_args.string_max,
					 .deref = (uint32_t)trace_args.deref,
					 .prototypes = trace_args.prototypes,
					 .floats = floats_size(trace_args.floats),
					 .sync = trace_args.sync,
					 .by = trace_args.question.by,
					 .of = trace_args.question.of,
					 .keys = (uint32_t)trace_args.question.keys };
}

static void print_note(void *context, const char *line)
{
	(void)context;
	cli_note("%s", line);
}

/* The caller's own standard error may be something that can't be opened again, as a socket. */
static struct error *open_print(int *ret_fd)
{
	const char *file = trace_args.print_to;
	int fd;

	if (!file)
		fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	else if (strcmp(file, "/dev/stderr") == 0)
		fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	else
		fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY | O_NONBLOCK,
			  0666);
	if (fd < 0)
		return error_errno(errno, "%s: cannot write to %s", file ? "--print-to" : "--print",
				   file ? file : "standard output");
	*ret_fd = fd;
	return NULL;
}

static struct error *begin_printing(struct trace_run *run)
{
	int fd = -1;
	struct error *error = open_print(&fd);

	return error ? error : session_print(run->session, fd);
}

/* The function of --only-inside goes first: of others at its place none is made. */
static struct error *add_enclosing(struct trace_run *run)
{
	struct option_value value = { .option = trace_args.what.count ?
							trace_args.what.items[0].option :
							NULL,
				      .text = trace_args.only_inside };

	if (!trace_args.only_inside || !value.option)
		return NULL;
	struct tracepoint_spec spec = trace_begin_spec(&value);
	spec.kind = TRACEPOINT_FUNCTION;
	spec.name = NULL;
	spec.encloses = true;
	return session_add(run->session, &spec, NULL);
}

struct error *trace_begin_create_session(struct trace_run *run)
{
	struct session_options options = { .output = run->output,
					   .buffer_size = trace_args.buffer_size,
					   .follow_fork = !trace_args.no_follow_fork,
					   .follow_exec = trace_args.follow_exec,
					   .several = run->opened.count > 1,
					   .tell = print_note,
					   .before_change = trace_will_change,
					   .mode = (enum session_mode)trace_args.mode,
					   .overhead = trace_args.overhead,
					   .only_inside = trace_args.only_inside,
					   .has_depth = trace_args.depth_text,
					   .depth = (uint32_t)trace_args.depth,
					   .limits = trace_args.limits };

	if (trace_args.print)
		options.flush_ms = PRINT_MS;
	if ((trace_args.overhead > 0 || trace_args.only_inside || trace_args.depth_text) &&
	    run->opened.count > 1)
		return error_new(ERROR_USAGE,
				 "%s: not with several processes (give one pid, whose children are traced "
				 "with it%s)",
				 trace_args.overhead > 0  ? "--overhead" :
				 trace_args.only_inside ? "--only-inside" :
							  "--depth",
				 trace_args.overhead > 0 ? "; or 'dyntrace attach --overhead' to each" : "");
	struct error *error = session_create(run->proc, &options, &run->session);

	if (!error && options.follow_exec)
		follow_exec_enable(run->session);
	if (!error && options.overhead > 0)
		error = budget_enable(run->session);
	if (!error && trace_args.print)
		error = begin_printing(run);

	if (!error)
		error = add_enclosing(run);
	for (size_t i = 0; i < trace_args.what.count && !error; i++) {
		struct tracepoint_spec spec = trace_begin_spec(&trace_args.what.items[i]);

		error = session_add(run->session, &spec, NULL);
		if (!error)
			error = trace_snapshot_add(run->session, &spec);
	}
	return error;
}

/* Runs a static program to where its exits can be recorded from. */
static struct error *run_to_exits(struct trace_run *run)
{
	taddr at = session_exits_from(run->session);

	return at.v ? launch_run_to(run->launch, at) : NULL;
}

/* Resolves the locations; those not in the program itself after its libraries are loaded. */
static struct error *resolve_launched(struct trace_run *run)
{
	struct error *error = session_resolve(run->session);
	struct error *running;
	bool loaded = false;

	/*
	 * When the libraries are loaded, no code of the program or of a library has run yet. Exits
	 * need them (the unwinder gets a hook), and so do the own probes in libc. Only tracepoints
	 * in the loader itself are placed before.
	 */
	bool has_exits = trace_args.exit || trace_args.only_inside;
	if (!error && !has_exits && !trace_args.tracer->loads &&
	    !trace_args_need_libraries() && session_names_loader(run->session))
		return NULL;
	running = launch_run_to_loaded(run->launch, &loaded);
	if (!running && !loaded && !error)
		return has_exits || trace_args_need_libraries() ? run_to_exits(run) : NULL;
	if (running && error_kind(running) == ERROR_GONE) { /* a library is missing, say */
		error_free(error);
		return running;
	}
	if (running || !loaded) {
		error_free(running);
		return error;
	}
	error_free(error);
	return session_resolve(run->session);
}

static struct error *begin_launched(struct trace_run *run)
{
	struct stop *stop = NULL;
	taddr from = taddr_of(0);
	struct error *error = resolve_launched(run);

	if (!error)
		error = session_tracers_from(run->session, &from);
	if (!error && from.v)
		error = launch_run_to(run->launch, from);
	if (!error && from.v)
		error = session_resolve(run->session);
	if (!error)
		error = stop_adopt(run->proc, run->proc->pid, &stop);
	if (error)
		return error;
	error = session_begin(run->session, stop);
	stop_disown(stop);
	if (error)
		return error;
	trace_command_runs();
	return launch_go(run->launch);
}

/* Traces the other processes, too. One that can't be traced is no error: the user gets a note. */
static struct error *join_others(struct trace_run *run)
{
	struct session_summary ignored;
	struct error *error = NULL;

	for (size_t i = 1; i < run->opened.count && !error; i++) {
		struct proc *proc = take_ptr(&run->opened.items[i]);
		pid_t pid = proc->pid;
		char comm[sizeof(proc->comm)];

		memcpy(comm, proc->comm, sizeof(comm));
		error = follow_exec_join(run->session, proc);
		run->joined += !error;
		if (!error || error_kind(error) == ERROR_INTERRUPTED)
			continue;
		if (error_kind(error) != ERROR_GONE)
			cli_note("%s (%d): not traced: %s", comm, pid, error_text(error));
		error = (error_free(error), NULL);
	}
	if (error)
		error_free(session_end(run->session, &ignored));
	return error;
}

static struct error *put_first(struct trace_run *run, size_t i)
{
	struct proc *first = run->opened.items[0];

	run->proc = run->opened.items[0] = run->opened.items[i];
	run->opened.items[i] = first;
	session_destroy(take_ptr(&run->session));
	return trace_begin_create_session(run);
}

/* Finds the places in the first process that has any: it goes first from then on. With --wait, a
 * process may have none yet. One that has ended is passed over. */
static struct error *resolve_running(struct trace_run *run)
{
	struct error *error = session_resolve(run->session);

	for (size_t i = 1; i < run->opened.count; i++) {
		bool has_ended = has_others(run, error);

		if (!has_ended && (error || trace_args.wait || session_has_places(run->session)))
			return error;
		error_free(error);
		error = put_first(run, i);
		if (!error)
			error = session_resolve(run->session);
	}
	if (!error && run->opened.count > 1 && !trace_args.wait &&
	    !session_has_places(run->session))
		error = session_missing(run->session);
	return error;
}

static struct error *begin_running(struct trace_run *run)
{
	struct error *error = resolve_running(run);

	return error ? error : session_begin(run->session, NULL);
}

struct error *trace_begin_record(struct trace_run *run)
{
	if (run->launch)
		return begin_launched(run);
	struct error *error = begin_running(run);
	for (size_t i = 1; i < run->opened.count && has_others(run, error); i++) {
		error_free(error);
		error = put_first(run, i);
		if (!error)
			error = begin_running(run);
	}
	return error ? error : join_others(run);
}
