/*
 * unwinding.c - the unwind tables of all modules, compiled into one table in the target.
 */
#include <stdlib.h>
#include <string.h>

#include "../base/cleanup.h"
#include "../sym/cfi.h"
#include "internal.h"

struct table {
	VEC(struct dt_unwind_module) modules;
	VEC(const struct cfi_rows *) rows;
	size_t row_total;
};

static int compare_modules(const void *a, const void *b)
{
	const struct module *const *x = a, *const *y = b;

	return ((*x)->low.v > (*y)->low.v) - ((*x)->low.v < (*y)->low.v);
}

/* Modules whose file can't be read, or that have no table, are walked by their frame pointers. */
static bool collect(struct session *session, struct module **sorted, struct table *table)
{
	for (size_t i = 0; i < session->modules.count; i++) {
		struct module *module = sorted[i];
		const struct cfi_rows *rows = NULL;
		_cleanup_error_ struct error *error = module_cfi(session->proc, module, &rows);
		struct dt_unwind_module entry = { .start = module->low.v,
						  .end = module->high.v,
						  .base = module->bias.v,
						  .first = (uint32_t)table->row_total };

		if (error || !rows->count)
			continue;
		entry.count = (uint32_t)rows->count;
		if (!vec_push(&table->modules, entry) || !vec_push(&table->rows, rows))
			return false;
		table->row_total += rows->count;
	}
	return true;
}

static void write_table(const struct table *table, uint8_t *to)
{
	struct dt_unwind *head = (struct dt_unwind *)to;
	size_t at = sizeof(*head) + table->modules.count * sizeof(struct dt_unwind_module);

	head->module_count = (uint32_t)table->modules.count;
	head->rows_offset = (uint32_t)at;
	memcpy(head->modules, table->modules.items, table->modules.count * sizeof(struct dt_unwind_module));
	for (size_t i = 0; i < table->rows.count; i++) {
		size_t size = table->rows.items[i]->count * sizeof(struct dt_unwind_row);

		memcpy(to + at, table->rows.items[i]->items, size);
		at += size;
	}
}

static struct error *place_table(struct session *session, struct stop *stop, const struct table *table)
{
	uint64_t size = sizeof(struct dt_unwind) + table->modules.count * sizeof(struct dt_unwind_module) +
			table->row_total * sizeof(struct dt_unwind_row);
	uint64_t pages = (size + DT_PAGE - 1) / DT_PAGE;
	const struct module *program = session->modules.items[0];
	struct maps maps = { 0 };
	uint32_t offset;
	taddr at;
	struct error *error = maps_read(session->proc, &maps);

	if (!error)
		error = near_find_gap(&maps, program->low, program->high, pages * DT_PAGE, &at);
	maps_free(&maps);
	if (!error)
		error = inject_window(stop, session->agent, at, (uint32_t)pages, &offset);
	if (error)
		return error;
	write_table(table, (uint8_t *)session->agent->control + offset);
	session->agent->control->unwind = at.v;
	session->unwind_mapped = true;
	return NULL;
}

struct error *unwinding_map(struct session *session, struct stop *stop)
{
	_cleanup_free_ struct module **sorted = calloc(session->modules.count + 1, sizeof(*sorted));
	struct table table = { 0 };
	struct error *error;

	if (!sorted)
		return error_new(ERROR_FAILED, "out of memory");
	memcpy(sorted, session->modules.items, session->modules.count * sizeof(*sorted));
	qsort(sorted, session->modules.count, sizeof(*sorted), compare_modules);
	error = collect(session, sorted, &table) ? place_table(session, stop, &table) :
						   error_new(ERROR_FAILED, "out of memory");
	vec_free(&table.modules);
	vec_free(&table.rows);
	return error;
}
