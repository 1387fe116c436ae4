#include "call_tracer.h"

#include <assert.h>
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
#include "control/session/own_probes/library_notice.h"
#include "control/session/state/switches.h"

#define SHARED_SIZE (DT_CALLS_MAX * sizeof(struct dt_call_shared))

/* A tracepoint's function. */
struct call_use {
	uint32_t index; /* of call_tracer.calls, and of the function's word */
	struct dt_call_site *sites[2]; /* entry and exit; owned */
	const struct library *library; /* of the function; borrowed */
	struct error *fault; /* the signal that the function got; NULL: none */
};

_Static_assert(FOREIGN_GATE_ROOM == LOAD_GATE_ROOM, "gates");

/* ---- memory in the target -------------------------------------------------------------------- */

static struct error *write_gates(struct session *session)
{
	struct call_tracer *call = session->call;
	int64_t offset = 0;
	struct error *error = load_find_errno(session->proc, &session->modules, &offset);
	static const struct {
		enum foreign_state state;
		enum load_part part;
	} kinds[LOADING_GATES] = { { FOREIGN_VECTORS, LOAD_GATE_CALL },
				   { FOREIGN_LOW, LOAD_GATE_CALL_LOW },
				   { FOREIGN_NOTHING, LOAD_GATE_CALL_BARE } };

	for (size_t i = 0; i < LOADING_GATES && !error; i++) {
		uint32_t at = LOAD_PART_AT(kinds[i].part);

		if (!call_write_gate(kinds[i].state, offset, session->loading->paper.here + at,
				     FOREIGN_GATE_ROOM, &call->gates[i]))
			error = error_new(ERROR_FAILED,
					  "the code that saves registers doesn't fit its room");
		call->gates_at[i] = taddr_add(session->loading->paper.there, at);
	}
	return error;
}

struct error *call_tracer_map(struct session *session, struct stop *stop)
{
	struct call_tracer *call = session->call;
	void *shared;
	struct error *error = load_check(session->proc, &session->modules);

	if (call->calls || error)
		return error;
	error = load_map_paper(&session->loading->paper, stop, session->agent);
	if (!error)
		error = faults_map(session, stop);
	if (!error)
		error = write_gates(session);
	if (!error)
		error = agent_share(stop, session->agent, "dyntrace-calls", SHARED_SIZE, &shared,
				    &call->shared_at, NULL);
	if (!error)
		call->calls = shared;
	return error;
}

/* ---- libraries ------------------------------------------------------------------------------- */

static struct library_place place_of(struct session *session, struct stop *held)
{
	struct call_tracer *call = session->call;

	return (struct library_place){ .agent = session->agent,
				       .held = held,
				       .paper = &session->loading->paper,
				       .answer = taddr_add(call->calls_at,
							   offsetof(struct dt_calls, load)),
				       .programs_used = &call->programs_used,
				       .types = session->types };
}

/* Finds a library by its path, or by its file name if `name` has no '/'. */
static struct library *find_library(const struct session *session, const char *name)
{
	for (size_t i = 0; i < session->call->libraries.count; i++) {
		struct library *library = session->call->libraries.items[i];
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
	struct call_tracer *call = session->call;
	struct library_place place = place_of(session, held);
	struct library *library = find_library(session, path);
	struct error *error = NULL;

	if (!library && !vec_reserve(&call->libraries, 1))
		return error_new(ERROR_FAILED, "out of memory");
	if (!library) {
		bool waits = library_notice_hold(session);

		error = library_open(&place, path, &library);
		library_notice_go_on(session, waits);
		if (!error) {
			call->libraries.items[call->libraries.count++] = library;
			session->types_announced = false;
			session_note_sizes(session);
		}
	}
	if (!error)
		*ret_library = library;
	return error;
}

bool call_tracer_uses(const struct tracepoint_list *list, const struct library *library)
{
	for (size_t i = 0; i < list->count; i++) {
		if (list->items[i]->call && list->items[i]->call->library == library)
			return true;
	}
	return false;
}

struct error *call_tracer_open(struct session *session, const char *path)
{
	struct library *library;

