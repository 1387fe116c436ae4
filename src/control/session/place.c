/*
 * place.c - put probes into the target, and with the first of them the agent.
 *
 * Plan everything; hold one thread to map the agent, if it isn't there, and windows for
 * trampolines; write the trampolines from here; exchange the bytes of all sites in one stop. The
 * first tracepoints and later ones go the same way.
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <x86intrin.h>
#include <sys/auxv.h>
#include <time.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "control/base/now.h"
#include "control/base/interrupt.h"
#include "control/codegen/tramp_frame.h"
#include "control/placement/go_prologue.h"
#include "control/proc/memory_room.h"
#include "change.h"
#include "control/exits/exits.h"
#include "free_hops.h"
#include "garbage.h"
#include "info.h"
#include "place.h"
#include "control/session/own_probes/fronts.h"
#include "control/session/own_probes/library_notice.h"
#include "control/session/own_probes/plain_loads.h"
#include "control/session/own_probes/own_probes.h"
#include "control/session/own_probes/traps.h"
#include "control/session/own_probes/unwinding.h"
#include "control/session/processes/children.h"
#include "control/session/processes/follow_state.h"
#include "control/session/state/switches.h"
#include "recording.h"
#include "control/tracers/call/call_tracer.h"
#include "control/tracers/sync/sync_tracer.h"
#include "control/tracers/dispatch.h"
#include "control/tracers/lttng/lttng_tracer.h"
#include "types.h"
#include "mapping.h"
#include "control/session/own_probes/semaphores.h"

#define HWCAP2_FSGSBASE 2u
#define AGENT_NEEDS (1u << 20) /* bytes, at most: docs/limits.md */
#define OWN_NEEDS (1u << 20) /* bytes beside the buffer, to begin to record */

struct placing {
	struct tramp_env env; /* addresses for the trampolines */
	uint32_t free_note; /* no free entry of dt_control.sites lies before this */
};

bool place_create(struct session *session)
{
	session->placing = calloc(1, sizeof(*session->placing));
	return session->placing != NULL;
}

void place_free(struct session *session)
{
	free(session->placing);
}

/* A tracepoint that the user named must have a site. Of those that a glob found, some may be
 * refused, not all. */
static struct error *check_refusals(const struct tracepoint_list *list)
{
	const struct tracepoint *refused = NULL;
	size_t placed = 0;

	for (size_t i = 0; i < list->count; i++) {
		const struct tracepoint *tracepoint = list->items[i];

		if (!tracepoint->probe.refusal)
			placed++;
		else if (!refused || !tracepoint->from_glob)
			refused = tracepoint;
	}
	if (refused && (!placed || !refused->from_glob))
		return error_new(error_kind(refused->probe.refusal), "cannot probe '%s': %s",
				 refused->name, error_text(refused->probe.refusal));
	return NULL;
}

/* A forked child that runs the code of old trampolines forbids redirects (change_clear_way). */
static bool may_redirect(void *session)
{
	return garbage_is_unshared(session);
}

/* Makes the planner, and dyntrace's own probes. */
static struct error *prepare_planner(struct session *session)
{
	struct error *error = own_probes_create(session);

	if (!error)
		error = planner_create(session->proc, &session->planner);
	if (!error)
		garbage_expect(session);
	if (!error)
		planner_allow_traps(session->planner, traps_allow, session);
	if (!error)
		planner_ask_redirects(session->planner, may_redirect, session);
	if (!error && exits_shadow_stack_of(session->proc->pid))
		planner_keep_calls(session->planner);
	return error;
}

/* A call of a Go function that begins anew counts once; a probe on the instruction counts each
 * time. */
