/*
 * controller.c - one run: a session, an operation in which something fails, and the commands that a
 * user would give next.
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "control/base/now.h"
#include "control/proc/proc_status.h"
#include "control/session/follow_exec/follow_exec.h"
#include "control/session/processes/follow_state.h"
#include "control/session/takeover/takeover.h"
#include "faults.h"

#define PATIENCE_MS 30000
#define CALLS_MORE 3
#define CATCH_UP_MS 200

/* ---- judging --------------------------------------------------------------------------------- */

void trouble(const char *format, ...)
{
	size_t length = strlen(verdict->trouble);
	va_list args;

	if (length + 2 >= sizeof(verdict->trouble))
		return;
	if (length)
		length += (size_t)snprintf(verdict->trouble + length,
					   sizeof(verdict->trouble) - length, "; ");
	va_start(args, format);
	vsnprintf(verdict->trouble + length, sizeof(verdict->trouble) - length, format, args);
	va_end(args);
}

/* Outside of the operation nothing fails. */
static bool fine(struct error *error, const char *what)
{
	if (!error)
		return true;
	trouble("%s: %s", what, error_text(error));
	error_free(error);
	return false;
}

static size_t count_descriptors(void)
{
	DIR *directory = opendir("/proc/self/fd");
	size_t count = 0;

	while (readdir(directory))
		count++;
	closedir(directory);
	return count;
}

static void judge_own(size_t descriptors)
{
	uint64_t until = now_ms() + PATIENCE_MS;
	siginfo_t info;

	if (count_descriptors() != descriptors)
		trouble("dyntrace has %zu descriptors, not %zu", count_descriptors(), descriptors);
	/* a thread that was let go before its stop leaves with it (unreleased.c) */
	while (!waitid(P_ALL, 0, &info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT | __WALL) &&
	       now_ms() < until)
		usleep(1000);
	if (!waitid(P_ALL, 0, &info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT | __WALL))
		trouble("dyntrace has a child or a thread left");
}

/* ---- the target ------------------------------------------------------------------------------ */

/* A sum over the program's own text. */
static uint64_t sum_text(struct fixture *f)
{
	uint64_t sum = 14695981039346656037u;
	char path[64], line[512];

	snprintf(path, sizeof(path), "/proc/%d/maps", f->pid);
	FILE *maps = fopen(path, "re");
	while (maps && fgets(line, sizeof(line), maps)) {
		static uint8_t bytes[1 << 20];
		uint64_t from, end;

		if (!strstr(line, " r-xp ") || !strstr(line, "/worker\n") ||
		    sscanf(line, "%lx-%lx", &from, &end) != 2)
			continue;
		if (end - from > sizeof(bytes) ||
		    !fine(mem_read(f->proc, taddr_of(from), bytes, end - from), "text"))
			trouble("the target's text can't be read");
		for (size_t i = 0; i < end - from; i++)
			sum = (sum ^ bytes[i]) * 1099511628211u;
	}
	if (maps)
		fclose(maps);
	return sum;
}

static uint64_t calls_of(size_t function, bool done)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < THREADS; i++)
		sum += __atomic_load_n(done ? &shared->calls[i][function].done :
					      &shared->calls[i][function].begun,
				       __ATOMIC_SEQ_CST);
	return sum;
}

/* A step of a session whose trace can't be written any more fails; that is no trouble here. */
static bool step(struct fixture *f)
{
	if (!f->session) {
		usleep(1000);
		return true;
	}
	struct error *error = session_step(f->session, 1);
	bool tolerated = error && (verdict->report.fired || !verdict->acted);

	if (error && !tolerated)
		return fine(error, "step");
	error_free(error);
	return !error;
}

void target_go(void)
{
	__atomic_store_n(&shared->paused, 0, __ATOMIC_SEQ_CST);
}

