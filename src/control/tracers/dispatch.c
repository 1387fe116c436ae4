#include "dispatch.h"

#include <assert.h>
#include <string.h>
#include <time.h>

#include "control/base/cleanup.h"
#include "control/tracers/call/call_tracer.h"
#include "control/tracers/count/count_tracer.h"
#include "control/tracers/count/demotion.h"
#include "control/tracers/loading/loading.h"
#include "control/tracers/log/log_tracer.h"
#include "control/tracers/lttng/lttng_tracer.h"
#include "control/tracers/sync/sync_tracer.h"

#define LEAVE_MS 2000
#define LEAVE_STEP_MS 10

bool tracers_create(struct session *session)
{
	return loading_create(session) && count_tracer_create(session) &&
	       log_tracer_create(session) && lttng_tracer_create(session) &&
	       call_tracer_create(session) && sync_tracer_create(session);
}

void tracers_free(struct session *session)
{
	sync_tracer_free(session);
	call_tracer_free(session);
	lttng_tracer_free(session);
	log_tracer_free(session);
	count_tracer_free(session);
	loading_free(session);
}

void tracers_free_use(struct session *session, struct tracepoint *tracepoint)
{
	sync_tracer_free_use(session, tracepoint);
	call_tracer_free_use(session, tracepoint);
	lttng_tracer_free_use(tracepoint);
	count_tracer_free_use(tracepoint);
	demotion_free(tracepoint);
}

bool tracers_wants(const struct session *session, const struct tracepoint_list *list)
{
	size_t plain, timed;
	uint64_t keyed;

	count_tracer_cells(session, list, &plain, &timed, &keyed);
	return plain + timed + keyed > 0;
}

struct error *tracers_map(struct session *session, const struct tracepoint_list *list,
			  struct stop *stop)
{
	struct error *error = count_tracer_map(session, list, stop);

	if (!error && tracepoint_list_uses(list, TRACER_LTTNG))
		error = lttng_tracer_map(session, stop);
	if (!error && tracepoint_list_uses(list, TRACER_CALL))
		error = error_wrap(call_tracer_map(session, stop), "tracer 'call'");
	if (!error && tracepoint_list_uses(list, TRACER_SYNC))
		error = error_wrap(sync_tracer_map(session, stop), "log --sync");
	return error;
}

struct error *tracers_prepare(struct session *session, const struct tracepoint_list *list,
			      struct stop *held)
{
	struct error *error = NULL;

	for (size_t i = 0; i < list->count && !error; i++) {
		const struct tracer *tracer = tracepoint_placed_tracer(list->items[i]);

		if (tracer && !tracer->uses_pool)
			error = count_tracer_prepare(session, list->items[i]);
		if (!error)
			error = demotion_prepare(session, list->items[i]);
	}
	if (!error)
		error = lttng_tracer_prepare(session, list, held);
	if (!error)
		error = call_tracer_prepare(session, list, held);
	return error ? error : sync_tracer_prepare(session, list);
}

struct error *tracers_from(struct session *session, taddr *ret_from)
{
	struct module *program = session->modules.count ? session->modules.items[0] : NULL;
	struct symtab *symtab;
	struct error *error = NULL;
	bool loads = false;

	assert(session->proc);
	for (size_t i = 0; i < session->requests.count; i++)
		loads |= session->requests.items[i]->tracer->loads;
	*ret_from = taddr_of(0);
	if (!loads || !program)
		return NULL;
	error = load_check(session->proc, &session->modules);
	if (!error)
		error = module_symtab(session->proc, program, &symtab);
	if (!error)
		*ret_from = taddr_add(program->bias, (int64_t)symtab_entry(symtab));
	return error_wrap(error, "tracer '%s'", session->requests.items[0]->tracer->name);
}

/* Waits until no thread is in a called function. False: some thread stays. */
static bool is_left(struct session *session)
{
	for (unsigned waited = 0; tracers_is_inside(session, session->proc);
	     waited += LEAVE_STEP_MS) {
		if (waited >= LEAVE_MS)
			return false;
		nanosleep(&(struct timespec){ .tv_nsec = LEAVE_STEP_MS * 1000000L }, NULL);
	}
	return true;
}

void tracers_forget(struct session *session, const struct tracepoint_list *list)
{
	call_tracer_disable(session, list);
	sync_tracer_enable(session, list, false);
	sync_tracer_look(session);
	lttng_tracer_forget(session, list);
	for (size_t i = 0; i < list->count; i++)
		count_tracer_unnote(session, list->items[i]);
}

void tracers_leave(struct session *session, struct session_summary *summary)
{
	char why[sizeof(summary->why)] = "";

	if (proc_is_alive(session->proc))
		lttng_tracer_leave(session);
	if (!call_tracer_has_libraries(session) || !is_left(session))
		return;
	call_tracer_unload(session, why, sizeof(why));
	assert(!call_tracer_has_libraries(session));
	if (why[0] && !summary->left) {
		summary->left = true;
		memcpy(summary->why, why, sizeof(why));
	}
}

bool tracers_is_inside(const struct session *session, struct proc *proc)
{
	uint32_t inside = 0;
	_cleanup_error_ struct error *error = mem_read(
		proc, taddr_add(session->agent->state_at, offsetof(struct dt_state, foreign)),
		&inside, sizeof(inside));

	return (!error && inside > 0) || call_tracer_is_calling(session, proc);
}