static void note_go(struct session *session, struct tracepoint *tracepoint)
{
	const struct place *place = &tracepoint->probe.place;
	uint64_t address = place->module ? place->address.v - place->module->bias.v : 0;
	struct tramp_event *event = &tracepoint->probe.event;
	struct go_prologue prologue;
	struct symtab *symtab;

	if (tracepoint->kind == TRACEPOINT_BARE || tracepoint->waits || !place->module)
		return;
	_cleanup_error_ struct error *unreadable =
		module_symtab(session->proc, place->module, &symtab);
	if (unreadable || !symtab_is_go(symtab))
		return;
	event->is_go = go_prologue_is_go_code(symtab, address);
	if (!go_prologue_read(symtab, address, &prologue))
		return;
	event->check_length = prologue.length;
	event->check_frame = prologue.frame;
}

static struct error *decide(struct session *session, const struct tracepoint_list *list)
{
	struct error *error = session->planner ? NULL : prepare_planner(session);

	if (!error)
		error = fronts_add_guards(session);
	if (!error)
		error = exits_hook_add(session, list);
	if (error)
		return error;
	size_t count = 0;
	_cleanup_free_ struct probe **probes =
		calloc(list->count + session->own_probes.count + 1, sizeof(*probes));
	if (!probes)
		return error_new(ERROR_FAILED, "out of memory");
	for (size_t i = 0; i < list->count; i++) {
		if (list->items[i]->waits || list->items[i]->probe.site)
			continue;
		note_go(session, list->items[i]);
		probes[count++] = &list->items[i]->probe;
	}
	for (size_t i = 0; i < session->own_probes.count; i++) {
		struct probe *probe = session->own_probes.items[i];

		if (!probe->site && !probe->refusal)
			probes[count++] = probe;
	}
	assert(count <= list->count + session->own_probes.count);
	error = planner_decide(session->planner, probes, count);
	loads_want(session, list);
	if (!error)
		error = traps_guard(session);
	return error ? error : check_refusals(list);
}

/* ---- ends of functions (R9) ----------------------------------------------------------------- */

/* Takes back the probes of tracepoints that don't have all of them. */
static void drop_incomplete(struct session *session, const struct tracepoint_list *list,
			    bool (*is_complete)(const struct tracepoint *tracepoint))
{
	struct site_list *gone = garbage_room(session);
	struct tracepoint_list incomplete = { 0 };

	for (size_t i = 0; i < list->count; i++) {
		struct tracepoint *tracepoint = list->items[i];

		if (!tracepoint->leaves.count || is_complete(tracepoint))
			continue;
		exits_late_refuse(tracepoint);
		if (!vec_push(&incomplete, tracepoint)) /* one by one, then */
			change_release_leaves(
				session, &(struct tracepoint_list){ &tracepoint, 1, 1 }, gone);
	}
	change_release_leaves(session, &incomplete, gone);
	vec_free(&incomplete);
	change_discard(session, gone);
}

/* Decides on probes at the ends of functions, once the list's own probes have their sites. */
static struct error *decide_late(struct session *session, const struct tracepoint_list *list)
{
	VEC(struct probe *) probes = { 0 };
	struct error *error = exits_late_add(session, list);

	for (size_t i = 0; i < list->count && !error; i++) {
		const struct tracepoint *tracepoint = list->items[i];

		for (size_t j = 0; j < tracepoint->leaves.count && !error; j++) {
			struct probe *probe = tracepoint->leaves.items[j];

			if (!probe->site && !vec_push(&probes, probe))
				error = error_new(ERROR_FAILED, "out of memory");
		}
	}
	if (!error && probes.count)
		error = planner_decide(session->planner, probes.items, probes.count);
	vec_free(&probes);
	if (!error)
		drop_incomplete(session, list, exits_late_has_sites);
	return error ? error : exits_check_ends(list);
}

/* The events of the ends have the id of the entry, which is known by now. */
static void number_late(const struct tracepoint_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		struct tracepoint *tracepoint = list->items[i];

		for (size_t j = 0; j < tracepoint->leaves.count; j++)
			tracepoint->leaves.items[j]->event.id = tracepoint->probe.event.id;
	}
}

