/*
 * exec_fold.c - counts of an exec session that is over become the parent's (F3).
 *
 * First everything that needs memory is done, then the counts are added, which can't fail. Without
 * memory the exec session stays, with its counts, and the next look tries again.
 */
#include "exec_fold.h"

#include <assert.h>
#include <stdlib.h>

#include "control/base/cleanup.h"
#include "control/exits/exits.h"
#include "control/session/processes/follow_state.h"
#include "control/tracers/count/count_tracer.h"

/* Makes what the parent keeps counts of exits in. */
static bool prepare_exits(struct session *root, const struct session *exec)
{
	assert(exec->parent == root && exec->types == root->types); /* F1 */
	if (!exec->exits->unwound)
		return true;
	if (!root->exits->unwound)
		root->exits->unwound = calloc(DT_EVENTS_MAX, sizeof(*root->exits->unwound));
	if (!root->exits->inside)
		root->exits->inside = calloc(DT_EVENTS_MAX, sizeof(*root->exits->inside));
	return root->exits->unwound && root->exits->inside;
}

/* Adds the exec session's counts of exits to the parent's. */
static void fold_exits(struct session *root, const struct session *exec)
{
	for (size_t id = 0; exec->exits->unwound && id < root->types->count; id++) {
		root->exits->unwound[id] += exec->exits->unwound[id];
		root->exits->inside[id] += exec->exits->inside[id];
	}
}

static struct follow_row *find_row(const struct session *root, uint32_t id)
{
	for (size_t i = 0; i < root->follow->rows.count; i++) {
		if (root->follow->rows.items[i].id == id)
			return &root->follow->rows.items[i];
	}
	return NULL;
}

/* Has it counts, and not by key? */
static bool has_counts(const struct tracepoint *tracepoint)
{
	return tracepoint->count && tracepoint->has_type && !tracepoint->count->keys.capacity;
}

/* Makes what the rows keep counts in. */
static bool prepare_cells(struct session *root, const struct session *exec)
{
	for (size_t i = 0; i < exec->tracepoints.count; i++) {
		const struct tracepoint *tracepoint = exec->tracepoints.items[i];
		struct follow_row *row = has_counts(tracepoint) ?
						 find_row(root, tracepoint->probe.event.id) :
						 NULL;

		if (!row || row->counted)
			continue;
		row->has_times = tracepoint->count->cell.has_times;
		row->counted = calloc(1, row->has_times ? sizeof(*row->counted) :
							  offsetof(struct dt_cell, buckets));
		if (!row->counted)
			return false;
	}
	return true;
}

/* Adds the counts to those of the parent's tracepoint that has the same id. */
static void fold_shared(struct session *root, const struct session *exec,
			const struct tracepoint *tracepoint)
{
	struct dt_cell words = { 0 };

	counts_gather(&exec->count->counts, &tracepoint->count->cell, &words);
	/* of thousands most are never called: adding nothing would give their cells memory */
	if (!(words.hits | words.total | words.again | words.inside | words.max))
		return;
	for (size_t i = 0; i < root->tracepoints.count; i++) {
		const struct tracepoint *own = root->tracepoints.items[i];

		if (own->count && own->probe.event.id == tracepoint->probe.event.id)
			counts_add(&root->count->counts, &own->count->cell, &words);
	}
}

/* Adds what was counted in the exec session's processes to the parent's. */
static void fold_counts(struct session *root, const struct session *exec)
{
	for (size_t i = 0; i < exec->tracepoints.count; i++) {
		const struct tracepoint *tracepoint = exec->tracepoints.items[i];

		if (!has_counts(tracepoint))
			continue;
		const struct counts_cell *cell = &tracepoint->count->cell;
		struct follow_row *row = find_row(root, tracepoint->probe.event.id);

		if (row && row->has_times == cell->has_times)
			counts_gather(&exec->count->counts, cell, row->counted);
		else if (!row)
			fold_shared(root, exec, tracepoint);
	}
}

/* Keeps what was counted by key there. */
static struct error *fold_rows(struct session *root, const struct session *exec)
{
	_cleanup_(count_rows_free) struct count_rows rows = { 0 };
	struct error *error = count_rows_read(exec, false, &rows);

	if (error)
		return error;
	error = count_rows_add(&root->count->past, &rows);
	if (rows.rows.count)
		return error;
	error_free(error); /* all are there, if some of the same keys are apart */
	return NULL;
}

struct error *exec_fold(struct session *root, struct session *exec)
{
	exits_open_end(exec);
	if (!prepare_exits(root, exec) || !prepare_cells(root, exec))
		return error_new(ERROR_FAILED, "out of memory");
	struct error *error = fold_rows(root, exec);
	if (error)
		return error;
	fold_exits(root, exec);
	fold_counts(root, exec);
	return NULL;
}
