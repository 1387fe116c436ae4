#include "call_tracer.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "control/tracers/code/call_code.h"
#include "control/tracers/lttng/image_fields.h"
#include "library.h"
#include "faults.h"
#include "control/session/internal.h"
#include "control/stop/stop.h"

#define SHARED_SIZE (DT_CALLS_MAX * sizeof(struct dt_call_shared))

_Static_assert(FOREIGN_GATE_ROOM == LOAD_GATE_ROOM, "gates");

/* ---- in the target --------------------------------------------------------------------------- */

static struct error *write_gates(struct session *session)
{
	struct tracers *tracers = &session->tracers;
	int64_t offset = 0;
	struct error *error = load_find_errno(session->proc, &session->modules, &offset);
	static const struct {
		enum foreign_state state;
		enum load_part part;
	} kinds[TRACERS_GATES] = { { FOREIGN_VECTORS, LOAD_GATE_CALL },
				   { FOREIGN_LOW, LOAD_GATE_CALL_LOW },
				   { FOREIGN_NOTHING, LOAD_GATE_CALL_BARE } };

	for (size_t i = 0; i < TRACERS_GATES && !error; i++) {
		uint32_t at = LOAD_PART_AT(kinds[i].part);

		if (!call_write_gate(kinds[i].state, offset, tracers->paper.here + at,
				     FOREIGN_GATE_ROOM, &tracers->gates[i]))
			error = error_new(ERROR_FAILED,
					  "the code that saves registers is too long");
		tracers->gates_at[i] = taddr_add(tracers->paper.there, at);
	}
	return error;
}

struct error *call_tracer_map(struct session *session, struct stop *stop)
{
	struct tracers *tracers = &session->tracers;
	void *shared;
	struct error *error = load_check(session->proc, &session->modules);

	if (tracers->calls || error)
		return error;
	error = load_map_paper(&tracers->paper, stop, session->agent);
	if (!error)
		error = faults_map(session, stop);
	if (!error)
		error = write_gates(session);
	if (!error)
		error = agent_share(stop, session->agent, "dyntrace-calls", SHARED_SIZE, &shared,
				     &tracers->shared_at);
	if (!error)
		tracers->calls = shared;
	return error;
}

/* ---- libraries ------------------------------------------------------------------------------- */

static struct library_place place_of(struct session *session, struct stop *held)
{
	struct tracers *tracers = &session->tracers;

	return (struct library_place){ .agent = session->agent,
				       .held = held,
				       .paper = &tracers->paper,
				       .answer = taddr_add(tracers->calls_at,
							   offsetof(struct dt_calls, load)),
				       .programs_used = &tracers->programs_used,
				       .types = session->types };
}

/* By its path, or by its file name if that has no '/'. */
static struct library *find_library(const struct session *session, const char *name)
{
	for (size_t i = 0; i < session->tracers.libraries.count; i++) {
		struct library *library = session->tracers.libraries.items[i];
		const char *slash = strrchr(library->path, '/');

		if (!strcmp(library->path, name) ||
		    (!strchr(name, '/') && slash && !strcmp(slash + 1, name)))
			return library;
	}
	return NULL;
}

static struct error *open_library(struct session *session, const char *path, struct stop *held,
				  struct library **ret_library)
{
	struct tracers *tracers = &session->tracers;
	struct library_place place = place_of(session, held);
	struct library *library = find_library(session, path);
	struct error *error = NULL;

	if (!library && !vec_reserve(&tracers->libraries, 1))
		return error_new(ERROR_FAILED, "out of memory");
	if (!library) {
		bool waits = library_notice_hold(session);

		error = library_open(&place, path, &library);
		library_notice_go_on(session, waits);
		if (!error) {
			tracers->libraries.items[tracers->libraries.count++] = library;
			session->types_announced = false;
			place_note_sizes(session);
		}
	}
	if (!error)
		*ret_library = library;
	return error;
}

static bool uses_library(const struct tracepoint_list *list, const struct library *library)
{
	for (size_t i = 0; i < list->count; i++) {
		if (list->items[i]->call_library == library)
			return true;
	}
	return false;
}

/* Maps what is needed, if no tracepoint has yet. */
static struct error *map_now(struct session *session)
{
	_cleanup_(cleanup_stop) struct stop *stop = NULL;
	struct error *error =
		session->tracers.calls ? NULL : stop_one(session->proc, STOP_TIMEOUT_MS, &stop);

	return error || session->tracers.calls ? error : call_tracer_map(session, stop);
}