void target_stand(struct fixture *f)
{
	uint64_t until = now_ms() + PATIENCE_MS;

	__atomic_store_n(&shared->paused, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&shared->standing, __ATOMIC_SEQ_CST) != THREADS) {
		if (!proc_is_alive(f->proc) && inject_has_killed())
			return;
		if (now_ms() > until || !proc_is_alive(f->proc)) {
			trouble("%u of %d threads of the target come to their pause",
				shared->standing, THREADS);
			exit(1);
		}
		step(f);
	}
}

/* Each thread runs, and each function is called. */
static void target_work(struct fixture *f)
{
	uint64_t until = now_ms() + PATIENCE_MS, from[FUNCTIONS];

	for (size_t i = 0; i < FUNCTIONS; i++)
		from[i] = calls_of(i, true);
	target_go();
	for (size_t i = 0; i < FUNCTIONS; i++) {
		while (calls_of(i, true) < from[i] + CALLS_MORE) {
			if (!proc_is_alive(f->proc) && inject_has_killed())
				return;
			if (now_ms() > until || !proc_is_alive(f->proc)) {
				trouble("the target doesn't go on");
				exit(1);
			}
			step(f);
		}
	}
	target_stand(f);
}

/* ---- counts ---------------------------------------------------------------------------------- */

/* -1: none of the target's; a program that it began has no location. */
static long function_of(const char *location)
{
	if (!location || strncmp(location, "work_", 5) || location[5] == '*')
		return -1;
	return atol(location + 5);
}

/* Hits, recorded or lost, of a tracepoint. */
static uint64_t hits_of(const struct tracepoint_info *info)
{
	return info->hits + info->lost;
}

static bool is_counted(const struct tracepoint_info *info)
{
	return info->how && strcmp(info->how, "removed") && strcmp(info->how, "waiting") &&
	       info->enabled && function_of(info->location) >= 0;
}

/* Since the operation: every call is a hit. */
static void judge_hits(struct fixture *f, const struct operation *operation, const uint64_t *hits)
{
	for (size_t i = 0; i < session_tracepoint_count(f->session); i++) {
		struct tracepoint_info info = session_tracepoint(f->session, i);
		long function = function_of(info.location);
		bool unsure = verdict->failed && operation->subject &&
			      !strcmp(info.name, operation->subject);

		if (!is_counted(&info))
			continue;
		uint64_t calls = calls_of((size_t)function, true) - f->called[function];
		uint64_t seen = hits_of(&info) - hits[i];
		if (seen != calls && !(unsure && !seen))
			trouble("%s: %llu calls, %llu hits", info.name, (unsigned long long)calls,
				(unsigned long long)seen);
		/* a call whose entry was lost has no exit: on a busy machine the buffer fills */
		if (info.has_exit &&
		    info.exits + info.exits_lost + info.unwound + info.missed + info.inside !=
			    info.hits &&
		    !unsure)
			trouble("%s: %llu hits, %llu exits", info.name,
				(unsigned long long)info.hits,
				(unsigned long long)(info.exits + info.exits_lost + info.unwound +
						     info.missed + info.inside));
	}
}

/* ---- a session ------------------------------------------------------------------------------- */

static void make_session(struct fixture *f)
{
	if (!fine(proc_open(f->pid, &f->proc), "open") ||
	    !fine(session_create(f->proc, &f->options, &f->session), "create") ||
	    !fine(session_begin(f->session, NULL), "begin"))
		exit(1);
}

static void add(struct fixture *f, const char *location, const char *name,
		enum tracepoint_kind kind, const char *tracer)
{
	const struct tracepoint_spec spec = {
		.location = location, .name = name, .kind = kind, .tracer = tracer
	};

	if (!fine(session_add(f->session, &spec, NULL), location))
		exit(1);
}

static void prepare_usual(struct fixture *f)
{
	make_session(f);
	add(f, "work_1", "first", TRACEPOINT_BARE, NULL);
	add(f, "work_2", "second", TRACEPOINT_FUNCTION, NULL);
	add(f, "work_3", "third", TRACEPOINT_ENTRY, "count");
}

