/*
 * exits_callers.c - the code whose calls may return through stubs (R6): code of files that has
 * unwind tables, and whose runtime has no tables of return addresses.
 *
 * Seen: a JVM aborts in its garbage collection, because it finds the frames of code that it has
 * compiled by their return addresses. V8 does the same with its built-in functions, which lie in
 * the program's own text, without tables. OCaml's compiler writes unwind tables and a table of
 * return addresses (exits/check/return_tables.h). Calls from such code are recorded at their entry
 * only, and counted as missed.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "control/base/strbuf.h"
#include "exits.h"
#include "control/session/state/session_state.h"

/* ---- modules --------------------------------------------------------------------------------- */

static const struct exits_caller *find_judged(const struct exits *exits,
					      const struct module *module)
{
	for (size_t i = 0; i < exits->callers.count; i++) {
		const struct exits_caller *caller = &exits->callers.items[i];

		if (caller->module == module && taddr_equal(caller->low, module->low))
			return caller;
	}
	return NULL;
}

static bool is_loaded(const struct modules *modules, const struct exits_caller *caller)
{
	for (size_t i = 0; i < modules->count; i++) {
		if (modules->items[i] == caller->module &&
		    taddr_equal(modules->items[i]->low, caller->low))
			return true;
	}
	return false;
}

static void free_caller(struct exits_caller *caller)
{
	return_tables_free(&caller->tables);
	free(caller->name);
}

static void drop_unloaded(struct exits *exits, const struct modules *modules)
{
	size_t kept = 0;

	for (size_t i = 0; i < exits->callers.count; i++) {
		if (is_loaded(modules, &exits->callers.items[i]))
			exits->callers.items[kept++] = exits->callers.items[i];
		else
			free_caller(&exits->callers.items[i]);
	}
	exits->callers.count = kept;
}

static struct error *judge(struct session *session, struct module *module)
{
	struct exits_caller caller = { .module = module, .low = module->low };
	struct symtab *symtab;
	struct error *error = module_symtab(session->proc, module, &symtab);

	if (error) { /* no file: no caller */
		error_free(error);
		return NULL;
	}
	error = return_tables_find(symtab, &caller.tables);
	if (error)
		return error;
	caller.name = strdup(module_called(session->proc, module));
	if (caller.name && vec_push(&session->exits->callers, caller))
		return NULL;
	free_caller(&caller);
	return error_new(ERROR_FAILED, "out of memory");
}

struct error *exits_judge_callers(struct session *session, bool all)
{
	struct error *error = NULL;

	drop_unloaded(session->exits, &session->modules);
	for (size_t i = 0; i < session->modules.count && !error; i++) {
		struct module *module = session->modules.items[i];

		if ((all || module->is_executable) && !find_judged(session->exits, module))
			error = judge(session, module);
	}
	return error;
}

bool exits_has_runtime(const struct session *session, const struct module *module)
{
	const struct exits_caller *caller = find_judged(session->exits, module);

	return caller && (caller->tables.runtime || caller->tables.makes_code);
}

bool exits_looks_near(const struct session *session)
{
	bool found = false;

	for (size_t i = 0; i < session->exits->callers.count; i++) {
		const char *runtime = session->exits->callers.items[i].tables.runtime;

		/* (a stripped one is found by its table, and has no name) */
		found |= runtime && (!strcmp(runtime, "OCaml") || !strcmp(runtime, RUNTIME_OF_TABLE));
	}
	return found;
}

char *exits_runtimes(const struct session *session)
{
	struct strbuf text = { 0 };

	for (size_t i = 0; i < session->exits->callers.count; i++) {
		const struct exits_caller *caller = &session->exits->callers.items[i];

		if (caller->tables.runtime)
			strbuf_printf(&text, "%s%s in %s", text.length ? ", " : "",
				      caller->tables.runtime, caller->name);
	}
	if (text.failed)
		strbuf_free(&text);
	return text.text;
}

void exits_free_callers(struct exits *exits)
{
	for (size_t i = 0; i < exits->callers.count; i++)
		free_caller(&exits->callers.items[i]);
	vec_free(&exits->callers);
}

/* ---- ranges ---------------------------------------------------------------------------------- */

struct allowing {
	struct dt_control *control;
	const struct exits_caller *caller;
};

/* A call's return address is the one after it: its caller is at the address before. */
static void allow_piece(const struct allowing *allowing, uint64_t start, uint64_t end)
{
	struct dt_control *control = allowing->control;
	uint32_t index = control->caller_count;
	uint64_t bias = allowing->caller->module->bias.v;
	struct dt_callers range = { bias + start + 1, bias + end + 1 };

	if (start >= end)
		return;
	/* The range of a library that is loaded again at the same place is filled again. */
	for (uint32_t i = 0; i < index; i++) {
		if (control->callers[i].start == range.start) {
			__atomic_store_n(&control->callers[i].end, range.end, __ATOMIC_RELEASE);
			return;
		}
	}
	if (index >= DT_CALLERS_MAX)
		return;
	control->callers[index] = range;
	/* pairs with retslot_may_have */
	__atomic_store_n(&control->caller_count, index + 1, __ATOMIC_RELEASE);
}

/* Allows the stretch without the code of the runtime (H29). */
static void allow(void *context, uint64_t start, uint64_t end)
{
	const struct allowing *allowing = context;
	const struct ranges *code = &allowing->caller->tables.code;

	assert(start <= end); /* R6 */
	for (size_t i = 0; i < code->count; i++) {
		const struct range *own = &code->items[i];

		if (own->end <= start || own->start >= end)
			continue;
		allow_piece(allowing, start, own->start);
		start = own->end;
	}
	allow_piece(allowing, start, end);
}

static bool is_allowed(const struct dt_control *control, const struct module *module)
{
	for (uint32_t i = 0; i < control->caller_count; i++) {
		const struct dt_callers *callers = &control->callers[i];

		if (callers->start != callers->end && /* forget_unloaded has emptied the others */
		    taddr_within(taddr_of(callers->start), module->low, module->high))
			return true;
	}
	return false;
}

/* Empties the ranges of unloaded modules: other code may soon be mapped at these addresses. */
static void forget_unloaded(struct dt_control *control, const struct modules *modules)
{
	for (uint32_t i = 0; i < control->caller_count; i++) {
		struct dt_callers *callers = &control->callers[i];
		bool found = false;

		for (size_t j = 0; j < modules->count && !found; j++)
			found = taddr_within(taddr_of(callers->start), modules->items[j]->low,
					     modules->items[j]->high);
		if (!found)
			__atomic_store_n(&callers->end, callers->start, __ATOMIC_RELEASE);
	}
}

void exits_allow(struct session *session)
{
	const struct modules *modules = &session->modules;
	struct allowing allowing = { .control = session->agent->control };
	_cleanup_error_ struct error *out_of_memory = exits_judge_callers(session, true);

	forget_unloaded(allowing.control, modules);
	for (size_t i = 0; i < modules->count; i++) {
		struct symtab *symtab;

		/* a module that could not be judged gets no stubs */
		allowing.caller = find_judged(session->exits, modules->items[i]);
		if (!allowing.caller || is_allowed(allowing.control, modules->items[i]))
			continue;
		_cleanup_error_ struct error *unreadable =
			module_symtab(session->proc, modules->items[i], &symtab);
		if (!unreadable)
			symtab_each_unwind_covered(symtab, SYM_UNCOVERED_MIN, allow, &allowing);
	}
}