/* All sites are placed that can be. */
static struct error *begin_late(struct session *session, const struct tracepoint_list *list,
				struct stop *held)
{
	drop_incomplete(session, list, exits_late_is_placed);
	for (size_t i = 0; i < list->count; i++) {
		if (list->items[i]->leaves.count)
			exits_late_switch(session, list->items[i], true);
	}
	/* Takes placed parts of incomplete ones out; with held threads, the next change does. */
	return held ? NULL : garbage_take_out(session);
}

/* ---- code ----------------------------------------------------------------------------------- */

/* Writes sizes of events, and the facts that the next controller needs about this trace. */
static void note_recording(struct session *session)
{
	struct dt_control *control = session->agent->control;
	const struct session_options *options = &session->options;

	session_note_sizes(session);
	control->program = session->program;
	control->block_ms = options->block_ms ? options->block_ms : SESSION_BLOCK_MS;
	if (session->proc->inner_pid != session->proc->pid)
		control->controller = 0; /* our pid is another there, or none */
	if (session->writer && !control->output[0]) {
		struct writer_part part;

		writer_identify(session->writer, &part, control->output, sizeof(control->output));
		memcpy(control->uuid, part.uuid, sizeof(control->uuid));
		control->part = part.number;
	}
}

static struct error *prepare_env(struct session *session)
{
	struct agent *agent = session->agent;

	session->placing->env = (struct tramp_env){
		.control = agent->control_at,
		.slots = taddr_add(agent->state_at, offsetof(struct dt_state, slots)),
		.pool = agent->pool_at,
	};
	agent->control->slow = agent->slow_at.v;
	planner_own_file(session->planner, agent->code_device, agent->code_inode);
	return tramp_frame_table(agent->control, agent->control_at) ?
		       NULL :
		       error_new(ERROR_FAILED, "the table for unwinders is too long");
}

/* Sets the switches of disabled tracepoints before their sites are patched. */
static struct error *write_trampolines(struct session *session, const struct tracepoint_list *list,
				       const struct mapping_wants *wants)
{
	struct agent *owner = session->parent ? session->parent->agent : session->agent;
	assert(owner && session->agent && session->code); /* mapping_make was here */
	struct error *error = wants->agent ? prepare_env(session) : NULL;

	if (!error)
		error = agent_fill_tallies(owner, (uint32_t)session->types->count);
	note_recording(session);
	if (!error && wants->exits)
		error = exits_write(session, &session->placing->env);
	if (!error)
		free_hops_clear(session);
	if (!error)
		error = planner_emit(session->planner, &session->placing->env, session->code,
				     (uint8_t *)session->agent->control);
	for (size_t i = 0; i < list->count && !error; i++)
		switches_write(session, list->items[i]);
	return error;
}

/* Written before the target's text, for the next controller, if this one is killed. The length
 * comes last. */
struct error *place_note(struct session *session, struct site *site)
{
	struct dt_control *control = session->agent->control;
	place_unnote(session, site); /* a try that failed may have noted it */
	uint32_t index = session->placing->free_note;

	assert(site->patch.state == PATCH_PLANNED);
	assert(index <= control->site_count && control->site_count <= DT_SITES_MAX);
	assert(site->patch.length && site->patch.length <= DT_SITE_BYTES);

	while (index < control->site_count && control->sites[index].length)
		index++;
	if (index >= DT_SITES_MAX)
		return error_new(ERROR_FAILED, "more than %d places at once (name fewer)",
				 DT_SITES_MAX);
	struct dt_site *noted = &control->sites[index];
	noted->address = site->patch.address.v;
	own_probes_mark_last(site);
	noted->own = site->patch.is_guard ? DT_SITE_GUARD :
		     site->patch.is_last  ? DT_SITE_LAST :
					    own_probes_is_site(site);
	noted->check = dt_site_check(site->patch.patched, site->patch.length);
	__atomic_store_n(&noted->length, site->patch.length, __ATOMIC_RELEASE);
	if (index >= control->site_count)
		control->site_count = index + 1;
	site->noted = index + 1;
	session->placing->free_note = index + 1;
	return NULL;
}

