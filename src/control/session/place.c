/*
 * place.c - put the agent and all probes into the target, and take them out again.
 *
 * In: plan everything; hold one thread to map the agent and the windows for trampolines; write the
 * trampolines from here; exchange the bytes of all sites in one stop.
 *
 * Out, for the target and for every process that was forked from it and still maps the code (H12):
 * bytes back; wait until no thread is in a trampoline or in the agent; unmap. A process that has
 * called execve since then has none of our mappings, and isn't touched.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <time.h>

#include "../base/cleanup.h"
#include "internal.h"
#include "markers.h"

#define STOP_TIMEOUT_MS 2000
#define HWCAP2_FSGSBASE 2u
#define IDLE_TIMEOUT_MS 2000
#define IDLE_STEP_MS 100
#define WINDOW_PAGES_MIN 16
#define CHILDREN_ROUNDS 8

/* ---- in ------------------------------------------------------------------------------------- */

/* A tracepoint the user named must have a site; one that a glob found may be refused, if not all are. */
static struct error *check_refusals(const struct session *session)
{
	const struct tracepoint *refused = NULL;
	size_t placed = 0;

	for (size_t i = 0; i < session->tracepoints.count; i++) {
		const struct tracepoint *tracepoint = session->tracepoints.items[i];

		if (!tracepoint->probe.refusal)
			placed++;
		else if (!refused || !tracepoint->from_glob)
			refused = tracepoint;
	}
	if (refused && (!placed || !refused->from_glob))
		return error_new(error_kind(refused->probe.refusal), "cannot probe '%s': %s", refused->name,
				 error_text(refused->probe.refusal));
	return NULL;
}

static struct error *decide(struct session *session)
{
	struct error *error = watch_create(session);

	if (!error)
		error = planner_create(session->proc, &session->planner);
	if (error)
		return error;
	size_t count = session->tracepoints.count, watches = session->watches.count;
	_cleanup_free_ struct probe **probes = calloc(count + watches + 1, sizeof(*probes));
	if (!probes)
		return error_new(ERROR_FAILED, "out of memory");
	for (size_t i = 0; i < count; i++)
		probes[i] = &session->tracepoints.items[i]->probe;
	for (size_t i = 0; i < watches; i++)
		probes[count + i] = session->watches.items[i];
	error = planner_decide(session->planner, probes, count + watches);
	return error ? error : check_refusals(session);
}

struct error *place_open_writer(struct session *session, const char *output, struct event_types *types,
				struct trace_writer **ret_writer)
{
	struct trace_info info = { .pid = session->proc->pid, .executable = session->proc->exe };

	gethostname(info.hostname, sizeof(info.hostname) - 1);
	snprintf(info.process, sizeof(info.process), "%s", session->proc->comm);
	info.command_line = session->command_line;
	info.modules = session->loaded.items;
	info.module_count = session->loaded.count;
	return writer_create(output, &info, types, &session->clock, ret_writer);
}

static struct error *open_trace(struct session *session)
{
	struct error *error = proc_cmdline(session->proc, &session->command_line);

	if (error)
		return error;
	for (size_t i = 0; i < session->modules.count && session->wants_unwind; i++) {
		char *text = module_describe(session->proc, session->modules.items[i]);

		if (!text || !vec_push(&session->loaded, text))
			free(text);
	}
	clock_start(&session->clock);
	return place_open_writer(session, session->options.output, session->types, &session->writer);
}

struct error *place_add_window(struct session *session, struct stop *stop, const struct plan_need *need)
{
	_cleanup_(maps_free) struct maps maps = { 0 };
	uint64_t pages = (need->bytes + DT_PAGE - 1) / DT_PAGE;
	uint32_t offset;
	taddr at = need->low;

