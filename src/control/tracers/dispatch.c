#include "dispatch.h"

#include <string.h>
#include <time.h>

#include "control/base/cleanup.h"
#include "control/base/now.h"
#include "control/tracers/code/foreign_code.h"
#include "control/tracers/loading/wide.h"
#include "control/session/internal.h"

#define LOG_FLUSH_MS 10
#define LEAVE_MS 2000
#define LEAVE_STEP_MS 10

struct error *tracers_check(const struct tracepoint_spec *spec, const struct tracer *tracer)
{
	struct error *error = tracer_check(tracer, spec->tracer_argument);

	if (!error && !tracer->has_values && spec->context_count)
		error = error_new(
			ERROR_USAGE,
			"tracer '%s' records no events: contexts (-t) mean nothing for it",
			tracer->name);
	if (!error && tracer->kind == TRACER_LTTNG && spec->context_count && !spec->name)
		error = error_new(
			ERROR_USAGE,
			"tracer 'lttng': events without a name have their address only: for contexts (-t) give "
			"one (-n NAME)");
	return error;
}

bool tracers_has_values(const struct tracepoint *tracepoint)
{
	const struct tracer *tracer = tracepoint->tracer;

	return tracer->has_values &&
	       (tracer->kind != TRACER_LTTNG || tracepoint->request->spec.name);
}

bool tracers_knows_exits(const struct tracepoint *tracepoint)
{
	return tracepoint->tracer->uses_pool || tracepoint->tracer->kind == TRACER_COUNT;
}

/* ---- what there is in a list ----------------------------------------------------------------- */

static const struct tracer *placed_tracer(const struct tracepoint *tracepoint)
{
	return tracepoint->probe.site ? tracepoint->tracer : NULL;
}

bool tracers_has_trace(const struct tracepoint_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		const struct tracer *tracer = placed_tracer(list->items[i]);

		if (tracer && tracer->has_trace)
			return true;
	}
	return false;
}

bool tracers_uses_pool(const struct tracepoint_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		const struct tracer *tracer = placed_tracer(list->items[i]);

		if (tracer && tracer->uses_pool)
			return true;
	}
	return false;
}

bool tracers_is(const struct tracepoint *tracepoint, enum tracer_kind kind)
{
	const struct tracer *tracer = placed_tracer(tracepoint);

	return tracer && tracer->kind == kind;
}

bool tracers_uses(const struct tracepoint_list *list, enum tracer_kind kind)
{
	for (size_t i = 0; i < list->count; i++) {
		if (tracers_is(list->items[i], kind))
			return true;
	}
	return false;
}

/* Who calls others only counts its hits. */
static bool has_times(const struct tracepoint *tracepoint)
{
	return tracepoint->tracer->kind == TRACER_COUNT && tracepoint->probe.event.exit;
}

/* Tracepoints that count, and have no cell yet. */
static void count_cells(const struct tracepoint_list *list, size_t *ret_plain, size_t *ret_timed)
{
	*ret_plain = *ret_timed = 0;
	for (size_t i = 0; i < list->count; i++) {
		const struct tracepoint *tracepoint = list->items[i];
		const struct tracer *tracer = placed_tracer(tracepoint);

		if (!tracer || tracer->uses_pool || tracepoint->has_cell)
			continue;
		*(has_times(tracepoint) ? ret_timed : ret_plain) += 1;
	}
}

/* ---- in the target --------------------------------------------------------------------------- */

bool tracers_wants(const struct tracepoint_list *list)
{
	size_t plain, timed;

	count_cells(list, &plain, &timed);
	return plain + timed > 0;
}

/* The gates are at the paper's end, which is code memory like any other. */
static struct error *map_gates(struct session *session, struct stop *stop)
{
	static const struct {
		enum foreign_state state;
		enum load_part part;
	} kinds[TRACERS_GATES - 1] = { { FOREIGN_VECTORS, LOAD_GATE_LTTNG },
				       { FOREIGN_LOW, LOAD_GATE_LTTNG_LOW } };
	struct tracers *tracers = &session->tracers;
	taddr inside = taddr_add(session->agent->state_at, offsetof(struct dt_state, foreign));
	struct error *error = tracers->gates_lttng[0].v ?
				      NULL :
				      load_map_paper(&tracers->paper, stop, session->agent);

