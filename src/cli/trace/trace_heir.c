#include "trace_heir.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>
#include <x86intrin.h>

#include "control/base/cleanup.h"
#include "control/base/now.h"
#include "control/session/takeover/takeover.h"
#include "options/commands.h"
#include "shared_trace.h"
#include "trace_args.h"

#define STEP_MS 50
#define SHARED ".shared-" /* behind the name of a trace: trace_host.c makes it for a guest */

/* ---- taking over --------------------------------------------------------------------------- */

static void print_note(void *context, const char *line)
{
	(void)context;
	cli_note("%s", line);
}

/* Ends the takeover early, if the old probes are in the way of new ones. False: they aren't. */
static bool settle_early(struct session *session, struct error **error)
{
	struct takeover takeover = { 0 };

	if (!*error || error_kind(*error) == ERROR_GONE || !takeover_waits(session))
		return false;
	error_free(take_ptr(error));
	error_free(takeover_settle(session, &takeover));
	return true;
}

static struct error *inherit(const struct beside *beside, struct trace_dir *dir)
{
	struct session *session = beside->run->session;
	struct takeover takeover = { 0 };
	bool waits = false;
	struct error *error = takeover_inherit(session, dir, true, &takeover, &waits);

	if (!error && dir && !session_goes_on(session))
		error = error_new(ERROR_FAILED, "%s",
				  takeover.unsaved[0] ? takeover.unsaved : "its trace is closed");
	if (error)
		return error;
	if (dir)
		session_set_directory(session, dir);
	error = session_resolve(session);
	if (!error)
		error = session_begin(session, NULL);
	if (settle_early(session, &error))
		error = session_begin(session, NULL);
	return error;
}

static struct error *place(const struct beside *beside)
{
	struct session *session = beside->run->session;
	struct takeover takeover = { 0 };
	struct error *error = NULL;

	for (size_t i = 0; i < beside->made.count && !error; i++) {
		struct tracepoint_spec spec = trace_begin_spec(&trace_args.what.items[i]);
		const struct name_list *names = &beside->made.items[i];

		error = session_add_as(session, &spec, names, NULL, NULL);
		if (settle_early(session, &error))
			error = session_add_as(session, &spec, names, NULL, NULL);
	}
	struct error *settling = takeover_settle(session, &takeover);
	takeover_give_counts(session);
	if (error)
		error_free(settling);
	return error ? error : settling;
}

/* Tells the one that has left the process to us that its trace gets no more events of its own. */
static void tell_host(struct beside *beside)
{
	wire_begin(client_out(beside->client), WIRE_SETTLE, 0);
	wire_end(client_out(beside->client));
	error_free(client_call(beside->client, NULL, NULL));
}

/* ---- recording ----------------------------------------------------------------------------- */

static void take_counts(struct beside *beside)
{
	const struct session *session = beside->run->session;

	for (size_t i = 0; i < session_tracepoint_count(session); i++) {
		struct tracepoint_info info = session_tracepoint(session, i);
		struct own *own = trace_beside_find(beside, info.name);

		if (!own)
			continue;
		/* times are those since the takeover */
		own->info = (struct tracepoint_info){ .lost = info.lost,
						      .exits_lost = info.exits_lost,
						      .rate = info.rate };
		if (!trace_args.tracer->has_trace)
			own->hits = info.hits;
	}
}

static struct error *record(struct beside *beside)
{
	struct session *session = beside->run->session;
	struct session_summary summary = { 0 };
	struct error *error = NULL;

	while (!error && !trace_beside_is_over(beside))
		error = session_step(session, STEP_MS);
	if (error && error_kind(error) == ERROR_INTERRUPTED)
		error = (error_free(error), NULL);
	beside->until = __rdtsc();
	beside->ended_ns = now_ns();
	error_free(session_recording(session, false));
	struct error *ending = session_end(session, &summary);
	take_counts(beside);
	if (!error && !ending && summary.probes_left)
		ending = error_new(ERROR_FAILED, "%s", summary.why);
	else if (summary.left)
		cli_note("%s", summary.why);
	if (error)
		error_free(ending);
	return error ? error : ending;
}

/* The process can't be recorded any more: at least it shall be as it was. */
static void clean_up(const struct beside *beside)
{
	struct session_summary ignored;
	struct takeover takeover;

	if (session_begun_ns(beside->run->session))
		error_free(session_end(beside->run->session, &ignored));
	session_destroy(take_ptr(&beside->run->session));
	error_free(takeover_clean(beside->run->proc, &takeover));
}

struct error *trace_heir_run(struct beside *beside)
{
	struct trace_run *run = beside->run;
	struct session_options options = { .output = "",
					   .buffer_size = DT_POOL_DEFAULT,
					   .follow_fork = true,
					   .tell = print_note };
	int ignored;

	beside->is_heir = true;
	if (!beside->is_ours && !trace_args.quiet)
		cli_note("the other dyntrace of process %d was killed: this one goes on alone",
			 run->proc->pid);
	struct error *error = beside->trace ? trace_dir_existing(beside->trace, &ignored,
								 &beside->directory) :
					      NULL;
	if (!error)
		error = session_create(run->proc, &options, &run->session);
	if (error)
		return error;
	error = inherit(beside, beside->directory);
	if (!error)
		error = place(beside);
	if (!error && beside->is_ours)
		tell_host(beside);
	if (!error)
		return record(beside);
	beside->until = __rdtsc();
	beside->ended_ns = now_ns();
	clean_up(beside);
	if (error_kind(error) == ERROR_INTERRUPTED) { /* the usual end, in the middle of it */
		error_free(error);
		return NULL;
	}
	return error_wrap(error, "cannot go on without the other dyntrace");
}

/* ---- the shared trace ----------------------------------------------------------------------- */

uint64_t trace_heir_lost(const struct beside *beside, uint32_t id)
{
	const struct session *session = beside->is_heir ? beside->run->session : NULL;
	const struct event_types *types = session ? session_types(session) : NULL;

	/* types of tracepoints of ours have names: their losses are in struct own */
	return types && id < types->count && !types->items[id].name ? types->items[id].lost : 0;
}

/* The one that has left it may still copy its own events: it has a lock then. */
static void remove_shared(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	while (fd >= 0 && flock(fd, LOCK_EX) && errno == EINTR)
		;
	shared_trace_remove(path);
}

static bool is_for_us(const struct beside *beside)
{
	size_t length = beside->output ? strlen(beside->output) : 0;

	return beside->is_ours || (length && !strncmp(beside->trace, beside->output, length) &&
				   !strncmp(beside->trace + length, SHARED, strlen(SHARED)));
}

struct error *trace_heir_tidy(struct beside *beside)
{
	struct name_list names = { 0 };
	struct shared_trace shared = { .others = &names };
	bool enough = true;

	session_destroy(take_ptr(&beside->run->session));
	trace_dir_free(take_ptr(&beside->directory)); /* has a lock, too */
	if (!beside->trace || is_for_us(beside)) {
		if (beside->trace)
			remove_shared(beside->trace);
		return NULL;
	}
	if (!trace_args.tracer->has_trace)
		return NULL;
	for (size_t i = 0; i < beside->own.count && enough; i++)
		enough = vec_push(&names, beside->own.items[i].name);
	struct error *error = enough ? shared_trace_clean(&shared, beside->trace) :
				       error_new(ERROR_FAILED, "out of memory");
	vec_free(&names);
	return error;
}