	if (find_library(session, path))
		return error_new(ERROR_FAILED, "%s is loaded already", path);
	return open_library(session, path, NULL, &library);
}

struct error *call_tracer_find(const struct session *session, const char *path,
			       struct library **ret_library)
{
	struct library *library = find_library(session, path);

	if (!library)
		return error_new(ERROR_FAILED, "%s isn't loaded by dyntrace", path);
	*ret_library = library;
	return NULL;
}

struct error *call_tracer_close(struct session *session, struct library *library)
{
	struct call_tracer *call = session->call;
	struct library_place place = place_of(session, NULL);
	bool waits = library_notice_hold(session);

	assert(!call_tracer_uses(&session->tracepoints, library));
	struct error *error = library_close(&place, library);

	library_notice_go_on(session, waits);
	for (size_t i = 0; i < call->libraries.count && !error; i++) {
		if (call->libraries.items[i] == library)
			call->libraries.items[i] = call->libraries.items[--call->libraries.count];
	}
	return error;
}

void call_tracer_unload(struct session *session, char *why, size_t room)
{
	struct call_tracer *call = session->call;
	struct library_place place = place_of(session, NULL);

	for (size_t i = 0; i < call->libraries.count; i++) {
		struct library *library = call->libraries.items[i];
		_cleanup_error_ struct error *error =
			proc_is_alive(session->proc) ? library_close(&place, library) : NULL;

		if (error && why)
			snprintf(why, room, "%s stays in process %d: %s", library->path,
				 session->proc->pid, error_text(error));
		if (error || !proc_is_alive(session->proc))
			library_free(library);
	}
	vec_free(&call->libraries);
}

/* ---- call sites ------------------------------------------------------------------------------ */

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

/* Makes the description that a hit passes to its function: struct dt_call_site, then the fields of
 * the values, then the tracepoint's name. */
static struct error *make_site(struct session *session, const struct tracepoint *tracepoint,
			       const struct event_type *type, bool is_exit,
			       struct dt_call_site **ret_site, uint32_t *ret_size)
{
	size_t most = type->field_count + 1;
	struct dt_call_site *site = calloc(1, site_size(tracepoint, type));
	struct call_tracer *call = session->call;
	uint32_t index = tracepoint->call->index;

	assert(index < DT_CALLS_MAX);
	if (!site)
		return error_new(ERROR_FAILED, "out of memory");
	site->op = session->agent->call_op_at.v;
	site->control = session->agent->control_at.v;
	site->shared =
		taddr_add(call->shared_at, (int64_t)(index * sizeof(struct dt_call_shared))).v;
	site->tracepoint = (struct dyntrace_hit_point){
		.version = DYNTRACE_PROBE_VERSION,
		.is_exit = is_exit,
		.address = tracepoint->probe.place.address.v,
		.user = (void **)taddr_add(call->calls_at,
					   (int64_t)offsetof(struct dt_calls, user[index]))
				.v,
	};
	site->start = IMAGE_START;
	site->fields[0] = image_fields_address();
	site->field_count = 1 + image_fields_add(type, site->fields, 1, (uint32_t)most);
	assert(site->field_count <= most);
	strcpy((char *)&site->fields[site->field_count], tracepoint->name);
	*ret_site = site;
	*ret_size = (uint32_t)(sizeof(*site) + site->field_count * sizeof(site->fields[0]) +
			       strlen(tracepoint->name) + 1);
	return NULL;
}

static void set_function(const struct call_tracer *call, struct dt_call_site *site, taddr function,
			 size_t which)
{
	const struct call_gate *gate = &call->gates[which];

	assert(which < LOADING_GATES && gate->resume); /* C3 */
	site->function = function.v;
	site->gate = call->gates_at[which].v + gate->entry;
	site->resume = call->gates_at[which].v + gate->resume;
	site->stride = gate->stride;
}

static struct error *take_index(struct session *session, struct tracepoint *tracepoint)
{
	struct call_tracer *call = session->call;
	static const uint64_t nothing;
	struct call_use *use = calloc(1, sizeof(*use));