void place_unnote(struct session *session, struct site *site)
{
	uint32_t index = site->noted - 1;

	if (!site->noted)
		return;
	assert(index < session->agent->control->site_count);
	assert(session->agent->control->sites[index].address == site->patch.address.v);
	__atomic_store_n(&session->agent->control->sites[index].length, 0, __ATOMIC_RELEASE);
	if (index < session->placing->free_note)
		session->placing->free_note = index;
	site->noted = 0;
}

/* ---- the target's text ---------------------------------------------------------------------- */

/* Lists and notes the planned sites, and lists the sites that they replace. Caller frees. */
static struct error *list_new(struct session *session, struct patch_site ***ret_patches,
			      size_t *ret_count)
{
	const struct site_list *old = planner_superseded(session->planner);
	struct patch_site **patches =
		calloc(planner_site_count(session->planner) + old->count + 1, sizeof(*patches));
	struct error *error = patches ? NULL : error_new(ERROR_FAILED, "out of memory");
	size_t count = 0;

	for (size_t i = 0; i < planner_site_count(session->planner) && !error; i++) {
		struct site *site = planner_site(session->planner, i);

		if (site->patch.state != PATCH_PLANNED)
			continue;
		if (site->way == DIVERT_TRAP && site->group && !traps_note(session, site))
			error = error_new(ERROR_FAILED, "too many traps (remove some)");
		if (site->way != DIVERT_TRAP || site->group) /* else traps_place */
			patches[count++] = &site->patch;
		if (!error)
			error = place_note(session, site);
	}
	for (size_t i = 0; i < old->count && !error; i++)
		patches[count++] = &old->items[i]->patch;
	if (error) {
		free(patches);
		return error;
	}
	for (size_t i = 0; i < SESSION_GUESTS && session->guests[i] && !error; i++) {
		if (session->guests[i]->join)
			error = session->guests[i]->join(session, &patches, &count);
	}
	*ret_patches = patches;
	*ret_count = count;
	return error;
}

/* Adds removed sites, to be redirected to the sites that are placed now (P8). */
static struct error *join_garbage(struct session *session, struct patch_site ***patches,
				  size_t *count)
{
	struct patch_site **all =
		reallocarray(*patches, *count + session->garbage.count + 1, sizeof(*all));

	if (!all)
		return error_new(ERROR_FAILED, "out of memory");
	*patches = all;
	for (size_t i = 0; i < session->garbage.count; i++) {
		if (session->garbage.items[i]->patch.state == PATCH_REMOVED)
			all[(*count)++] = &session->garbage.items[i]->patch;
	}
	return NULL;
}

/* Refuses the probes of sites that couldn't be placed. No thread ever was in their code. */
static void hand_on_failures(struct session *session, const struct tracepoint_list *list,
			     struct stop *held)
{
	struct tracepoint_list failed = { 0 };

	for (size_t i = 0; i < list->count; i++) {
		struct probe *probe = &list->items[i]->probe;
		const struct site *site = probe->site;

		if (!site || site->patch.state != PATCH_FAILED)
			continue;
		probe->refusal = error_new(ERROR_REFUSED, "%s", error_text(site->patch.error));
		if (held)
			probe->site = NULL;
		else if (!vec_push(&failed, list->items[i])) /* one by one, then */
			error_free(change_release(session, &(struct tracepoint_list){
								   &list->items[i], 1, 1 }));
	}
	error_free(change_release(session, &failed));
	vec_free(&failed);
}

/* Hits count from the first placing on, in which all tracepoints of session_begin are placed in one
 * stop. Before the stop: no hit is earlier. */
static void note_begin(struct session *session)
{
	if (session->recorded_since)
		return;
	session->recorded_since = __rdtsc();
	session->begun_ns = now_ns();
}

static struct error *patch_new(struct session *session, const struct tracepoint_list *list,
			       struct stop *held)
{
	struct patch_stats stats = { 0 };
	_cleanup_free_ struct patch_site **patches = NULL;
	size_t count = 0;
	bool unshared;
	struct error *error = list_new(session, &patches, &count);