static void prepare(const struct operation *operation, struct fixture *f)
{
	f->options = (struct session_options){ .output = f->output,
					       .buffer_size = 4 << 20,
					       .follow_fork = true,
					       .mode = operation->mode,
					       .limits = operation->limits };
	if (operation->begins)
		return;
	(operation->prepare ? operation->prepare : prepare_usual)(f);
	if (*verdict->trouble)
		exit(1);
}

/* ---- the commands after it ------------------------------------------------------------------- */

static void judge_error(const char *text)
{
	if (!*text || strchr(text, '\n'))
		trouble("the error isn't one line: '%s'", text);
}

static void next_commands(struct fixture *f)
{
	const struct tracepoint_spec spec = { .location = "work_20",
					      .name = "next",
					      .kind = TRACEPOINT_FUNCTION };
	size_t index;

	if (!fine(session_add(f->session, &spec, NULL), "the next add"))
		return;
	uint64_t before = calls_of(20, true);
	target_work(f);
	struct error *flushed = session_flush(f->session);
	error_free(flushed);
	if (fine(session_find(f->session, "next", &index), "the next tracepoint") && !flushed) {
		struct tracepoint_info info = session_tracepoint(f->session, index);

		if (hits_of(&info) != calls_of(20, true) - before)
			trouble("the next tracepoint: %llu calls, %llu hits",
				(unsigned long long)(calls_of(20, true) - before),
				(unsigned long long)hits_of(&info));
	}
	fine(session_remove(f->session, "next", NULL), "the next rm");
}

/* The trace can't be written any more: the user is told, and the session goes on to its end. */
static bool is_unwritten(const struct error *error)
{
	return verdict->report.fired && strstr(error_text(error), "trace");
}

static void judge_session(struct fixture *f, const struct operation *operation, bool onward)
{
	struct session_summary summary = { 0 };

	target_stand(f);
	/* what couldn't be done while everything failed is tried again by steps */
	for (uint64_t until = now_ms() + (onward ? CATCH_UP_MS : 0); now_ms() < until;)
		step(f);
	error_free(session_flush(f->session));
	size_t count = session_tracepoint_count(f->session);
	uint64_t *hits = calloc(count + 1, sizeof(*hits));
	for (size_t i = 0; i < count; i++) {
		struct tracepoint_info info = session_tracepoint(f->session, i);

		hits[i] = hits_of(&info);
	}
	for (size_t i = 0; i < FUNCTIONS; i++)
		f->called[i] = calls_of(i, true);
	target_work(f);
	next_commands(f);
	if (operation->adds && verdict->failed && !onward && sum_text(f) != f->text)
		trouble("it failed, and its probe came into the text with the next change");
	target_work(f);
	if (session_tracepoint_count(f->session) != count)
		trouble("%zu tracepoints, not %zu", session_tracepoint_count(f->session), count);
	struct error *error = session_end(f->session, &summary);
	if (error && is_unwritten(error))
		error_free(error);
	else
		fine(error, "detach");
	verdict->left |= summary.left;
	verdict->summed_up = true;
	verdict->events = summary.totals.events - summary.removed.events;
	if (summary.left)
		trouble("%s", summary.why);
	judge_hits(f, operation, hits);
	free(hits);
	if (operation->judge && !onward)
		operation->judge(f);
}

static void note_call(uint64_t call, uint32_t caller, uint32_t callers)
{
	if (call > FAULTS_NOTED)
		return;
	verdict->noted[call - 1].caller = caller;
	verdict->noted[call - 1].callers = callers;
}

/* In one stop no thread could be borrowed: nothing fails for that, and nothing is slower. */
static void judge_unfit(const struct fixture *f, const struct error *error)
{
	if (!verdict->report.fired || strcmp(verdict->report.name, "remote_choose") != 0)
		return;
	if (error)
		trouble("it isn't tried again: %s", error_text(error));
	else if (f->session && f->session->agent && f->session->wants_loads &&
		 !(f->session->agent->control->flags & DT_LOADS))
		trouble("no plain loads are made");
}