	assert(call->calls && !tracepoint->call);
	if (!use)
		return error_new(ERROR_FAILED, "out of memory");
	if (call->free_calls.count) {
		use->index = call->free_calls.items[--call->free_calls.count];
	} else if (call->calls_used < DT_CALLS_MAX) {
		use->index = call->calls_used++;
	} else {
		free(use);
		return error_new(ERROR_FAILED,
				 "more than %u tracepoints that call functions (remove some)",
				 DT_CALLS_MAX);
	}
	tracepoint->call = use;
	call->calls[tracepoint->call->index] = (struct dt_call_shared){ 0 };
	return mem_write(
		session->proc,
		taddr_add(call->calls_at,
			  (int64_t)offsetof(struct dt_calls, user[tracepoint->call->index])),
		&nothing, sizeof(nothing));
}

/* Makes the call sites of entry and exit, which lead to the function. */
static struct error *describe_sites(struct session *session, struct tracepoint *tracepoint,
				    taddr function, bool is_bare)
{
	struct tramp_event *event = &tracepoint->probe.event;
	struct tramp_foreign *foreign = &event->foreign;
	const struct event_type *types = session->types->items;
	uint64_t offset = tracepoint->call->index * sizeof(struct dt_call_shared);
	taddr shared = taddr_add(session->call->shared_at, (int64_t)offset);
	struct error *error = make_site(session, tracepoint, &types[event->id], false,
					&tracepoint->call->sites[0], &foreign->call_size);

	if (!error && event->exit)
		error = make_site(session, tracepoint, &types[event->id + 1], true,
				  &tracepoint->call->sites[1], &foreign->exit_call_size);
	size_t which = is_bare ? LOADING_GATES - 1 : loading_gate(session, tracepoint);
	for (size_t i = 0; i < 2 && !error; i++) {
		if (tracepoint->call->sites[i])
			set_function(session->call, tracepoint->call->sites[i], function, which);
	}
	if (error)
		return error;
	foreign->call = tracepoint->call->sites[0];
	foreign->exit_call = tracepoint->call->sites[1];
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
	assert(colon); /* the request was checked */
	_cleanup_free_ char *path = strndup(argument, (size_t)(colon - argument));
	struct library_place place = place_of(session, held);
	struct library *library = NULL;
	bool is_bare = false;
	taddr function;
	struct error *error =
		path ? loading_check_place(session, tracepoint) :
		       error_new(ERROR_FAILED, "out of memory");

	if (!error)
		error = open_library(session, path, held, &library);
	if (!error && tracepoint->probe.place.module &&
	    tracepoint->probe.place.module->inode == library->inode &&
	    tracepoint->probe.place.module->device == library->device)
		error = error_new(ERROR_REFUSED,
				  "it can't be used in the library of the function itself");
	if (!error)
		error = library_find(&place, library, colon + 1, &function, &is_bare);
	if (!error)
		error = take_index(session, tracepoint);
	if (!error)
		error = describe_sites(session, tracepoint, function, is_bare);
	if (!error)
		tracepoint->call->library = library;
	return error;
}

struct error *call_tracer_prepare(struct session *session, const struct tracepoint_list *list,
				  struct stop *held)
{
	struct error *error = NULL;

	for (size_t i = 0; i < list->count && !error; i++) {
		if (tracepoint_is(list->items[i], TRACER_CALL) && !list->items[i]->call)
			error = prepare_one(session, list->items[i], held);
	}
	return error_wrap(error, "tracer 'call'");
}

struct error *call_tracer_enable(struct session *session, const struct tracepoint_list *list,
				 struct stop *held)
{
	struct error *error =
		tracepoint_list_uses(list, TRACER_CALL) ? faults_install(session, held) : NULL;

