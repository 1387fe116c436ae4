/*
 * place.c - put probes into the target, and with the first of them the agent.
 *
 * Plan everything; hold one thread to map the agent, if it isn't there, and windows for
 * trampolines; write the trampolines from here; exchange the bytes of all sites in one stop. The
 * first tracepoints and later ones go the same way.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <x86intrin.h>

#include "control/base/cleanup.h"
#include "control/base/now.h"
#include "control/base/interrupt.h"
#include "control/codegen/tramp_frame.h"
#include "change.h"
#include "control/exits/exits.h"
#include "free_hops.h"
#include "garbage.h"
#include "info.h"
#include "place.h"
#include "place_decide.h"
#include "control/session/memory/mapping.h"
#include "control/session/memory/room_check.h"
#include "control/session/memory/site_notes.h"
#include "control/session/own_probes/fronts.h"
#include "control/session/own_probes/library_notice.h"
#include "control/session/own_probes/plain_loads.h"
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
#include "control/session/own_probes/semaphores.h"

#define HWCAP2_FSGSBASE 2u

struct placing {
	struct tramp_env env; /* addresses for the trampolines */
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
			error = site_notes_add(session, site);
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
	return error ? error : place_decide_check(list);
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

static struct error *prepare(struct session *session, const struct tracepoint_list *list)
{
	struct error *error = session->agent ? NULL : check_machine();

	for (size_t i = 0; i < list->count; i++)
		list->items[i]->probe.spent = 0; /* memory that was taken then may be free now */
	if (!error && !session->command_line)
		error = proc_cmdline(session->proc, &session->command_line);
	if (!error)
		error = place_decide(session, list);
	if (!error)
		error = room_check_target(session);
	if (!error)
		error = room_check_own(session);
	if (!error)
		error = follow_check(session);
	if (!error)
		error = exits_check(session, list);
	if (!error)
		error = place_decide_ends(session, list);
	if (!error)
		error = types_assign(session, list);
	if (!error)
		place_decide_number_ends(list);
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
		error = place_decide(session, list);
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

	if (!error && exits_looks_near(session))
		__atomic_or_fetch(&session->agent->control->flags, DT_NEAR_FAULTS,
				  __ATOMIC_RELAXED);
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
		error = place_decide_begin_ends(session, list, held);
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