void controller_run(const struct operation *operation, const struct wanted *wanted, pid_t pid,
		    const char *output)
{
	size_t descriptors = count_descriptors();
	struct fixture f = { .pid = pid };

	snprintf(f.output, sizeof(f.output), "%s", output);
	if (!operation->kills)
		prepare(operation, &f);
	f.text = operation->adds ? sum_text(&f) : 0;
	if (!operation->stands)
		target_go();
	inject_arm(wanted->classes, wanted->nth, wanted->onward, wanted->nth ? NULL : note_call);
	struct error *error = operation->act(&f);
	inject_disarm(&verdict->report);
	verdict->acted = true;
	verdict->failed = error;
	if (!wanted->onward)
		judge_unfit(&f, error);
	if (error) {
		snprintf(verdict->error, sizeof(verdict->error), "%s", error_text(error));
		judge_error(error_text(error));
		error_free(error);
		if (!verdict->report.fired)
			trouble("an error without a failure: %s", verdict->error);
		if (operation->adds && !wanted->onward && !verdict->report.killed &&
		    sum_text(&f) != f.text)
			trouble("it failed, and its probe is in the text");
	}
	/* in follow-exec a program that it began was killed */
	if (f.session && !operation->ends && verdict->report.killed && !operation->execs)
		error_free(session_end(f.session, &(struct session_summary){ 0 }));
	else if (f.session && !operation->ends)
		judge_session(&f, operation, wanted->onward);
	session_destroy(f.session);
	proc_close(f.proc);
	judge_own(descriptors);
	exit(0);
}

void controller_die(const struct operation *operation, pid_t pid, const char *output)
{
	struct fixture f = { .pid = pid };

	snprintf(f.output, sizeof(f.output), "%s", output);
	prepare(operation, &f);
	target_work(&f);
	raise(SIGKILL);
}

void controller_clean(pid_t pid)
{
	struct takeover takeover = { 0 };
	struct proc *proc = NULL;

	if (fine(proc_open(pid, &proc), "open") &&
	    fine(takeover_clean(proc, &takeover), "clean up") && takeover.left)
		trouble("after cleaning up: %s", takeover.why);
	proc_close(proc);
	exit(0);
}

/* ---- operations ------------------------------------------------------------------------------ */

static struct error *act_attach(struct fixture *f)
{
	static const struct tracepoint_spec specs[] = {
		{ .location = "work_1", .name = "first", .kind = TRACEPOINT_BARE },
		{ .location = "work_2", .name = "second", .kind = TRACEPOINT_FUNCTION },
	};
	struct error *error = proc_open(f->pid, &f->proc);

	if (!error)
		error = session_create(f->proc, &f->options, &f->session);
	for (size_t i = 0; i < 2 && !error; i++)
		error = session_add(f->session, &specs[i], NULL);
	if (!error)
		error = session_resolve(f->session);
	if (!error)
		error = session_begin(f->session, NULL);
	if (error) {
		session_destroy(take_ptr(&f->session));
		proc_close(take_ptr(&f->proc));
	}
	return error;
}

static struct error *add_and_free(struct fixture *f, const struct tracepoint_spec *spec)
{
	struct name_list names = { 0 };
	struct error *error = session_add(f->session, spec, &names);

	name_list_free(&names);
	return error;
}

static struct error *act_add(struct fixture *f)
{
	return add_and_free(
		f, &(struct tracepoint_spec){ .location = "work_10", .kind = TRACEPOINT_BARE });
}

static void prepare_without_exits(struct fixture *f)
{
	make_session(f);
	add(f, "work_1", "first", TRACEPOINT_BARE, NULL);
}

