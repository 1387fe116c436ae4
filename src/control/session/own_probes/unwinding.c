/*
 * unwinding.c - compile the unwind tables of all modules into tables in the target.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <x86intrin.h>

#include "control/base/cleanup.h"
#include "control/elf/cfi.h"
#include "unwinding.h"

#define TABLES_MAX 64u /* the agent looks at so many */
#define LINES_MAX 1000000u /* the target can make up processes */

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

static struct dt_unwind *table_at(const struct session *session, size_t index)
{
	assert(index < session->unwinding->tables.count);
	return (struct dt_unwind *)((uint8_t *)session->agent->control +
				    session->unwinding->tables.items[index]);
}

/* The module's entry in a table of the target; NULL: it has none. */
static struct dt_unwind_module *find_entry(const struct session *session,
					   const struct module *module)
{
	for (size_t i = 0; i < session->unwinding->tables.count; i++) {
		struct dt_unwind *table = table_at(session, i);

		for (uint32_t j = 0; j < table->module_count; j++) {
			struct dt_unwind_module *entry = &table->modules[j];

			if (entry->start == module->low.v && entry->base == module->bias.v &&
			    entry->end > entry->start)
				return entry;
		}
	}
	return NULL;
}

/* Collects modules in the order of addresses, which the agent searches by halving. Code of modules
 * without a readable table is walked by frame pointers. */
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

		assert(!i || sorted[i - 1]->low.v <= module->low.v);
		if (error || !rows->count || find_entry(session, module))
			continue;
		entry.count = (uint32_t)rows->count;
		if (!vec_push(&table->modules, entry) || !vec_push(&table->rows, rows))
			return false;
		table->row_total += rows->count;
	}
	return true;
}

static void write_table(const struct table *table, uint64_t next, uint8_t *to)
{
	struct dt_unwind *head = (struct dt_unwind *)to;
	size_t at = sizeof(*head) + table->modules.count * sizeof(struct dt_unwind_module);

	head->next = next;
	head->module_count = (uint32_t)table->modules.count;
	head->rows_offset = (uint32_t)at;
	memcpy(head->modules, table->modules.items,
	       table->modules.count * sizeof(struct dt_unwind_module));
	assert(table->rows.count == table->modules.count);
	for (size_t i = 0; i < table->rows.count; i++) {
		size_t size = table->rows.items[i]->count * sizeof(struct dt_unwind_row);

		memcpy(to + at, table->rows.items[i]->items, size);
		at += size;
	}
}

/* (T4) The tables have changed. */
static void raise_turn(const struct session *session)
{
	uint32_t *turn = &session->agent->control->rows_turn;
	bool is_first = !session->unwinding->mapped;

	if (!is_first && (!*turn || *turn == DT_TURNS_MAX))
		__atomic_store_n(turn, 0, __ATOMIC_RELEASE);
	else
		__atomic_store_n(turn, *turn + 1, __ATOMIC_RELEASE);
}

static struct error *place_table(struct session *session, struct stop *stop,
				 const struct table *table)
{
	uint64_t size = sizeof(struct dt_unwind) +
			table->modules.count * sizeof(struct dt_unwind_module) +
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
		error = agent_map_window(stop, session->agent, at, (uint32_t)pages, &offset);
	if (error)
		return error;
	write_table(table, session->agent->control->unwind,
		    (uint8_t *)session->agent->control + offset);
	if (!vec_push(&session->unwinding->tables, offset))
		return error_new(ERROR_FAILED, "out of memory");
	/* pairs with row_cache_open in the agent: the table is complete before it is linked */
	__atomic_store_n(&session->agent->control->unwind, at.v, __ATOMIC_RELEASE);
	raise_turn(session);
	session->unwinding->mapped = true;
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
	error = collect(session, sorted, &table) ? NULL : error_new(ERROR_FAILED, "out of memory");
	if (!error && (table.modules.count || !session->unwinding->mapped))
		error = place_table(session, stop, &table);
	vec_free(&table.modules);
	vec_free(&table.rows);
	return error;
}

/* ---- lines for the trace --------------------------------------------------------------------- */

/* The session whose trace it is. */
static struct session *owner(struct session *session)
{
	return session->parent ? session->parent : session;
}

