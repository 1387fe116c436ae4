#include "dispatch.h"

#include <string.h>
#include <time.h>

#include "control/base/cleanup.h"
#include "control/base/now.h"
#include "control/codegen/foreign_code.h"
#include "control/tracers/loading/wide.h"
#include "control/session/internal.h"

#define LOG_FLUSH_MS 10
#define LEAVE_MS 2000
#define LEAVE_STEP_MS 10

struct error *tracing_check(const struct tracepoint_spec *spec, const struct tracer *tracer)
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

bool tracing_has_values(const struct tracepoint *tracepoint)
{
	const struct tracer *tracer = tracepoint->tracer;

	return tracer->has_values &&
	       (tracer->kind != TRACER_LTTNG || tracepoint->request->spec.name);
}

bool tracing_knows_exits(const struct tracepoint *tracepoint)
{
	return tracepoint->tracer->uses_pool || tracepoint->tracer->kind == TRACER_COUNT;
}

/* ---- what there is in a list ----------------------------------------------------------------- */

static const struct tracer *placed_tracer(const struct tracepoint *tracepoint)
{
	return tracepoint->probe.site ? tracepoint->tracer : NULL;
}

bool tracing_has_trace(const struct tracepoint_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		const struct tracer *tracer = placed_tracer(list->items[i]);

		if (tracer && tracer->has_trace)
			return true;
	}
	return false;
}

bool tracing_uses_pool(const struct tracepoint_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		const struct tracer *tracer = placed_tracer(list->items[i]);

		if (tracer && tracer->uses_pool)
			return true;
	}
	return false;
}

bool tracing_is(const struct tracepoint *tracepoint, enum tracer_kind kind)
{
	const struct tracer *tracer = placed_tracer(tracepoint);

	return tracer && tracer->kind == kind;
}

bool tracing_uses(const struct tracepoint_list *list, enum tracer_kind kind)
{
	for (size_t i = 0; i < list->count; i++) {
		if (tracing_is(list->items[i], kind))
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

bool tracing_wants(const struct tracepoint_list *list)
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
	} kinds[TRACING_GATES - 1] = { { FOREIGN_VECTORS, LOAD_GATE_LTTNG },
				       { FOREIGN_LOW, LOAD_GATE_LTTNG_LOW } };
	struct tracing *tracing = &session->tracing;
	taddr inside = taddr_add(session->agent->state_at, offsetof(struct dt_state, foreign));
	struct error *error = tracing->gates_lttng[0].v ?
				      NULL :
				      load_map_paper(&tracing->paper, stop, session->agent);

	for (size_t i = 0; i < TRACING_GATES - 1 && !error && !tracing->gates_lttng[i].v; i++) {
		uint32_t at = LOAD_PART_AT(kinds[i].part);

		if (!foreign_write_gate(kinds[i].state, inside, tracing->paper.here + at,
					FOREIGN_GATE_ROOM))
			return error_new(ERROR_FAILED, "the code that saves registers is too long");
		tracing->gates_lttng[i] = taddr_add(tracing->paper.there, at + FOREIGN_GATE_ENTRY);
	}
	return error;
}

size_t tracing_gate(struct session *session, const struct tracepoint *tracepoint)
{
	struct module *module = tracepoint->probe.place.module;
	struct tracing_module found = { module->device, module->inode, true };

	for (size_t i = 0; i < session->tracing.looked_at.count; i++) {
		const struct tracing_module *known = &session->tracing.looked_at.items[i];

		if (known->device == found.device && known->inode == found.inode)
			return known->is_wide ? 0 : 1;
	}
	if (!module->is_vdso)
		/* what can't be read is */
		error_free(wide_look(session->proc, module, &found.is_wide));
	vec_push(&session->tracing.looked_at, found);
	return found.is_wide ? 0 : 1;
}

struct error *tracing_map(struct session *session, const struct tracepoint_list *list,
			  struct stop *stop)
{
	size_t plain, timed;

	count_cells(list, &plain, &timed);
	struct error *error =
		counts_map(&session->tracing.counts, stop, session->agent, plain, timed);
	if (!error && tracing_uses(list, TRACER_LTTNG))
		error = map_gates(session, stop);
	if (!error && tracing_uses(list, TRACER_CALL))
		error = error_wrap(tracing_map_call(session, stop), "tracer 'call'");
	return error;
}

static struct error *prepare_count(struct session *session, struct tracepoint *tracepoint)
{
	struct tramp_event *event = &tracepoint->probe.event;

	if (tracepoint->has_cell)
		event->count = counts_way(&session->tracing.counts, &tracepoint->cell);
	else if (!counts_take(&session->tracing.counts, has_times(tracepoint), &tracepoint->cell,
			      &event->count))
		return error_new(ERROR_FAILED, "no memory is left to count in");
	tracepoint->has_cell = true;
	event->count.own_only = !session->options.follow_fork;
	legacy_note(session, tracepoint);
	return NULL;
}

struct error *tracing_prepare(struct session *session, const struct tracepoint_list *list,
			      struct stop *held)
{
	struct error *error = NULL;

	for (size_t i = 0; i < list->count && !error; i++) {
		const struct tracer *tracer = placed_tracer(list->items[i]);

		if (tracer && !tracer->uses_pool)
			error = prepare_count(session, list->items[i]);
	}
	if (!error)
		error = tracing_prepare_lttng(session, list, held);
	return error ? error : tracing_prepare_call(session, list, held);
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
	for (unsigned waited = 0; tracing_is_inside(session, session->proc);
	     waited += LEAVE_STEP_MS) {
		if (waited >= LEAVE_MS)
			return false;
		nanosleep(&(struct timespec){ .tv_nsec = LEAVE_STEP_MS * 1000000L }, NULL);
	}
	return true;
}