static struct error *act_add_exits(struct fixture *f)
{
	return add_and_free(
		f, &(struct tracepoint_spec){ .location = "work_10", .kind = TRACEPOINT_FUNCTION });
}

static struct error *act_add_placed(struct fixture *f)
{
	static const char *const contexts[] = { "tid" };

	return add_and_free(f, &(struct tracepoint_spec){ .location = "work_1",
							  .name = "again",
							  .kind = TRACEPOINT_ENTRY,
							  .contexts = contexts,
							  .context_count = 1 });
}

static struct error *act_add_many(struct fixture *f)
{
	return add_and_free(
		f, &(struct tracepoint_spec){ .location = "work_*", .kind = TRACEPOINT_FUNCTION });
}

static struct error *act_add_count(struct fixture *f)
{
	return add_and_free(f, &(struct tracepoint_spec){ .location = "work_10",
							  .tracer = "count",
							  .kind = TRACEPOINT_FUNCTION });
}

static struct error *act_add_trap(struct fixture *f)
{
	return add_and_free(f, &(struct tracepoint_spec){ .location = "lone",
							  .kind = TRACEPOINT_BARE });
}

static void judge_trap(struct fixture *f)
{
	for (size_t i = 0; i < session_tracepoint_count(f->session); i++) {
		struct tracepoint_info info = session_tracepoint(f->session, i);

		if (info.location && !strcmp(info.location, "lone") &&
		    (!info.how || strcmp(info.how, "trap")))
			trouble("the trap is %s", info.how ? info.how : "nothing");
	}
}

/* Inside the bytes of a placed site: sites are exchanged. */
static struct error *act_exchange(struct fixture *f)
{
	return add_and_free(f, &(struct tracepoint_spec){ .location = "work_2+4",
							  .name = "inside",
							  .kind = TRACEPOINT_BARE });
}

static void prepare_two(struct fixture *f)
{
	prepare_usual(f);
	add(f, "work_10", "one", TRACEPOINT_FUNCTION, NULL);
	add(f, "work_10", "other", TRACEPOINT_BARE, NULL);
	add(f, "work_11", "alone", TRACEPOINT_FUNCTION, NULL);
}

static struct error *act_rm(struct fixture *f)
{
	return session_remove(f->session, "alone", NULL);
}

static struct error *act_rm_shared(struct fixture *f)
{
	return session_remove(f->session, "one", NULL);
}

static struct error *act_rm_all(struct fixture *f)
{
	return session_remove(f->session, "*", NULL);
}

static struct error *act_switch(struct fixture *f)
{
	struct error *error = session_switch(f->session, "second", false, NULL);

	return error ? error : session_switch(f->session, "second", true, NULL);
}

static struct error *act_add_context(struct fixture *f)
{
	return session_add_context(f->session, "second", "tid", NULL);
}

static struct error *act_snapshot(struct fixture *f)
{
	struct reader_totals totals;
	char output[FAULTS_OUTPUT + 16];

	snprintf(output, sizeof(output), "%s/../snapshot", f->output);
	return session_snapshot(f->session, NULL, output, 0, &totals);
}

/* Writes events: packets, files of new threads, the metadata. */
static struct error *act_record(struct fixture *f)
{
	struct error *error = NULL;

	target_work(f);
	for (int i = 0; i < 3 && !error; i++)
		error = session_step(f->session, 1);
	return error ? error : session_flush(f->session);
}

/* Each step begins new files, and removes old ones. */
static struct error *act_rotate(struct fixture *f)
{
	struct error *error = NULL;

	for (int i = 0; i < 3 && !error; i++)
		error = act_record(f);
	return error;
}

static struct error *act_detach(struct fixture *f)
{
	struct session_summary summary = { 0 };
	struct error *error = session_end(f->session, &summary);

	verdict->left = summary.left;
	return error;
}