struct error *session_load(struct session *session, const char *path)
{
	struct library *library;
	struct error *error = map_now(session);

	if (!error && find_library(session, path))
		error = error_new(ERROR_FAILED, "%s is loaded already", path);
	return error ? error : open_library(session, path, NULL, &library);
}

struct error *session_unload(struct session *session, const char *path)
{
	struct tracers *tracers = &session->tracers;
	struct library *library = find_library(session, path);
	struct library_place place = place_of(session, NULL);

	if (!library)
		return error_new(ERROR_FAILED, "%s isn't loaded by dyntrace", path);
	if (uses_library(&session->tracepoints, library))
		return error_new(ERROR_REFUSED, "%s is used by tracepoints: remove them first",
				 path);
	change_collect(session);
	if (uses_library(&session->retired, library))
		return error_new(ERROR_REFUSED, "a thread may still be in %s: try again", path);
	bool waits = library_notice_hold(session);
	struct error *error = library_close(&place, library);
	library_notice_go_on(session, waits);
	for (size_t i = 0; i < tracers->libraries.count && !error; i++) {
		if (tracers->libraries.items[i] == library)
			tracers->libraries.items[i] =
				tracers->libraries.items[--tracers->libraries.count];
	}
	return error;
}

void call_tracer_unload(struct session *session, char *why, size_t room)
{
	struct tracers *tracers = &session->tracers;
	struct library_place place = place_of(session, NULL);

	for (size_t i = 0; i < tracers->libraries.count; i++) {
		struct library *library = tracers->libraries.items[i];
		_cleanup_error_ struct error *error =
			proc_is_alive(session->proc) ? library_close(&place, library) : NULL;

		if (error && why)
			snprintf(why, room, "%s stays in process %d: %s", library->path,
				 session->proc->pid, error_text(error));
		if (error || !proc_is_alive(session->proc))
			library_free(library);
	}
	vec_free(&tracers->libraries);
}

/* ---- sites ----------------------------------------------------------------------------------- */

static uint32_t site_size(const struct tracepoint *tracepoint, const struct event_type *type)
{
	return (uint32_t)(sizeof(struct dt_call_site) +
			  (type->field_count + 1) * sizeof(struct dt_bridge_field) +
			  strlen(tracepoint->name) + 1);
}

void call_tracer_reckon(struct session *session, const struct tracepoint_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		struct tracepoint *tracepoint = list->items[i];
		struct tramp_event *event = &tracepoint->probe.event;
		const struct event_type *type = &session->types->items[event->id];

		if (!tracepoint->probe.site || !tracepoint->has_type ||
		    !tracepoint->tracer->loads || event->foreign.function.v)
			continue;
		event->foreign.is_wanted = true;
		if (tracepoint->tracer->kind != TRACER_CALL)
			continue;
		event->foreign.call_size = site_size(tracepoint, type);
		event->foreign.exit_call_size = event->exit ? site_size(tracepoint, type + 1) : 0;
	}
}

/* What a hit tells of its tracepoint; behind it the fields of its values, and its name. */
static struct error *make_site(struct session *session, const struct tracepoint *tracepoint,
			       const struct event_type *type, bool is_exit,
			       struct dt_call_site **ret_site, uint32_t *ret_size)
{
	size_t most = type->field_count + 1;
	struct dt_call_site *site = calloc(1, site_size(tracepoint, type));
	struct tracers *tracers = &session->tracers;
	uint32_t index = tracepoint->call_index;

	if (!site)
		return error_new(ERROR_FAILED, "out of memory");
	site->op = session->agent->call_op_at.v;
	site->control = session->agent->control_at.v;
	site->shared =
		taddr_add(tracers->shared_at, (int64_t)(index * sizeof(struct dt_call_shared))).v;
	site->tracepoint = (struct dyntrace_hit_point){
		.version = DYNTRACE_PROBE_VERSION,
		.is_exit = is_exit,
		.address = tracepoint->probe.place.address.v,
		.user = (void **)taddr_add(tracers->calls_at,
					   (int64_t)offsetof(struct dt_calls, user[index]))
				.v,
	};
	site->start = IMAGE_START;
	site->fields[0] = image_fields_address();
	site->field_count = 1 + image_fields_add(type, site->fields, 1, (uint32_t)most);
	strcpy((char *)&site->fields[site->field_count], tracepoint->name);
	*ret_site = site;
	*ret_size = (uint32_t)(sizeof(*site) + site->field_count * sizeof(site->fields[0]) + strlen(tracepoint->name) + 1);
	return NULL;
}