	if (pages < WINDOW_PAGES_MIN && !need->fixed)
		pages = WINDOW_PAGES_MIN;
	struct error *error = maps_read(session->proc, &maps);
	if (!error && !need->fixed)
		error = near_find_gap(&maps, need->low, need->high, pages * DT_PAGE, &at);
	if (!error)
		error = inject_window(stop, session->agent, at, (uint32_t)pages, &offset);
	if (error && need->fixed && error_kind(error) != ERROR_GONE) {
		error_free(error); /* the planner refuses what needs it */
		return NULL;
	}
	if (error)
		return error;
	return near_pool_add(session->code, at, offset, pages * DT_PAGE) ?
		       NULL :
		       error_new(ERROR_FAILED, "out of memory");
}

static uint32_t agent_flags(const struct session *session)
{
	static const uint32_t modes[] = { [SESSION_OVERWRITE] = DT_OVERWRITE, [SESSION_BLOCK] = DT_BLOCK };

	return (session->options.follow_fork ? DT_FOLLOW_FORK : 0) | modes[session->options.mode];
}

/* The agent, and memory for all trampolines, by way of one held thread. */
static struct error *map_memory(struct session *session, struct stop *stop)
{
	_cleanup_free_ char *agent_path = NULL;
	struct inject_options options = { .pool_size = session->options.buffer_size,
					  .flags = agent_flags(session) };
	struct plan_needs needs = { 0 };
	struct error *error = agent_find(&agent_path);

	if (error)
		return error;
	options.agent_path = agent_path;
	error = inject_agent(stop, session->proc, &options, &session->agent);
	if (error)
		return error;
	session->code = near_pool_create();
	error = session->code ? planner_needs(session->planner, &needs) :
				error_new(ERROR_FAILED, "out of memory");
	for (size_t i = 0; i < needs.count && !error; i++)
		error = place_add_window(session, stop, &needs.items[i]);
	vec_free(&needs);
	if (!error && exits_wanted(session))
		error = exits_map(session, stop);
	if (!error && session->wants_unwind)
		error = unwinding_map(session, stop);
	return error;
}

static void note_stop(struct session *session, uint64_t us)
{
	if (us > session->stopped_us)
		session->stopped_us = us;
}

static struct error *map_with_stop(struct session *session, struct stop *held)
{
	struct stop *stop = NULL;
	uint64_t us = 0;

	if (held)
		return map_memory(session, held);
	/* One thread would do, but in a process that keeps every CPU busy it would wait for one at each step. */
	struct error *error = stop_all(session->proc, STOP_TIMEOUT_MS, &stop);
	if (!error)
		error = map_memory(session, stop);
	stop_release(stop, &us);
	note_stop(session, us);
	return error;
}

/* What the slow path must know of events, and the next controller of this trace. */
static void note_recording(struct session *session)
{
	struct dt_control *control = session->agent->control;
	const struct session_options *options = &session->options;

	control->event_count = (uint32_t)session->types->count;
	for (size_t id = 0; id < session->types->count; id++) {
		const struct event_type *type = &session->types->items[id];

		control->sizes[id] = (uint16_t)(type->is_variable ? DT_SIZE_VARIES : type->size);
	}
	control->block_ms = options->block_ms ? options->block_ms : SESSION_BLOCK_MS;
	if (session->proc->inner_pid != session->proc->pid)
		control->controller = 0; /* it has another number there, or none */
	writer_identify(session->writer, control->uuid, control->output, sizeof(control->output));
}

static struct error *write_trampolines(struct session *session)
{
	struct agent *agent = session->agent;
	struct tramp_env env = {
		.control = agent->control_at,
		.slots = taddr_add(agent->state_at, offsetof(struct dt_state, slots)),
		.pool = agent->pool_at,
	};

	agent->control->slow = agent->slow_at.v;
	note_recording(session);
	struct error *error = session->exits.returns.v ? exits_write(session, &env) : NULL;
	if (error)
		return error;
	session->env = env;
	planner_own_file(session->planner, agent->code_device, agent->code_inode);
	return planner_emit(session->planner, &env, session->code, (uint8_t *)agent->control);
}

/* For the next controller, should this one be killed: written before the target's text is. The length comes last. */
struct error *place_note(struct session *session, struct site *site)
{
	struct dt_control *control = session->agent->control;
	uint32_t index = session->free_note;