void tracing_leave(struct session *session, struct session_summary *summary)
{
	struct tracing *tracing = &session->tracing;
	char why[sizeof(summary->why)] = "";

	if (proc_is_alive(session->proc))
		error_free(lttng_leave(&tracing->lttng, session->agent, &tracing->paper));
	if (!tracing->libraries.count || !is_left(session))
		return;
	tracing_unload(session, why, sizeof(why));
	if (why[0] && !summary->left) {
		summary->left = true;
		memcpy(summary->why, why, sizeof(why));
	}
}

bool tracing_has_threads(const struct session *session)
{
	return session->tracing.lttng.started;
}

bool tracing_is_inside(const struct session *session, struct proc *proc)
{
	uint32_t inside = 0;
	_cleanup_error_ struct error *error = mem_read(
		proc, taddr_add(session->agent->state_at, offsetof(struct dt_state, foreign)),
		&inside, sizeof(inside));

	return (!error && inside > 0) || tracing_is_calling(session, proc);
}

/* ---- lines of text --------------------------------------------------------------------------- */

static bool same_file(const char *a, const char *b)
{
	return a && b ? !strcmp(a, b) : a == b;
}

struct error *tracing_open_log(struct session *session, const struct tracepoint *tracepoint,
			       uint16_t *ret_log)
{
	struct tracing *tracing = &session->tracing;
	const char *file = tracepoint->request->spec.tracer_argument;
	struct logfile *log;

	if (tracepoint->tracer->kind != TRACER_LOG)
		return NULL;
	for (size_t i = 0; i < tracing->logs.count; i++) {
		if (same_file(tracing->logs.items[i]->file, file)) {
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
	if (tracing->logs.count >= UINT16_MAX || !vec_push(&tracing->logs, log)) {
		logfile_free(log);
		return error_new(ERROR_FAILED, "out of memory");
	}
	*ret_log = (uint16_t)tracing->logs.count;
	if (!session->options.flush_ms)
		session->options.flush_ms = LOG_FLUSH_MS;
	return NULL;
}

static void add_line(void *context, const struct line_event *event)
{
	struct session *session = context;
	uint16_t log = event->type->log;

	if (log && log <= session->tracing.logs.count)
		logfile_add(session->tracing.logs.items[log - 1], &session->clock, event);
}

void tracing_observe(struct session *session, const struct reader_batch *batch)
{
	if (session->tracing.logs.count)
		line_each(batch, session->types, add_line, session);
}

void tracing_flush_logs(struct session *session, uint64_t until, bool all)
{
	for (size_t i = 0; i < session->tracing.logs.count; i++)
		logfile_flush(session->tracing.logs.items[i], until, all);
}

uint64_t tracing_left_out(const struct session *session, int *ret_failed)
{
	uint64_t left_out = 0;

	*ret_failed = 0;
	for (size_t i = 0; i < session->tracing.logs.count; i++) {
		left_out += session->tracing.logs.items[i]->left_out;
		if (session->tracing.logs.items[i]->failed)
			*ret_failed = session->tracing.logs.items[i]->failed;
	}
	return left_out;
}

/* ---- what they tell -------------------------------------------------------------------------- */

bool tracing_counts(const struct session *session, const struct tracepoint *tracepoint,
		    struct counts_sum *ret_sum)
{
	if (tracepoint->has_cell)
		counts_read(&session->tracing.counts, &tracepoint->cell, ret_sum);
	return tracepoint->has_cell;
}

static uint64_t to_ns(const struct session *session, uint64_t cycles)
{
	uint64_t frequency = session->clock.frequency;

	return frequency ? (uint64_t)((unsigned __int128)cycles * 1000000000u / frequency) : 0;
}

void tracing_times(const struct session *session, const struct counts_sum *sum,
		   struct tracepoint_times *ret_times)
{
	*ret_times = (struct tracepoint_times){ .calls = sum->exits,
						.total = to_ns(session, sum->total),
						.max = to_ns(session, sum->max),
						.p50 = to_ns(session, sum->p50),
						.p90 = to_ns(session, sum->p90),
						.p99 = to_ns(session, sum->p99) };
}

double tracing_rate(const struct session *session, const struct tracepoint *tracepoint,
		    uint64_t hits)
{
	uint64_t end = session->tracing.ended_ns ? session->tracing.ended_ns : now_ns();

	if (!tracepoint->placed_ns || end <= tracepoint->placed_ns)
		return 0;
	return (double)hits * 1e9 / (double)(end - tracepoint->placed_ns);
}

void tracing_placed(const struct tracepoint_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		if (list->items[i]->probe.site && !list->items[i]->placed_ns)
			list->items[i]->placed_ns = now_ns();
	}
}

void tracing_ended(struct session *session)
{
	session->tracing.ended_ns = now_ns();
}

void tracing_free(struct session *session)
{
	counts_free(&session->tracing.counts);
	tracing_free_call(session);
	vec_free(&session->tracing.looked_at);
	for (size_t i = 0; i < session->tracing.logs.count; i++)
		logfile_free(session->tracing.logs.items[i]);
	vec_free(&session->tracing.logs);
}