	for (size_t i = 0; i < TRACERS_GATES - 1 && !error && !tracers->gates_lttng[i].v; i++) {
		uint32_t at = LOAD_PART_AT(kinds[i].part);

		if (!foreign_write_gate(kinds[i].state, inside, tracers->paper.here + at,
					FOREIGN_GATE_ROOM))
			return error_new(ERROR_FAILED, "the code that saves registers is too long");
		tracers->gates_lttng[i] = taddr_add(tracers->paper.there, at + FOREIGN_GATE_ENTRY);
	}
	return error;
}

size_t tracers_gate(struct session *session, const struct tracepoint *tracepoint)
{
	struct module *module = tracepoint->probe.place.module;
	struct tracers_module found = { module->device, module->inode, true };

	for (size_t i = 0; i < session->tracers.looked_at.count; i++) {
		const struct tracers_module *known = &session->tracers.looked_at.items[i];

		if (known->device == found.device && known->inode == found.inode)
			return known->is_wide ? 0 : 1;
	}
	if (!module->is_vdso)
		/* what can't be read is */
		error_free(wide_look(session->proc, module, &found.is_wide));
	vec_push(&session->tracers.looked_at, found);
	return found.is_wide ? 0 : 1;
}

struct error *tracers_map(struct session *session, const struct tracepoint_list *list,
			  struct stop *stop)
{
	size_t plain, timed;

	count_cells(list, &plain, &timed);
	struct error *error =
		counts_map(&session->tracers.counts, stop, session->agent, plain, timed);
	if (!error && tracers_uses(list, TRACER_LTTNG))
		error = map_gates(session, stop);
	if (!error && tracers_uses(list, TRACER_CALL))
		error = error_wrap(call_tracer_map(session, stop), "tracer 'call'");
	return error;
}

static struct error *prepare_count(struct session *session, struct tracepoint *tracepoint)
{
	struct tramp_event *event = &tracepoint->probe.event;

	if (tracepoint->has_cell)
		event->count = counts_way(&session->tracers.counts, &tracepoint->cell);
	else if (!counts_take(&session->tracers.counts, has_times(tracepoint), &tracepoint->cell,
			      &event->count))
		return error_new(ERROR_FAILED, "no memory is left to count in");
	tracepoint->has_cell = true;
	event->count.own_only = !session->options.follow_fork;
	old_counts_note(session, tracepoint);
	return NULL;
}

struct error *tracers_prepare(struct session *session, const struct tracepoint_list *list,
			      struct stop *held)
{
	struct error *error = NULL;

	for (size_t i = 0; i < list->count && !error; i++) {
		const struct tracer *tracer = placed_tracer(list->items[i]);

		if (tracer && !tracer->uses_pool)
			error = prepare_count(session, list->items[i]);
	}
	if (!error)
		error = lttng_tracer_prepare(session, list, held);
	return error ? error : call_tracer_prepare(session, list, held);
}