	while (index < control->site_count && control->sites[index].length)
		index++;
	if (index >= DT_SITES_MAX)
		return error_new(ERROR_FAILED, "more than %d places at once: name fewer", DT_SITES_MAX);
	struct dt_site *noted = &control->sites[index];
	noted->address = site->patch.address.v;
	noted->tramp_offset = (uint32_t)site->piece.offset;
	noted->own = watch_is_site(site);
	memcpy(noted->original, site->patch.original, sizeof(noted->original));
	memcpy(noted->patched, site->patch.patched, sizeof(noted->patched));
	__atomic_store_n(&noted->length, site->patch.length, __ATOMIC_RELEASE);
	if (index >= control->site_count)
		control->site_count = index + 1;
	site->noted = index;
	session->free_note = index + 1;
	return NULL;
}

void place_unnote(struct session *session, struct site *site)
{
	__atomic_store_n(&session->agent->control->sites[site->noted].length, 0, __ATOMIC_RELEASE);
	if (site->noted < session->free_note)
		session->free_note = site->noted;
}

static struct error *note_sites(struct session *session)
{
	struct error *error = NULL;

	for (size_t i = 0; i < planner_site_count(session->planner) && !error; i++)
		error = place_note(session, planner_site(session->planner, i));
	return error;
}

/* Pointers to the patches of all sites. Caller frees. */
static struct patch_site **list_patches(const struct session *session, size_t *ret_count)
{
	size_t count = session->found ? session->found_count : planner_site_count(session->planner);
	struct patch_site **patches = calloc(count + 1, sizeof(*patches));

	for (size_t i = 0; patches && i < count; i++)
		patches[i] = session->found ? &session->found[i] : &planner_site(session->planner, i)->patch;
	*ret_count = count;
	return patches;
}

/* What couldn't be placed after all becomes its probes' refusal. */
static void hand_on_failures(struct session *session)
{
	for (size_t i = 0; i < planner_site_count(session->planner); i++) {
		struct site *site = planner_site(session->planner, i);

		for (size_t j = 0; site->patch.state == PATCH_FAILED && j < site->probes.count; j++) {
			struct probe *probe = site->probes.items[j];

			probe->refusal = error_new(ERROR_REFUSED, "%s", error_text(site->patch.error));
			probe->site = NULL;
		}
	}
}

static struct error *patch_all(struct session *session, struct stop *held)
{
	struct patch_stats stats = { 0 };
	size_t count;
	_cleanup_free_ struct patch_site **patches = list_patches(session, &count);

	if (!patches)
		return error_new(ERROR_FAILED, "out of memory");
	session->placed = true;
	struct error *error = patch_place(session->proc, held, patches, count, &stats);
	note_stop(session, stats.stopped_us);
	hand_on_failures(session);
	return error ? error : check_refusals(session);
}

/* Trampolines read the FS base with an instruction of its own, and the clock with rdtsc. */
static struct error *check_machine(void)
{
	if (!(getauxval(AT_HWCAP2) & HWCAP2_FSGSBASE))
		return error_new(ERROR_FAILED, "this kernel or processor has no rdfsbase: Linux 5.9 and a processor "
					       "of 2012 or later are needed");
	return NULL;
}

struct error *place_all(struct session *session, struct stop *held)
{
	struct error *error = check_machine();

	if (!error)
		error = decide(session);

	if (!error)
		error = exits_check(session);
	if (!error)
		error = tracepoints_types(session);
	if (!error)
		error = open_trace(session);
	if (!error)
		error = map_with_stop(session, held);
	if (!error)
		error = inject_fill_pool(session->agent);
	if (!error)
		error = write_trampolines(session);
	if (!error)
		error = note_sites(session);
	if (!error && session->exits.returns.v)
		error = exits_register(session, held);
	if (!error)
		error = patch_all(session, held);
	for (size_t i = 0; i < session->tracepoints.count && !error; i++)
		error = semaphores_raise(session, session->tracepoints.items[i]);
	return error;
}

/* ---- out ------------------------------------------------------------------------------------ */