static void set_function(const struct tracers *tracers, struct dt_call_site *site, taddr function,
			 size_t which)
{
	const struct call_gate *gate = &tracers->gates[which];

	site->function = function.v;
	site->gate = tracers->gates_at[which].v + gate->entry;
	site->resume = tracers->gates_at[which].v + gate->resume;
	site->stride = gate->stride;
}

static struct error *take_index(struct session *session, struct tracepoint *tracepoint)
{
	struct tracers *tracers = &session->tracers;
	static const uint64_t nothing;

	if (tracers->free_calls.count)
		tracepoint->call_index = tracers->free_calls.items[--tracers->free_calls.count];
	else if (tracers->calls_used < DT_CALLS_MAX)
		tracepoint->call_index = tracers->calls_used++;
	else
		return error_new(ERROR_FAILED,
				 "more than %u tracepoints that call functions: remove some",
				 DT_CALLS_MAX);
	tracepoint->has_call = true;
	tracers->calls[tracepoint->call_index] = (struct dt_call_shared){ 0 };
	return mem_write(
		session->proc,
		taddr_add(tracers->calls_at,
			  (int64_t)offsetof(struct dt_calls, user[tracepoint->call_index])),
		&nothing, sizeof(nothing));
}

/* Both sites are made, and lead to the function. */
static struct error *describe_sites(struct session *session, struct tracepoint *tracepoint,
				    taddr function, bool is_bare)
{
	struct tramp_event *event = &tracepoint->probe.event;
	struct tramp_foreign *foreign = &event->foreign;
	const struct event_type *types = session->types->items;
	taddr shared = taddr_add(session->tracers.shared_at,
				 (int64_t)(tracepoint->call_index * sizeof(struct dt_call_shared)));
	struct error *error = make_site(session, tracepoint, &types[event->id], false,
					&tracepoint->call_sites[0], &foreign->call_size);

	if (!error && event->exit)
		error = make_site(session, tracepoint, &types[event->id + 1], true,
				  &tracepoint->call_sites[1], &foreign->exit_call_size);
	size_t which = is_bare ? TRACERS_GATES - 1 : tracers_gate(session, tracepoint);
	for (size_t i = 0; i < 2 && !error; i++) {
		if (tracepoint->call_sites[i])
			set_function(&session->tracers, tracepoint->call_sites[i], function, which);
	}
	if (error)
		return error;
	foreign->call = tracepoint->call_sites[0];
	foreign->exit_call = tracepoint->call_sites[1];
	foreign->function = function;
	foreign->enabled = foreign->exit_enabled =
		taddr_add(shared, offsetof(struct dt_call_shared, enabled));
	foreign->address = tracepoint->probe.place.address;
	foreign->own_only = !session->options.follow_fork;
	return NULL;
}

static struct error *prepare_one(struct session *session, struct tracepoint *tracepoint,
				 struct stop *held)
{
	const char *argument = tracepoint->request->spec.tracer_argument,
		   *colon = strrchr(argument, ':');
	_cleanup_free_ char *path = strndup(argument, (size_t)(colon - argument));
	struct library_place place = place_of(session, held);
	struct library *library = NULL;
	bool is_bare = false;
	taddr function;
	struct error *error =
		path ? lttng_tracer_check_place(tracepoint) : error_new(ERROR_FAILED, "out of memory");

	if (!error)
		error = open_library(session, path, held, &library);
	if (!error && tracepoint->probe.place.module &&
	    tracepoint->probe.place.module->inode == library->inode &&
	    tracepoint->probe.place.module->device == library->device)
		error = error_new(ERROR_REFUSED,
				  "it can't be used in the library that has the function");
	if (!error)
		error = library_find(&place, library, colon + 1, &function, &is_bare);
	if (!error)
		error = take_index(session, tracepoint);
	if (!error)
		error = describe_sites(session, tracepoint, function, is_bare);
	if (!error)
		tracepoint->call_library = library;
	return error;
}

struct error *call_tracer_prepare(struct session *session, const struct tracepoint_list *list,
				   struct stop *held)
{
	struct error *error = NULL;

	for (size_t i = 0; i < list->count && !error; i++) {
		if (tracers_is(list->items[i], TRACER_CALL) && !list->items[i]->has_call)
			error = prepare_one(session, list->items[i], held);
	}
	return error_wrap(error, "tracer 'call'");
}

