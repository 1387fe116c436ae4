/*
 * info.c - counts and descriptions of tracepoints for the user.
 */
#include <assert.h>

#include "control/base/cleanup.h"
#include "control/base/now.h"
#include "info.h"
#include "control/exits/exits.h"
#include "control/session/processes/follow_state.h"
#include "session.h"
#include "control/tracers/call/call_tracer.h"
#include "control/tracers/count/count_tracer.h"
#include "control/tracers/count/demotion.h"
#include "control/tracers/count/hit_cost.h"

#define CALIBRATED_HITS 1000 /* fewer cost less than to know what they cost */

size_t session_tracepoint_count(const struct session *session)
{
	return session->tracepoints.count + session->follow->rows.count;
}

/* ---- counts ---------------------------------------------------------------------------------- */

/* Everything that was counted under an id so far. */
static struct tally count_id(const struct session *session, uint32_t id, bool has_exit)
{
	struct tally tally = { 0 };

	if (id >= session->types->count)
		return tally;
	tally.hits = session->types->items[id].hits;
	tally.lost = session->types->items[id].lost;
	tally.left_out = session->types->items[id].left_out;
	if (!has_exit || id + 1 >= session->types->count || !session->agent ||
	    !session->exits->unwound)
		return tally;
	tally.exits = session->types->items[id + 1].hits;
	tally.exits_lost = session->types->items[id + 1].lost;
	tally.exits_left_out = session->types->items[id + 1].left_out;
	tally.missed = session->agent->pool->tallies[id].missed;
	tally.unwound =
		(uint64_t)session->agent->pool->tallies[id].unwound + session->exits->unwound[id];
	return tally;
}

void info_note_fates(struct session *session)
{
	for (uint32_t id = 0; id < session->types->count; id++) {
		struct tally tally = count_id(session, id, true);
		uint64_t ended = tally.exits + tally.exits_lost + tally.missed + tally.unwound,
			 begun = tally.hits + tally.lost;

		session->types->items[id].fates =
			(struct event_fates){ .missed = tally.missed,
					      .unwound = tally.unwound,
					      .inside = begun > ended ? begun - ended : 0 };
	}
}

void info_note_demoted(struct session *session)
{
	for (size_t i = 0; i < session->tracepoints.count; i++) {
		const struct tracepoint *tracepoint = session->tracepoints.items[i];

		if (tracepoint->demotion && tracepoint->has_type)
			session->types->items[tracepoint->probe.event.id].demoted =
				(struct event_demoted){
					.hits = demotion_hits(session, tracepoint),
					.off_ns = demotion_off_ns(tracepoint, session->ended_ns) };
	}
}

/* *sum += now - before. In overwrite mode hits may have decreased. */
static void add_tally(struct tally *sum, const struct tally *now, const struct tally *before)
{
	sum->hits += now->hits > before->hits ? now->hits - before->hits : 0;
	sum->lost += now->lost - before->lost;
	sum->exits += now->exits > before->exits ? now->exits - before->exits : 0;
	sum->exits_lost += now->exits_lost - before->exits_lost;
	sum->missed += now->missed - before->missed;
	sum->unwound += now->unwound - before->unwound;
	sum->left_out += now->left_out - before->left_out;
	sum->exits_left_out += now->exits_left_out - before->exits_left_out;
}

static struct tally count_past(const struct session *session, const struct tracepoint *tracepoint)
{
	struct tally sum = tracepoint->past;

	if (tracepoint->has_former) {
		struct tally former =
			count_id(session, tracepoint->former_id, tracepoint->probe.event.exit);

		add_tally(&sum, &former, &tracepoint->former_before);
	}
	return sum;
}

/* Also tells what is counted in the target: then no events count. */
static struct tally count(const struct session *session, const struct tracepoint *tracepoint,
			  struct counts_sum *ret_counted, bool *ret_is_counted)
{
	struct tally sum = count_past(session, tracepoint);

	if (tracepoint->has_type) {
		struct tally now =
			count_id(session, tracepoint->probe.event.id, tracepoint->probe.event.exit);

		add_tally(&sum, &now, &tracepoint->before);
	}
	*ret_is_counted = count_tracer_read(session, tracepoint, ret_counted);
	if (*ret_is_counted) {
		sum.hits += ret_counted->hits;
		sum.exits += ret_counted->exits;
	}
	return sum;
}

void info_inherit(struct session *session, struct tracepoint *old, struct tracepoint *heir)
{
	struct counts_sum counted;

	assert(!heir->has_former);
	heir->past = count_past(session, old);
	if (old->tracer->kind != TRACER_COUNT && count_tracer_read(session, old, &counted)) {
		heir->past.hits += counted.hits;
		heir->past.exits += counted.exits;
	}
	heir->has_former = old->has_type;
	heir->former_id = old->probe.event.id;
	heir->former_before = old->before;
}