/* Does the process still have our code where we put it? Not after execve. */
bool place_has_code(const struct session *session, struct proc *proc)
{
	_cleanup_(maps_free) struct maps maps = { 0 };
	_cleanup_error_ struct error *error = maps_read(proc, &maps);
	const struct mapping *found = error ? NULL : maps_find(&maps, session->agent->control_at);

	return found && found->inode == session->agent->code_inode &&
	       found->device == session->agent->code_device;
}

/* One look: bytes back, and is anybody in a trampoline? */
static struct error *try_restore(const struct session *session, struct proc *proc, bool *ret_idle)
{
	struct patch_stats stats;
	size_t count;
	_cleanup_free_ struct patch_site **patches = list_patches(session, &count);
	_cleanup_free_ struct patch_site *copies = calloc(count + 1, sizeof(*copies));

	if (!patches || !copies)
		return error_new(ERROR_FAILED, "out of memory");
	/* Each process has its own text: work on copies that say what this one holds. */
	for (size_t i = 0; i < count; i++) {
		copies[i] = *patches[i];
		copies[i].error = NULL;
		patches[i] = &copies[i];
	}
	struct error *error = patch_remove(proc, patches, count, IDLE_STEP_MS, ret_idle, &stats);
	for (size_t i = 0; i < count; i++)
		error_free(copies[i].error);
	return error;
}

/* Threads that wait for room in the buffers (B8) get some meanwhile. */
static struct error *restore_text(struct session *session, struct proc *proc, bool *ret_idle)
{
	struct error *error = NULL;

	*ret_idle = false;
	for (unsigned waited = 0; !error && !*ret_idle && waited < IDLE_TIMEOUT_MS; waited += IDLE_STEP_MS) {
		error = try_restore(session, proc, ret_idle);
		recording_make_room(session);
	}
	return error;
}

/* The memory that no thread may be in when it is unmapped. */
static size_t list_ranges(const struct session *session, struct patch_range *ranges)
{
	const struct agent *agent = session->agent;
	size_t count = 0;

	ranges[count++] = (struct patch_range){ agent->agent_at, taddr_add(agent->agent_at, DT_AGENT_SIZE) };
	ranges[count++] = (struct patch_range){ agent->state_at,
						taddr_add(agent->state_at, sizeof(struct dt_state)) };
	for (uint32_t i = 0; i < agent->control->window_count; i++) {
		const struct dt_window *window = &agent->control->windows[i];
		taddr start = taddr_of(window->address);

		if (taddr_equal(start, session->exits.window))
			continue; /* stale words may lead there: exits_settle knows better */
		ranges[count++] = (struct patch_range){
			start, taddr_add(start, (int64_t)(window->pages * DT_PAGE))
		};
	}
	return count;
}

/* One try: *ret_done false means that a thread was still inside. */
static struct error *try_unmap(const struct session *session, struct proc *proc,
			       const struct patch_range *ranges, size_t range_count, bool *ret_done)
{
	_cleanup_(cleanup_stop) struct stop *stop = NULL;
	struct error *error = stop_all(proc, STOP_TIMEOUT_MS, &stop);
	bool found = false;

	if (!error)
		error = patch_find_threads(proc, stop, ranges, range_count, &found);
	if (!error && exits_find_threads(session, stop))
		found = true;
	if (!error && !found)
		error = exits_unmap(session, stop);
	if (!error && !found)
		error = inject_remove(stop, session->agent);
	*ret_done = !error && !found;
	return error;
}

static struct error *unmap_all(struct session *session, struct proc *proc)
{
	struct patch_range ranges[DT_WINDOWS_MAX + 2];
	size_t range_count = list_ranges(session, ranges);
	bool done = false;

	for (unsigned waited = 0, pause = 1; !done; waited += pause, pause *= 2) {
		struct error *error = try_unmap(session, proc, ranges, range_count, &done);

		if (error)
			return error;
		if (!done && waited > IDLE_TIMEOUT_MS)
			return error_new(ERROR_FAILED, "a thread stays inside a probe");
		recording_make_room(session);
		struct timespec nap = { .tv_nsec = done ? 0 : pause * 1000000L };
		nanosleep(&nap, NULL);
	}
	return NULL;
}