	for (size_t i = 0; i < list->count && !error; i++) {
		if (list->items[i]->call)
			__atomic_store_n(
				&session->call->calls[list->items[i]->call->index].enabled, 1,
				__ATOMIC_RELEASE);
	}
	return error_wrap(error, "tracer 'call'");
}

void call_tracer_disable(struct session *session, const struct tracepoint_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		if (list->items[i]->call)
			__atomic_store_n(&session->call->calls[list->items[i]->call->index].enabled,
					 0, __ATOMIC_RELEASE);
	}
}

/* ---- reports --------------------------------------------------------------------------------- */

/* Is the slot's thread alive? A thread that ended in a function leaves its word behind (C1). */
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

bool call_tracer_has_libraries(const struct session *session)
{
	return session->call->libraries.count > 0;
}

bool call_tracer_is_mapped(const struct session *session)
{
	return session->call->calls != NULL;
}

const char *call_tracer_fault(const struct tracepoint *tracepoint)
{
	const struct call_use *use = tracepoint->call;

	return use && use->fault ? error_text(use->fault) : NULL;
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
		tracepoint->call ? &session->call->calls[tracepoint->call->index] : NULL;

	if (!shared)
		return;
	info->nested = __atomic_load_n(&shared->nested, __ATOMIC_RELAXED);
	info->cramped = __atomic_load_n(&shared->cramped, __ATOMIC_RELAXED);
	info->lost += __atomic_load_n(&shared->lost, __ATOMIC_RELAXED) + info->cramped;
}

/* The load of `signal` pairs with the agent's store, its last to `shared`. */
static void look_at(struct session *session, struct tracepoint *tracepoint)
{
	const struct dt_call_shared *shared = &session->call->calls[tracepoint->call->index];
	const char *argument = tracepoint->request->spec.tracer_argument;
	uint32_t number = __atomic_load_n(&shared->signal, __ATOMIC_ACQUIRE);
	const char *name = number < NSIG ? sigabbrev_np((int)number) : NULL;
	char at[64] = "";

	if (!number || tracepoint->call->fault)
		return;
	if (number == SIGSEGV || number == SIGBUS)
		snprintf(at, sizeof(at), " (memory at 0x%llx)",
			 (unsigned long long)shared->address);
	tracepoint->call->fault = error_new(
		ERROR_FAILED, "its function %s got SIG%s at 0x%llx%s: it isn't called any more",
		argument, name ? name : "?", (unsigned long long)shared->rip, at);
	tracepoint->is_off = true;
	switches_write(session, tracepoint);
	session_notify(session, SESSION_FAULT, tracepoint->name);
	session_tell(session, "tracepoint '%s': %s", tracepoint->name,
		     error_text(tracepoint->call->fault));
}

void call_tracer_look(struct session *session)
{
	for (size_t i = 0; i < session->tracepoints.count && session->call->calls; i++) {
		if (session->tracepoints.items[i]->call)
			look_at(session, session->tracepoints.items[i]);
	}
}

/* ---- lifetime -------------------------------------------------------------------------------- */

void call_tracer_free_use(struct session *session, struct tracepoint *tracepoint)
{
	struct call_use *use = tracepoint->call;

	if (!use)
		return;
	/* Return stubs lead to the code of a tracepoint with exits for life (R1): its index stays
	 * taken. */
	if (!tracepoint->probe.event.exit)
		vec_push(&session->call->free_calls, use->index);
	free(use->sites[0]);
	free(use->sites[1]);
	error_free(use->fault);
	free(use);
}

bool call_tracer_create(struct session *session)
{
	session->call = calloc(1, sizeof(*session->call));
	return session->call != NULL;
}

void call_tracer_free(struct session *session)
{
	struct call_tracer *call = session->call;

	if (!call)
		return;
	for (size_t i = 0; i < call->libraries.count; i++)
		library_free(call->libraries.items[i]);
	vec_free(&call->libraries);
	vec_free(&call->free_calls);
	free(call);
}
