/*
 * follow_rows.c - the kinds of events of programs that were begun, and what stays known of their
 * tracepoints.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "follow_state.h"

/* ---- (F2) ------------------------------------------------------------------------------------ */

static bool same_block(const struct event_types *types, const struct follow_block *block,
		       size_t first)
{
	if (block->count != types->count - first)
		return false;
	for (size_t i = 0; i < block->count; i++) {
		if (!event_type_is_same(&types->items[block->first + i], &types->items[first + i]))
			return false;
	}
	return true;
}

/* The program's file name: what tells tracepoints of the same name apart. */
static const char *program_name(const struct session *image)
{
	const char *slash = strrchr(image->proc->exe, '/');

	return slash && slash[1] ? slash + 1 : image->proc->comm;
}

/* Were the block's tracepoints of that program? */
static bool is_of(const struct session *root, const struct follow_block *block, const char *program)
{
	const char *name = block->row < root->follow->rows.count ?
				   root->follow->rows.items[block->row].name :
				   "";
	const char *at = strrchr(name, '@');

	return at && !strcmp(at + 1, program);
}

/* Ids that are written down elsewhere, too, stay as they are. */
static bool may_take_ids(const struct session *image)
{
	for (size_t i = 0; i < image->tracepoints.count; i++) {
		if (image->tracepoints.items[i]->probe.event.at_exit)
			return false;
	}
	return true;
}

static void take_ids(struct session *image, size_t from, size_t to)
{
	struct event_types *types = image->types;

	for (size_t i = 0; i < image->tracepoints.count; i++) {
		struct tracepoint *tracepoint = image->tracepoints.items[i];

		if (!tracepoint->probe.site)
			continue;
		tracepoint->probe.event.id = (uint32_t)(tracepoint->probe.event.id - from + to);
		if (tracepoint->values.program)
			tracepoint->values.program->id = tracepoint->probe.event.id;
	}
	for (size_t i = from; i < types->count; i++) {
		free(types->items[i].name);
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
				  .filters_exits = tracepoint->values.filters_exits };

	if (asprintf(&row.name, "%s@%s", tracepoint->name, program) < 0)
		return error_new(ERROR_FAILED, "out of memory");
	if (vec_push(&root->follow->rows, row))
		return NULL;
	free(row.name);
	return error_new(ERROR_FAILED, "out of memory");
}

struct error *follow_share_types(struct session *image, size_t first)
{
	struct session *root = image->parent;
	const char *program = program_name(image);
	struct follow_block block = { first, root->types->count - first, root->follow->rows.count };

	if (!block.count)
		return NULL;
	for (size_t i = 0; i < root->follow->blocks.count && may_take_ids(image); i++) {
		const struct follow_block *old = &root->follow->blocks.items[i];

		if (!is_of(root, old, program) || !same_block(root->types, old, first))
			continue;
		take_ids(image, first, old->first);
		return NULL;
	}
	if (!vec_push(&root->follow->blocks, block))
		return error_new(ERROR_FAILED, "out of memory");
	for (size_t i = 0; i < image->tracepoints.count; i++) {
		const struct tracepoint *tracepoint = image->tracepoints.items[i];
		struct error *error =
			tracepoint->probe.site ? add_row(root, tracepoint, program) : NULL;

		if (error)
			return error;
	}
	return NULL;
}