/* Calls of all functions, of which the session reads none. */
static void target_run_unread(void)
{
	uint64_t until = now_ms() + PATIENCE_MS, from[FUNCTIONS];
	size_t i = 0;

	for (size_t j = 0; j < FUNCTIONS; j++)
		from[j] = calls_of(j, true);
	target_go();
	while (i < FUNCTIONS && now_ms() < until) {
		if (calls_of(i, true) < from[i] + CALLS_MORE)
			usleep(500);
		else
			i++;
	}
	__atomic_store_n(&shared->paused, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&shared->standing, __ATOMIC_SEQ_CST) != THREADS && now_ms() < until)
		usleep(500);
}

/* Events of each kind in the buffers, none in the trace; no thread is in a call. */
static void prepare_full(struct fixture *f)
{
	const struct tracepoint_spec kept_at_exit = { .location = "work_4",
						      .name = "fourth",
						      .kind = TRACEPOINT_FUNCTION,
						      .filter = "duration >= 0" };

	prepare_usual(f);
	if (!fine(session_add(f->session, &kept_at_exit, NULL), "add"))
		exit(1);
	target_run_unread();
}

/* Every call is recorded or lost, and the summary says so. */
static struct error *act_end(struct fixture *f)
{
	struct session_summary summary = { 0 };
	struct error *error = session_end(f->session, &summary);
	uint64_t events = 0, lost = 0;

	verdict->left = summary.left;
	verdict->events = summary.totals.events;
	verdict->summed_up = true;
	if (inject_has_killed())
		return error;
	for (size_t i = 0; i < session_tracepoint_count(f->session); i++) {
		struct tracepoint_info info = session_tracepoint(f->session, i);
		uint64_t calls = calls_of((size_t)function_of(info.location), true);

		if (hits_of(&info) != calls)
			trouble("%s: %llu calls, %llu hits", info.name, (unsigned long long)calls,
				(unsigned long long)hits_of(&info));
		if (!info.tracer || strcmp(info.tracer, "count") != 0) {
			events += info.hits + info.exits;
			lost += info.lost + info.exits_lost;
		}
	}
	if (summary.totals.events != events ||
	    summary.totals.lost + summary.totals.holes != lost)
		trouble("%llu events and %llu lost, in the summary %llu and %llu",
			(unsigned long long)events, (unsigned long long)lost,
			(unsigned long long)summary.totals.events,
			(unsigned long long)(summary.totals.lost + summary.totals.holes));
	return error;
}

static struct error *act_clean(struct fixture *f)
{
	struct takeover takeover = { 0 };
	struct error *error = proc_open(f->pid, &f->proc);

	if (!error)
		error = takeover_clean(f->proc, &takeover);
	verdict->left = takeover.left;
	return error;
}

static struct error *act_inherit(struct fixture *f)
{
	struct takeover takeover = { 0 };
	bool waits = false;
	static const struct tracepoint_spec specs[] = {
		{ .location = "work_1", .name = "first", .kind = TRACEPOINT_BARE },
		{ .location = "work_2", .name = "second", .kind = TRACEPOINT_FUNCTION },
		{ .location = "work_3",
		  .name = "third",
		  .kind = TRACEPOINT_ENTRY,
		  .tracer = "count" },
	};
	static char output[FAULTS_OUTPUT + 16];
	struct error *error = proc_open(f->pid, &f->proc);

	snprintf(output, sizeof(output), "%s-2", f->output);
	f->options = (struct session_options){ .output = output,
					       .buffer_size = 4 << 20,
					       .follow_fork = true };

	if (!error)
		error = session_create(f->proc, &f->options, &f->session);
	if (!error)
		error = takeover_inherit(f->session, NULL, true, &takeover, &waits);
	if (!error)
		error = session_begin(f->session, NULL);
	for (size_t i = 0; i < 3 && !error; i++)
		error = session_add(f->session, &specs[i], NULL);
	if (!error && waits)
		error = takeover_settle(f->session, &takeover);
	if (!error)
		takeover_give_counts(f->session);
	verdict->left = takeover.left;
	if (error && f->session) {
		struct session_summary summary = { 0 };

		error_free(session_end(f->session, &summary));
		verdict->left |= summary.left;
	}
	if (error) {
		session_destroy(take_ptr(&f->session));
		proc_close(take_ptr(&f->proc));
	}
	return error;
}