/* What a process can't be left for is no matter any more when it has ended. */
static struct error *unless_gone(struct error *error)
{
	if (!error || error_kind(error) != ERROR_GONE)
		return error;
	error_free(error);
	return NULL;
}

/* From here on the process records nothing more. */
static struct error *quiet_process(struct session *session, struct proc *proc)
{
	bool idle = true, clean = true;

	semaphores_lower_all(session, proc);
	struct error *error = change_restore(session, proc, &idle);

	if (!error && session->placed && idle)
		error = restore_text(session, proc, &idle);

	if (!error && !idle)
		error = error_new(ERROR_FAILED, "a thread stays inside a probe");
	if (!error)
		error = exits_settle(session, proc, &clean);
	if (!error && !clean)
		error = error_new(ERROR_FAILED,
				  "a call that never returned may still do so (longjmp, an exception, a "
				  "copied stack): its return stub must stay");
	return error;
}

static struct error *unmap_process(struct session *session, struct proc *proc)
{
	struct error *error = exits_unregister(session, proc);

	return error ? error : unmap_all(session, proc);
}

/* A process that has our code. */
struct holder {
	struct proc *proc;
	bool quiet;
};

struct holders {
	struct holder *items;
	size_t count;
	size_t room;
};

static void note_left(struct session_summary *summary, pid_t pid, struct error *error)
{
	if (!error)
		return;
	summary->left = true;
	snprintf(summary->why, sizeof(summary->why), "the agent stays in process %d: %s", pid,
		 error_text(error));
	error_free(error);
}

static void add_holder(struct session *session, struct holders *holders, struct proc *proc,
		       struct session_summary *summary)
{
	struct holder holder = { .proc = proc };

	if (proc_is_alive(proc) && place_has_code(session, proc)) {
		struct error *error = unless_gone(quiet_process(session, proc));

		holder.quiet = !error;
		note_left(summary, proc->pid, error);
	}
	if (!vec_push(holders, holder)) {
		note_left(summary, proc->pid, error_new(ERROR_FAILED, "out of memory"));
		if (proc != session->proc)
			proc_close(proc);
	}
}

static bool is_holder(const struct holders *holders, pid_t pid)
{
	for (size_t i = 0; i < holders->count; i++) {
		if (holders->items[i].proc->pid == pid)
			return true;
	}
	return false;
}

/* Forked children that aren't known yet. */
static bool add_children(struct session *session, struct holders *holders, struct session_summary *summary)
{
	struct tids pids = { 0 };
	struct error *error = inject_find_children(session->agent, &pids);
	bool any = false;

	for (size_t i = 0; !error && i < pids.count; i++) {
		struct proc *child = NULL;

		if (is_holder(holders, pids.items[i]))
			continue;
		struct error *failed = unless_gone(proc_open_plain(pids.items[i], &child));
		note_left(summary, pids.items[i], failed);
		if (child)
			add_holder(session, holders, child, summary);
		any |= child != NULL;
	}
	vec_free(&pids);
	note_left(summary, session->proc->pid, error);
	return any;
}

/* First they all record nothing more, then what they recorded is looked at by who wants to, then it is unmapped. */
struct error *place_undo(struct session *session, struct session_summary *summary)
{
	struct holders holders = { 0 };
	struct error *error = NULL;

	if (!session->agent)
		return NULL;
	add_holder(session, &holders, session->proc, summary);
	for (int round = 0; round < CHILDREN_ROUNDS && add_children(session, &holders, summary); round++)
		;
	if (session->quiet)
		error = session->quiet(session);
	for (size_t i = 0; i < holders.count; i++) {
		struct holder *holder = &holders.items[i];

		if (holder->quiet && proc_is_alive(holder->proc) && place_has_code(session, holder->proc))
			note_left(summary, holder->proc->pid,
				  unless_gone(unmap_process(session, holder->proc)));
		if (holder->proc != session->proc)
			proc_close(holder->proc);
	}
	vec_free(&holders);
	return error;
}