	if (error)
		return error;
	session->placed = true;
	change_clear_way(session, &unshared);
	if (unshared)
		error = join_garbage(session, &patches, &count);
	note_begin(session);
	if (!error && count)
		error = patch_place(session->proc, lttng_tracer_has_thread(session) ? NULL : held,
				    patches, count,
				    &(struct patch_also){ .run = fronts_install, .data = session },
				    &stats);
	mapping_note_stop(session, stats.stopped_us);
	if (!error && session->begun)
		children_place(session, list, patches, count);
	if (!error)
		change_settle(session);
	if (!error)
		error = traps_place(session, held);
	if (!error)
		loads_begin(session, held);
	hand_on_failures(session, list, held);
	return error ? error : check_refusals(list);
}

/* ---- all steps ------------------------------------------------------------------------------ */

/* Trampolines read the FS base with an instruction of its own, and the clock with rdtsc. */
static struct error *check_machine(void)
{
	if (!(getauxval(AT_HWCAP2) & HWCAP2_FSGSBASE))
		return error_new(
			ERROR_FAILED,
			"this kernel or processor has no rdfsbase (Linux 5.9 and a processor "
			"of 2012 or later are needed)");
	if (!clock_tsc_trusted(NULL) && !getenv("DYNTRACE_TRUST_TSC"))
		return error_new(
			ERROR_FAILED,
			"this kernel has found the processors' clock (TSC) unstable, and times "
			"would be wrong (set DYNTRACE_TRUST_TSC=1 to record all the same)");
	return NULL;
}

/* Latency of the tracepoints that record exits. */
static struct error *prepare_latency(struct session *session, const struct tracepoint_list *list)
{
	struct latency *latency = session->parent ? &session->parent->latency : &session->latency;
	bool added = true;

	latency_init(latency, session->types);
	for (size_t i = 0; i < list->count; i++) {
		const struct probe *probe = &list->items[i]->probe;

		if (probe->site && probe->event.exit && list->items[i]->tracer->uses_pool)
			added &= latency_add(latency, probe->event.id);
	}
	return added ? NULL : error_new(ERROR_FAILED, "out of memory");
}

/* The agent's memory, and each page of code with a probe, is the process's own. */
static struct error *check_memory(const struct session *session)
{
	uint64_t need = session->agent ? 0 : AGENT_NEEDS, page = UINT64_MAX, room;

	for (size_t i = 0; i < planner_site_count(session->planner); i++) {
		const struct site *site = planner_site(session->planner, i);

		need += !site->emitted && site->address.v / DT_PAGE != page ? DT_PAGE : 0;
		page = site->address.v / DT_PAGE;
	}
	if (!need || !memory_room_of(session->proc->pid, &room) || room >= need)
		return NULL;
	return error_new(ERROR_FAILED,
			 "process %d has %" PRIu64 " KiB left in its memory cgroup, and tracing may "
			 "take %" PRIu64 " KiB of it (raise the cgroup's limit)",
			 session->proc->pid, room / 1024, need / 1024);
}

/* The whole buffer is taken at once: the kernel would end us without a word. */
static struct error *check_own_memory(const struct session *session)
{
	uint64_t size = session->options.buffer_size ? session->options.buffer_size :
						       DT_POOL_DEFAULT;
	uint64_t room;

	if (session->agent || session->parent || !memory_room_of(getpid(), &room) ||
	    room >= size + OWN_NEEDS)
		return NULL;
	return error_new(ERROR_FAILED,
			 "dyntrace has %" PRIu64 " KiB left in its own memory cgroup, and its "
			 "buffer takes %" PRIu64
			 " KiB (raise the cgroup's limit, or choose a smaller --buffer-size)",
			 room / 1024, (size + OWN_NEEDS) / 1024);
}

static struct error *prepare(struct session *session, const struct tracepoint_list *list)
{
	struct error *error = session->agent ? NULL : check_machine();