static void begin_following(struct fixture *f, const struct tracepoint_spec *spec)
{
	f->options.follow_exec = true;
	if (!fine(proc_open(f->pid, &f->proc), "open") ||
	    !fine(session_create(f->proc, &f->options, &f->session), "create"))
		exit(1);
	follow_exec_enable(f->session);
	if (!fine(session_add(f->session, spec, NULL), "add") ||
	    !fine(session_resolve(f->session), "resolve") ||
	    !fine(session_begin(f->session, NULL), "begin"))
		exit(1);
}

static void prepare_following(struct fixture *f)
{
	begin_following(f, &(struct tracepoint_spec){ .location = "work_1",
						      .name = "first",
						      .kind = TRACEPOINT_FUNCTION });
}

/* Steps go on after an error, as the daemon's do. Returns the first. */
static struct error *step_until(struct fixture *f, bool (*is_over)(void), uint64_t until)
{
	struct error *first = NULL;

	while (!is_over() && now_ms() < until) {
		struct error *error = session_step(f->session, 5);

		if (first)
			error_free(error);
		first = first ? first : error;
	}
	return first;
}

static bool have_programs_ended(void)
{
	return __atomic_load_n(&shared->programs_ended, __ATOMIC_SEQ_CST) >=
	       shared->programs_wanted;
}

/* The target begins a program, which does its work whether or not it can be traced. */
static struct error *act_follow(struct fixture *f)
{
	__atomic_fetch_add(&shared->programs_wanted, 1, __ATOMIC_SEQ_CST);
	struct error *error = step_until(f, have_programs_ended, now_ms() + PATIENCE_MS);
	if (!have_programs_ended())
		trouble("the program that the target began doesn't end");
	else if (shared->program_status && !inject_has_killed())
		trouble("the program that the target began: status 0x%x", shared->program_status);
	return error;
}

static bool is_program_begun(void)
{
	return __atomic_load_n(&shared->program_pid, __ATOMIC_SEQ_CST) || have_programs_ended();
}

/* The same, with a program that lives on until the session has ended. */
static struct error *act_follow_stay(struct fixture *f)
{
	shared->programs_stay = 1;
	__atomic_fetch_add(&shared->programs_wanted, 1, __ATOMIC_SEQ_CST);
	return step_until(f, is_program_begun, now_ms() + PATIENCE_MS);
}

/* Follows a program, which ends. */
static void prepare_counting(struct fixture *f)
{
	uint64_t until = now_ms() + PATIENCE_MS;

	begin_following(f, &(struct tracepoint_spec){ .location = "work_1",
						      .name = "first",
						      .kind = TRACEPOINT_FUNCTION,
						      .tracer = "count" });
	if (fine(act_follow_stay(f), "follow") && f->session->follow->execs.count != 1)
		trouble("the program isn't followed");
	__atomic_store_n(&shared->programs_stay, 0, __ATOMIC_SEQ_CST);
	while (!have_programs_ended() && now_ms() < until)
		usleep(1000);
}

/* The session takes over what was counted in it: in the first step, or the first one that can. */
static struct error *act_take_counts(struct fixture *f)
{
	uint64_t until = now_ms() + PATIENCE_MS;

	do {
		f->session->follow->next_look = 0;
		error_free(session_step(f->session, 0));
	} while (f->session->follow->execs.count && now_ms() < until);
	if (f->session->follow->execs.count)
		trouble("the program has ended, and its session stays");
	return NULL;
}