void info_fold(struct session *session)
{
	_cleanup_error_ struct error *ignored = session_flush(session);

	for (size_t i = 0; i < session->tracepoints.count; i++) {
		struct tracepoint *tracepoint = session->tracepoints.items[i];

		tracepoint->past = count_past(session, tracepoint);
		tracepoint->has_former = false;
	}
}

void info_start(struct session *session, struct tracepoint *tracepoint)
{
	tracepoint->before =
		count_id(session, tracepoint->probe.event.id, tracepoint->probe.event.exit);
}

/* Of a tracepoint whose exits are filtered. A process that has ended can't be looked at any more:
 * then the calls are known that were recorded without an exit (R10). */
static uint64_t find_inside(const struct session *session, uint32_t id,
			    const struct tracepoint_info *info)
{
	uint64_t found = session->exits->inside[id], ended = info->exits + info->exits_lost;
	bool is_pair = id + 1 < session->types->count && session->types->items[id + 1].is_pair;

	return is_pair && info->hits > ended + found ? info->hits - ended : found;
}

/* Fills in exits: counted while the target ran, and found when it was detached. */
static void add_exits(const struct session *session, uint32_t id, bool filters,
		       const struct tally *tally, struct tracepoint_info *info)
{
	info->has_exit = true;
	info->exits = tally->exits;
	info->exits_lost = tally->exits_lost;
	info->missed = tally->missed;
	info->unwound = tally->unwound;
	uint64_t ended = info->exits + info->exits_lost + info->missed + info->unwound;
	info->inside = info->hits > ended ? info->hits - ended : 0;
	if (filters && session->exits->inside) /* exits that a filter rejected aren't counted */
		info->inside = find_inside(session, id, info);
	latency_times(&session->latency, id, &info->times);
}

/* Takes lines that the log left out for lost. */
static void move_left_out(uint64_t left_out, uint64_t *hits, uint64_t *lost)
{
	uint64_t moved = left_out < *hits ? left_out : *hits;

	*hits -= moved;
	*lost += moved;
}

/* Hits per second since it was placed, or until recording ended. */
static double rate_of(const struct session *session, uint64_t placed_ns, uint64_t hits)
{
	uint64_t end = session->ended_ns ? session->ended_ns : now_ns();

	if (!placed_ns || end <= placed_ns)
		return 0;
	return (double)hits * 1e9 / (double)(end - placed_ns);
}

void info_placed(const struct tracepoint_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		if (list->items[i]->probe.site && !list->items[i]->placed_ns)
			list->items[i]->placed_ns = now_ns();
	}
}

void info_begin(struct session *session)
{
	for (size_t i = 0; i < session->tracepoints.count; i++) {
		if (session->tracepoints.items[i]->placed_ns)
			session->tracepoints.items[i]->placed_ns = now_ns();
	}
}

void info_ended(struct session *session)
{
	session->ended_ns = session->stopped ? session->paused_ns : now_ns();
}

/* ---- descriptions ---------------------------------------------------------------------------- */

static void describe_request(const struct tracepoint *tracepoint, struct tracepoint_info *info)
{
	const struct tracepoint_spec *spec = &tracepoint->request->spec;

	info->location = spec->location;
	info->kind = tracepoint->kind;
	info->tracer = spec->tracer;
	info->tracer_argument = spec->tracer_argument;
	info->enabled = !tracepoint->is_off;
	info->is_trigger = spec->is_trigger;
	info->filter = spec->filter;
	info->by = spec->by;
	info->of = spec->of;
	info->contexts = (const char *const *)tracepoint->contexts.items;
	info->context_count = tracepoint->contexts.count;
	if (tracepoint->exit_refusal)
		info->exit_refusal = error_text(tracepoint->exit_refusal);
	if (tracepoint->late_refusal)
		info->late_refusal = error_text(tracepoint->late_refusal);
}

static const char *how_placed(const struct tracepoint *tracepoint)
{
	const struct probe *probe = &tracepoint->probe;

	if (tracepoint->waits)
		return "waiting";
	return probe->site ? site_tactic(probe->site) : "removed";
}

/* A tracepoint of an executed program. */
static struct tracepoint_info describe_row(const struct session *session,
					   const struct follow_row *row)
{
	struct tally tally = count_id(session, row->id, row->has_exit);
	struct counts_sum counted = { 0 };

	if (row->counted)
		counts_sum_up(row->counted, row->has_times, &counted);
	tally.hits += counted.hits;
	tally.exits += counted.exits;
	struct tracepoint_info info = { .name = row->name,
					.address = row->address,
					.how = row->how,
					.enabled = true,
					.tracer = row->tracer,
					.hits = tally.hits,
					.lost = tally.lost };
	info.rate = rate_of(session, row->placed_ns, info.hits);
	if (row->has_exit && session->exits->unwound)
		add_exits(session, row->id, row->filters_exits, &tally, &info);
	if (info.has_exit && row->counted)
		count_tracer_times(session, &counted, &info.times);
	return info;
}