	for (size_t i = 0; i < list->count; i++)
		list->items[i]->probe.spent = 0; /* memory that was taken then may be free now */
	if (!error && !session->command_line)
		error = proc_cmdline(session->proc, &session->command_line);
	if (!error)
		error = decide(session, list);
	if (!error)
		error = check_memory(session);
	if (!error)
		error = check_own_memory(session);
	if (!error)
		error = follow_check(session);
	if (!error)
		error = exits_check(session, list);
	if (!error)
		error = decide_late(session, list);
	if (!error)
		error = types_assign(session, list);
	if (!error)
		number_late(list);
	if (!error && session->parent)
		error = follow_join_trace(session);
	if (!error)
		error = prepare_latency(session, list);
	if (!error && !session->agent && session->options.before_change)
		session->options.before_change();
	if (!error)
		error = interrupt_check();
	return error ? error : recording_open_trace(session, list);
}

static bool may_try_again(const struct tracepoint_list *list)
{
	bool again = false;

	for (size_t i = 0; i < list->count; i++)
		again |= list->items[i]->probe.again;
	return again;
}

/* Retries probes whose tactic failed for lack of memory at the right place, with the tactics that
 * are left. */
static struct error *write_again(struct session *session, const struct tracepoint_list *list,
				 struct stop *held)
{
	const struct mapping_wants wants = { .list = list };
	struct error *error = NULL;

	while (!error && may_try_again(list)) { /* ends: each round has one tactic less */
		error = decide(session, list);
		if (!error)
			error = mapping_make(session, &wants, held);
		if (!error)
			error = write_trampolines(session, list, &wants);
	}
	return error;
}

/* Maps memory, and writes trampolines there. */
static struct error *make_code(struct session *session, const struct mapping_wants *wants,
			       struct stop *held)
{
	struct error *error = mapping_make(session, wants, held);

	if (!error)
		error = tracers_prepare(session, wants->list, held);
	if (!error)
		error = write_trampolines(session, wants->list, wants);
	return error ? error : write_again(session, wants->list, held);
}

/* Prepares the controller for the events that the sites will record. */
static struct error *prepare_reading(struct session *session, const struct mapping_wants *wants,
				     struct stop *held)
{
	struct trace_writer *writer = session->parent ? session->parent->writer : session->writer;
	struct error *error = NULL;

	if (!session->reader && (session->writer || tracepoint_list_uses_pool(wants->list)) &&
	    !session->parent)
		error = recording_open(session);
	if (!error && wants->exits)
		error = exits_register(session, held);
	session->exits->ready |= !error && wants->exits;
	if (!error && writer)
		error = writer_note_types(writer);
	if (!error)
		library_notice_update(session);
	return error;
}

struct error *place_list(struct session *session, const struct tracepoint_list *list,
			 struct stop *held)
{
	/* what a change before couldn't take out would be taken for the program's own code */
	struct error *error = session->agent && session->planner ? garbage_take_out(session) : NULL;

	if (!error)
		error = prepare(session, list);
	struct mapping_wants wants = {
		.agent = !session->agent,
		.exits = !session->exits->ready && exits_wanted(list),
		.unwind = session->wants_unwind && !session->unwinding->mapped,
		.tracers = tracers_wants(session, list),
		.list = list,
	};

	if (!error)
		call_tracer_reckon(session, list);
	if (!error)
		error = sync_tracer_reckon(session, list);
	if (!error)
		error = make_code(session, &wants, held);
	if (!error)
		error = prepare_reading(session, &wants, held);
	if (!error)
		error = interrupt_check();
	if (!error)
		error = patch_new(session, list, held);
	if (!error)
		error = begin_late(session, list, held);
	if (!error)
		error = call_tracer_enable(session, list, held);
	if (!error)
		sync_tracer_enable(session, list, true);
	info_placed(list);
	for (size_t i = 0; i < list->count && !error; i++)
		error = semaphores_raise(session, list->items[i]);
	if (error && session->planner)
		change_settle(session);
	return error;
}