/* Its hits are the session's now (F3). */
static void judge_counted(struct fixture *f)
{
	for (size_t i = 0; i < session_tracepoint_count(f->session); i++) {
		struct tracepoint_info info = session_tracepoint(f->session, i);

		if (strncmp(info.name, "first@", 6))
			continue;
		if (info.hits != 2 * PROGRAM_CALLS || info.exits != 2 * PROGRAM_CALLS)
			trouble("the program that ended: %d calls, %llu hits, %llu exits",
				2 * PROGRAM_CALLS, (unsigned long long)info.hits,
				(unsigned long long)info.exits);
		return;
	}
	trouble("nothing was counted in the program that ended");
}

/* Nothing of ours is in the program (H32), which goes on to its end. */
static void judge_program(struct fixture *f)
{
	uint64_t until = now_ms() + PATIENCE_MS;
	char path[64], line[512];

	while (!is_program_begun() && now_ms() < until)
		usleep(1000);
	snprintf(path, sizeof(path), "/proc/%d/maps", shared->program_pid);
	FILE *maps = shared->program_pid ? fopen(path, "re") : NULL;
	while (maps && fgets(line, sizeof(line), maps)) {
		if (strstr(line, "memfd:dyntrace"))
			trouble("the program that the target began has %.*s",
				(int)strcspn(line, "\n"), line);
	}
	if (maps)
		fclose(maps);
	__atomic_store_n(&shared->programs_stay, 0, __ATOMIC_SEQ_CST);
	while (!have_programs_ended() && now_ms() < until)
		usleep(1000);
	if (!have_programs_ended())
		trouble("the program that the target began doesn't end");
	else if (shared->program_status && !verdict->report.killed)
		trouble("the program that the target began: status 0x%x", shared->program_status);
}

const struct operation operations[] = {
	{ .name = "attach", .act = act_attach, .begins = true, .handles = true },
	{ .name = "add", .act = act_add, .adds = true },
	{ .name = "add-exits",
	  .act = act_add_exits,
	  .prepare = prepare_without_exits,
	  .adds = true },
	{ .name = "add-placed", .act = act_add_placed },
	{ .name = "add-many", .act = act_add_many },
	{ .name = "add-count", .act = act_add_count, .adds = true },
	{ .name = "add-trap", .act = act_add_trap, .judge = judge_trap, .adds = true },
	{ .name = "exchange", .act = act_exchange },
	{ .name = "rm", .act = act_rm, .prepare = prepare_two, .subject = "alone" },
	{ .name = "rm-shared", .act = act_rm_shared, .prepare = prepare_two, .subject = "one" },
	{ .name = "rm-all", .act = act_rm_all, .prepare = prepare_two },
	{ .name = "switch", .act = act_switch, .subject = "second" },
	{ .name = "add-context", .act = act_add_context, .subject = "second" },
	{ .name = "snapshot", .act = act_snapshot, .mode = SESSION_OVERWRITE },
	{ .name = "record", .act = act_record, .writes = true },
	{ .name = "rotate",
	  .act = act_rotate,
	  .limits = { .max_files = 2, .rotate_ns = 1000000 },
	  .writes = true },
	{ .name = "follow-exec", .act = act_follow, .prepare = prepare_following, .execs = true },
	{ .name = "follow-stay",
	  .act = act_follow_stay,
	  .prepare = prepare_following,
	  .judge = judge_program,
	  .execs = true },
	{ .name = "follow-count",
	  .act = act_take_counts,
	  .prepare = prepare_counting,
	  .judge = judge_counted,
	  .execs = true },
	{ .name = "detach", .act = act_detach, .ends = true, .handles = true },
	{ .name = "end",
	  .act = act_end,
	  .prepare = prepare_full,
	  .ends = true,
	  .stands = true,
	  .writes = true },
	{ .name = "clean", .act = act_clean, .kills = true, .ends = true, .handles = true },
	{ .name = "inherit", .act = act_inherit, .kills = true },
};
const size_t operation_count = sizeof(operations) / sizeof(operations[0]);