struct error *call_tracer_enable(struct session *session, const struct tracepoint_list *list,
				  struct stop *held)
{
	struct error *error =
		tracers_uses(list, TRACER_CALL) ? faults_install(session, held) : NULL;

	for (size_t i = 0; i < list->count && !error; i++) {
		if (list->items[i]->has_call)
			__atomic_store_n(
				&session->tracers.calls[list->items[i]->call_index].enabled, 1,
				__ATOMIC_RELEASE);
	}
	return error_wrap(error, "tracer 'call'");
}

/* ---- what they tell -------------------------------------------------------------------------- */

/* A thread that ended in one leaves its word behind; slots are written behind the words. */
static bool is_in_function(const struct session *session, struct proc *proc, uint32_t slot)
{
	taddr at = taddr_add(session->agent->state_at, (int64_t)(offsetof(struct dt_state, slots) +
								 slot * sizeof(struct dt_slot)));
	struct dt_slot found;
	_cleanup_error_ struct error *error = mem_read(proc, at, &found, sizeof(found));
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%u", proc->pid, found.real_tid);
	return !error && (proc->inner_pid != proc->pid || !access(path, F_OK));
}

bool call_tracer_is_calling(const struct session *session, struct proc *proc)
{
	uint64_t words[512];
	taddr at = taddr_add(session->agent->state_at, offsetof(struct dt_state, calls));

	if (!session->agent->control->calls)
		return false;
	for (uint32_t i = 0; i < DT_SLOTS; i += 512) {
		_cleanup_error_ struct error *error =
			mem_read(proc, taddr_add(at, i * 8), words, sizeof(words));

		for (uint32_t j = 0; j < 512 && !error; j++) {
			if (words[j] && is_in_function(session, proc, i + j))
				return true;
		}
	}
	return false;
}

void call_tracer_add_uncalled(const struct session *session, const struct tracepoint *tracepoint,
			  struct tracepoint_info *info)
{
	const struct dt_call_shared *shared =
		tracepoint->has_call ? &session->tracers.calls[tracepoint->call_index] : NULL;

	if (!shared)
		return;
	info->nested = __atomic_load_n(&shared->nested, __ATOMIC_RELAXED);
	info->cramped = __atomic_load_n(&shared->cramped, __ATOMIC_RELAXED);
	info->lost += __atomic_load_n(&shared->lost, __ATOMIC_RELAXED) + info->cramped;
}

/* Pairs with the agent's store of `signal`, its last. */
static void look_at(struct session *session, struct tracepoint *tracepoint)
{
	const struct dt_call_shared *shared = &session->tracers.calls[tracepoint->call_index];
	const char *argument = tracepoint->request->spec.tracer_argument;
	uint32_t number = __atomic_load_n(&shared->signal, __ATOMIC_ACQUIRE);
	const char *name = number < NSIG ? sigabbrev_np((int)number) : NULL;
	char at[64] = "";

	if (!number || tracepoint->fault)
		return;
	if (number == SIGSEGV || number == SIGBUS)
		snprintf(at, sizeof(at), " (memory at 0x%llx)",
			 (unsigned long long)shared->address);
	tracepoint->fault = error_new(
		ERROR_FAILED, "its function %s got SIG%s at 0x%llx%s: it isn't called any more",
		argument, name ? name : "?", (unsigned long long)shared->rip, at);
	tracepoint->is_off = true;
	change_write_switch(session, tracepoint);
	session_notify(session, SESSION_FAULT, tracepoint->name);
	if (session->options.tell) {
		char line[512];

		snprintf(line, sizeof(line), "tracepoint '%s': %s", tracepoint->name,
			 error_text(tracepoint->fault));
		session->options.tell(session->options.tell_context, line);
	}
}

void session_look(struct session *session)
{
	for (size_t i = 0; i < session->tracepoints.count && session->tracers.calls; i++) {
		if (session->tracepoints.items[i]->has_call)
			look_at(session, session->tracepoints.items[i]);
	}
}

/* ---- away ------------------------------------------------------------------------------------ */

void call_tracer_free_sites(struct tracepoint *tracepoint)
{
	free(tracepoint->call_sites[0]);
	free(tracepoint->call_sites[1]);
	error_free(tracepoint->fault);
}

void call_tracer_free(struct session *session)
{
	for (size_t i = 0; i < session->tracers.libraries.count; i++)
		library_free(session->tracers.libraries.items[i]);
	vec_free(&session->tracers.libraries);
	vec_free(&session->tracers.free_calls);
}