uint64_t session_foreign_calls(const struct session *session, char **ret_runtimes)
{
	*ret_runtimes = NULL;
	if (!session->agent || !session->exits->returns.v || !session->agent->pool->foreign)
		return 0;
	*ret_runtimes = exits_runtimes(session);
	return session->agent->pool->foreign;
}

uint64_t session_jumped_calls(const struct session *session)
{
	return session->agent && session->exits->returns.v ? session->agent->pool->jumped : 0;
}

/* How many tracepoints are hit in turn? Without a budget: as many as have a share of the events, or
 * all, if that doesn't matter or isn't known. */
static size_t spread_of(const struct session *session, double hits)
{
	uint64_t sum = 0;
	size_t spread = 0;

	if (session->budget)
		return session->spread;
	for (size_t i = 0; hits >= CALIBRATED_HITS && i < session->types->count; i++)
		sum += session->types->items[i].hits;
	for (size_t i = 0; sum && i < session->types->count; i++)
		hit_cost_spread_add(&spread, session->types->items[i].hits, sum);
	return sum ? spread : session->tracepoints.count;
}

/* Adds hits that were only counted, which have no exits. */
static void add_demotion(const struct session *session, const struct tracepoint *tracepoint,
			 struct tracepoint_info *info)
{
	double recorded = (double)(info->hits + info->lost);
	uint64_t end = session->ended_ns ? session->ended_ns : now_ns();

	if (recorded >= CALIBRATED_HITS)
		hit_cost_calibrate();
	struct hit_cost cost = hit_cost_of(tracepoint, spread_of(session, recorded));
	info->cost_ns = (uint64_t)(recorded * cost.recorded);
	if (!tracepoint->demotion)
		return;
	info->cost_ns = (uint64_t)(tracepoint->demotion->cost *
				   (session->cost_scale > 0 ? session->cost_scale : 1));
	info->cost_measured = session->cost_measured;
	info->unseen = (uint64_t)tracepoint->demotion->unseen;
	info->level = tracepoint->level;
	info->counted = demotion_hits(session, tracepoint);
	info->off_ns = demotion_off_ns(tracepoint, end);
	info->steps = tracepoint->demotion->steps;
	info->judged = demotion_judged(session, tracepoint);
	if (!tracepoint->demotion->is_judged) /* else nobody asked the filter about them */
		info->hits += info->counted;
}

struct tracepoint_info session_tracepoint(const struct session *session, size_t index)
{
	assert(index < session_tracepoint_count(session));
	size_t own = session->tracepoints.count;
	if (index >= own)
		return describe_row(session, &session->follow->rows.items[index - own]);
	const struct tracepoint *tracepoint = session->tracepoints.items[index];
	const struct probe *probe = &tracepoint->probe;
	struct tracepoint_info info = { .name = tracepoint->name, .address = probe->place.address };
	const struct error *why = tracepoint->waits ? tracepoint->still_waits : probe->refusal;

	describe_request(tracepoint, &info);
	if (probe->place.module)
		info.module = probe->place.module->path;
	if (probe->place.module && modules_have_copy(&session->modules, probe->place.module))
		info.copy_at = probe->place.module->low;
	info.was_placed = tracepoint->was_placed;
	if (why)
		info.refusal = error_text(why);
	if (probe->refusal)
		return info;
	struct counts_sum counted;
	bool is_counted;
	struct tally tally = count(session, tracepoint, &counted, &is_counted);
	info.how = how_placed(tracepoint);
	info.hits = tally.hits;
	info.lost = tally.lost;
	info.rate = rate_of(session, tracepoint->placed_ns, info.hits);
	call_tracer_add_uncalled(session, tracepoint, &info);
	info.fault = call_tracer_fault(tracepoint);
	assert(!tracepoint->has_type || probe->event.id < session->types->count);
	if (tracepoint->has_type) {
		const struct event_type *type = &session->types->items[probe->event.id];

		info.fields = type->fields;
		info.field_count = type->field_count;
	}
	if (probe->site)
		info.code_bytes = probe->site->piece.size;
	if (probe->event.exit && session->agent && session->exits->unwound &&
	    tracepoint_knows_exits(tracepoint))
		add_exits(session, probe->event.id, tracepoint->values.filters_exits, &tally,
			  &info);
	move_left_out(tally.left_out, &info.hits, &info.lost);
	move_left_out(tally.exits_left_out, &info.exits, &info.exits_lost);
	if (info.has_exit && is_counted)
		count_tracer_times(session, &counted, &info.times);
	add_demotion(session, tracepoint, &info);
	return info;
}

bool session_durations(const struct session *session, size_t index,
		       struct distribution *ret_durations)
{
	const struct tracepoint *tracepoint =
		index < session->tracepoints.count ? session->tracepoints.items[index] : NULL;

	if (!tracepoint || tracepoint->count || !tracepoint->probe.event.exit)
		return tracepoint && count_tracer_durations(session, tracepoint, ret_durations);
	const struct distribution *read =
		latency_durations(&session->latency, tracepoint->probe.event.id);
	return read && read->count && distribution_merge(ret_durations, read);
}