static void add_line(struct session *root, char *text)
{
	assert(!root->parent);
	if (!text || !vec_push(&root->unwinding->loaded, text))
		free(text);
}

/* Lines of executed programs wait for the next writing of the metadata: thousands of programs would
 * write it thousands of times. */
static void announce_lines(struct session *session)
{
	struct session *root = owner(session);

	if (root->writer)
		writer_set_modules(root->writer, root->unwinding->loaded.items,
				   root->unwinding->loaded.count);
	if (root == session)
		root->types_announced = false;
}

void unwinding_describe(struct session *session)
{
	uint64_t since = session->program ? __rdtsc() : 0;

	for (size_t i = 0; i < session->modules.count; i++)
		add_line(owner(session), module_describe(session->proc, session->modules.items[i],
							 since, session->program));
	session->unwinding->described = true;
	announce_lines(session);
}

void unwinding_note_process(struct session *session, uint32_t pid, uint32_t program,
			    uint64_t since)
{
	struct unwinding *unwinding = session->unwinding;
	struct program_process *known = NULL;
	char *text;

	assert(!session->parent);
	if (!session->programs || program > session->programs)
		return;
	for (size_t i = 0; i < unwinding->processes.count && !known; i++) {
		if (unwinding->processes.items[i].pid == pid)
			known = &unwinding->processes.items[i];
	}
	if ((known ? known->program : 0) == program || unwinding->loaded.count >= LINES_MAX)
		return;
	if (known)
		known->program = program;
	else if (!vec_push(&unwinding->processes, (struct program_process){ pid, program }))
		return;
	if (asprintf(&text, "%%%u %u @%llx", program, pid, (unsigned long long)since) < 0)
		return;
	add_line(session, text);
	if (session->writer)
		writer_set_modules(session->writer, unwinding->loaded.items,
				   unwinding->loaded.count);
}

/* Describes modules of a new table in the trace, for readers of backtraces. */
static void describe_new(struct session *session, size_t tables_before)
{
	uint64_t since = __rdtsc(); /* the thread that loads the module waits, before it runs it */

	for (size_t i = 0; i < session->modules.count; i++) {
		struct module *module = session->modules.items[i];
		const struct dt_unwind_module *entry = find_entry(session, module);

		if (!entry ||
		    (const uint8_t *)entry < (const uint8_t *)table_at(session, tables_before) ||
		    (const uint8_t *)entry >= (const uint8_t *)table_at(session, tables_before) +
						      table_at(session, tables_before)->rows_offset)
			continue;
		add_line(owner(session),
			 module_describe(session->proc, module, since, session->program));
	}
	announce_lines(session);
}

struct error *unwinding_follow(struct session *session, const struct modules *gone, bool is_new)
{
	size_t before = session->unwinding->tables.count;
	struct stop *stop = NULL;
	bool is_changed = false;
	struct error *error;

	if (!session->unwinding->mapped)
		return NULL;
	for (size_t i = 0; i < gone->count; i++) {
		struct dt_unwind_module *entry = find_entry(session, gone->items[i]);

		if (!entry)
			continue;
		__atomic_store_n(&entry->end, entry->start, __ATOMIC_RELAXED);
		is_changed = true;
	}
	if (is_changed)
		raise_turn(session);
	if (!is_new || before >= TABLES_MAX)
		return NULL;
	error = stop_one_or_quit(session->proc, STOP_TIMEOUT_MS, &stop);
	if (!error)
		error = unwinding_map(session, stop);
	stop_release(stop, NULL);
	if (!error && session->unwinding->tables.count > before)
		describe_new(session, before);
	return error;
}

bool unwinding_create(struct session *session)
{
	session->unwinding = calloc(1, sizeof(*session->unwinding));
	return session->unwinding != NULL;
}

void unwinding_free(struct session *session)
{
	struct unwinding *unwinding = session->unwinding;

	if (!unwinding)
		return;
	for (size_t i = 0; i < unwinding->loaded.count; i++)
		free(unwinding->loaded.items[i]);
	vec_free(&unwinding->loaded);
	vec_free(&unwinding->processes);
	vec_free(&unwinding->tables);
	free(unwinding);
}
