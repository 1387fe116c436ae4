/*
 * follow_rows.c - the event types of executed programs, and rows for their tracepoints, which
 * outlive the exec sessions.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/now.h"
#include "control/values/describe/describe.h"
#include "follow_state.h"

/* ---- the same ids for the same program (F2) -------------------------------------------------- */

static bool same_block(const struct event_types *types, const struct follow_block *block,
		       size_t first)
{
	assert(block->first + block->count <= first && first <= types->count);
	if (block->count != types->count - first)
		return false;
	for (size_t i = 0; i < block->count; i++) {
		if (!event_type_is_same(&types->items[block->first + i], &types->items[first + i]))
			return false;
	}
	return true;
}

/* The program's file name, which tells tracepoints of the same name apart. */
static const char *program_name(const struct session *exec)
{
	const char *slash = strrchr(exec->proc->exe, '/');

	return slash && slash[1] ? slash + 1 : exec->proc->comm;
}

/* Are the block's tracepoints of that program? */
static bool is_of(const struct session *root, const struct follow_block *block, const char *program)
{
	const char *name = block->row < root->follow->rows.count ?
				   root->follow->rows.items[block->row].name :
				   "";
	const char *at = strrchr(name, '@');

	return at && !strcmp(at + 1, program);
}

/* Ids of tracepoints with exits stand in other places, too, and can't change any more. */
static bool may_take_ids(const struct session *exec)
{
	for (size_t i = 0; i < exec->tracepoints.count; i++) {
		if (exec->tracepoints.items[i]->probe.event.at_exit)
			return false;
	}
	return true;
}

/* Are the joined process's tracepoints those of the parent? */
static bool shares_with_parent(const struct session *exec, size_t first)
{
	const struct session *root = exec->parent;
	const struct follow_block own = { .count = root->follow->own_types };

	return exec->follow->is_joined && !strcmp(program_name(exec), program_name(root)) &&
	       same_block(root->types, &own, first);
}

/* Moves the exec session's ids from the new types, which are freed, to the old ones. */
static void take_ids(struct session *exec, size_t from, size_t to)
{
	struct event_types *types = exec->types;

	for (size_t i = 0; i < exec->tracepoints.count; i++) {
		struct tracepoint *tracepoint = exec->tracepoints.items[i];

		if (!tracepoint->probe.site)
			continue;
		assert(tracepoint->has_type && tracepoint->probe.event.id >= from);
		tracepoint->probe.event.id = (uint32_t)(tracepoint->probe.event.id - from + to);
		assert(tracepoint->probe.event.id < from); /* F2: an earlier session's id */
		describe_set_ids(tracepoint);
	}
	for (size_t i = from; i < types->count; i++) {
		free(types->items[i].name);
		free(types->items[i].labels);
		event_fields_free(types->items[i].fields, types->items[i].field_count);
	}
	types->count = from;
}

static struct error *add_row(struct session *root, const struct tracepoint *tracepoint,
			     const char *program)
{
	struct follow_row row = { .address = tracepoint->probe.place.address,
				  .how = site_tactic(tracepoint->probe.site),
				  .id = tracepoint->probe.event.id,
				  .has_exit = tracepoint->probe.event.exit,
				  .filters_exits = tracepoint->values.filters_exits,
				  .tracer = tracepoint->tracer->name,
				  .placed_ns = now_ns() };

	if (asprintf(&row.name, "%s@%s", tracepoint->name, program) < 0)
		return error_new(ERROR_FAILED, "out of memory");
	if (vec_push(&root->follow->rows, row))
		return NULL;
	free(row.name);
	return error_new(ERROR_FAILED, "out of memory");
}

struct error *follow_share_types(struct session *exec, size_t first)
{
	assert(exec->parent && exec->types == exec->parent->types); /* F1 */
	struct session *root = exec->parent;
	const char *program = program_name(exec);
	struct follow_block block = { first, root->types->count - first, root->follow->rows.count };

	if (!block.count)
		return NULL;
	if (shares_with_parent(exec, first)) {
		take_ids(exec, first, 0);
		return NULL;
	}
	for (size_t i = 0; i < root->follow->blocks.count && may_take_ids(exec); i++) {
		const struct follow_block *old = &root->follow->blocks.items[i];

		if (!is_of(root, old, program) || !same_block(root->types, old, first))
			continue;
		take_ids(exec, first, old->first);
		return NULL;
	}
	if (!vec_push(&root->follow->blocks, block))
		return error_new(ERROR_FAILED, "out of memory");
	for (size_t i = 0; i < exec->tracepoints.count; i++) {
		const struct tracepoint *tracepoint = exec->tracepoints.items[i];
		struct error *error =
			tracepoint->probe.site ? add_row(root, tracepoint, program) : NULL;

		if (error)
			return error;
	}
	return NULL;
}