struct error *session_tracers_from(struct session *session, taddr *ret_from)
{
	struct module *program = session->modules.count ? session->modules.items[0] : NULL;
	struct symtab *symtab;
	struct error *error = NULL;
	bool loads = false;

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

/* Threads come out of functions by themselves, as long as somebody waits for it. */
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

void tracers_leave(struct session *session, struct session_summary *summary)
{
	struct tracers *tracers = &session->tracers;
	char why[sizeof(summary->why)] = "";

	if (proc_is_alive(session->proc))
		error_free(lttng_leave(&tracers->lttng, session->agent, &tracers->paper));
	if (!tracers->libraries.count || !is_left(session))
		return;
	call_tracer_unload(session, why, sizeof(why));
	if (why[0] && !summary->left) {
		summary->left = true;
		memcpy(summary->why, why, sizeof(why));
	}
}

bool tracers_has_threads(const struct session *session)
{
	return session->tracers.lttng.started;
}

bool tracers_is_inside(const struct session *session, struct proc *proc)
{
	uint32_t inside = 0;
	_cleanup_error_ struct error *error = mem_read(
		proc, taddr_add(session->agent->state_at, offsetof(struct dt_state, foreign)),
		&inside, sizeof(inside));

	return (!error && inside > 0) || call_tracer_is_calling(session, proc);
}

/* ---- lines of text --------------------------------------------------------------------------- */

static bool same_file(const char *a, const char *b)
{
	return a && b ? !strcmp(a, b) : a == b;
}

struct error *tracers_open_log(struct session *session, const struct tracepoint *tracepoint,
			       uint16_t *ret_log)
{
	struct tracers *tracers = &session->tracers;
	const char *file = tracepoint->request->spec.tracer_argument;
	struct logfile *log;

	if (tracepoint->tracer->kind != TRACER_LOG)
		return NULL;
	for (size_t i = 0; i < tracers->logs.count; i++) {
		if (same_file(tracers->logs.items[i]->file, file)) {
			*ret_log = (uint16_t)(i + 1);
			return NULL;
		}
	}
	int fd = session->options.open_log ?
			 session->options.open_log(session->options.open_context, file) :
			 -1;
	struct error *error = logfile_open(session->proc, file, fd, &log);
	if (error)
		return error_wrap(error, "tracer 'log'");
	if (tracers->logs.count >= UINT16_MAX || !vec_push(&tracers->logs, log)) {
		logfile_free(log);
		return error_new(ERROR_FAILED, "out of memory");
	}
	*ret_log = (uint16_t)tracers->logs.count;
	if (!session->options.flush_ms)
		session->options.flush_ms = LOG_FLUSH_MS;
	return NULL;
}

static void add_line(void *context, const struct line_event *event)
{
	struct session *session = context;
	uint16_t log = event->type->log;

	if (log && log <= session->tracers.logs.count)
		logfile_add(session->tracers.logs.items[log - 1], &session->clock, event);
}

void tracers_observe(struct session *session, const struct reader_batch *batch)
{
	if (session->tracers.logs.count)
		line_each(batch, session->types, add_line, session);
}

void tracers_flush_logs(struct session *session, uint64_t until, bool all)
{
	for (size_t i = 0; i < session->tracers.logs.count; i++)
		logfile_flush(session->tracers.logs.items[i], until, all);
}

uint64_t tracers_left_out(const struct session *session, int *ret_failed)
{
	uint64_t left_out = 0;

	*ret_failed = 0;
	for (size_t i = 0; i < session->tracers.logs.count; i++) {
		left_out += session->tracers.logs.items[i]->left_out;
		if (session->tracers.logs.items[i]->failed)
			*ret_failed = session->tracers.logs.items[i]->failed;
	}
	return left_out;
}

/* ---- what they tell -------------------------------------------------------------------------- */

bool tracers_counts(const struct session *session, const struct tracepoint *tracepoint,
		    struct counts_sum *ret_sum)
{
	if (tracepoint->has_cell)
		counts_read(&session->tracers.counts, &tracepoint->cell, ret_sum);
	return tracepoint->has_cell;
}

static uint64_t to_ns(const struct session *session, uint64_t cycles)
{
	uint64_t frequency = session->clock.frequency;

	return frequency ? (uint64_t)((unsigned __int128)cycles * 1000000000u / frequency) : 0;
}

void tracers_times(const struct session *session, const struct counts_sum *sum,
		   struct tracepoint_times *ret_times)
{
	*ret_times = (struct tracepoint_times){ .calls = sum->exits,
						.total = to_ns(session, sum->total),
						.max = to_ns(session, sum->max),
						.p50 = to_ns(session, sum->p50),
						.p90 = to_ns(session, sum->p90),
						.p99 = to_ns(session, sum->p99) };
}

double tracers_rate(const struct session *session, const struct tracepoint *tracepoint,
		    uint64_t hits)
{
	uint64_t end = session->tracers.ended_ns ? session->tracers.ended_ns : now_ns();

	if (!tracepoint->placed_ns || end <= tracepoint->placed_ns)
		return 0;
	return (double)hits * 1e9 / (double)(end - tracepoint->placed_ns);
}

void tracers_placed(const struct tracepoint_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		if (list->items[i]->probe.site && !list->items[i]->placed_ns)
			list->items[i]->placed_ns = now_ns();
	}
}

void tracers_ended(struct session *session)
{
	session->tracers.ended_ns = now_ns();
}

void tracers_free(struct session *session)
{
	counts_free(&session->tracers.counts);
	call_tracer_free(session);
	vec_free(&session->tracers.looked_at);
	for (size_t i = 0; i < session->tracers.logs.count; i++)
		logfile_free(session->tracers.logs.items[i]);
	vec_free(&session->tracers.logs);
}
