/*
 * exits_callers.c - the code whose calls may return through stubs (R6): code of files that has
 * unwind tables.
 *
 * Seen: a JVM aborts in its garbage collection, because it finds the frames of code that it has
 * compiled by their return addresses. V8 does the same with its built-in functions, which lie in
 * the program's own text, without tables. Calls from such code are recorded at their entry only,
 * and counted as missed.
 */
#include <assert.h>

#include "control/base/cleanup.h"
#include "exits.h"
#include "control/session/state/session_state.h"

struct allowing {
	struct dt_control *control;
	const struct module *module;
};

static void allow(void *context, uint64_t start, uint64_t end)
{
	const struct allowing *allowing = context;
	struct dt_control *control = allowing->control;
	uint32_t index = control->caller_count;
	/* The address after a function's last call may belong to the next function. */
	struct dt_callers range = { allowing->module->bias.v + start,
				    allowing->module->bias.v + end + 1 };

	assert(start <= end); /* R6 */
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

	forget_unloaded(allowing.control, modules);
	for (size_t i = 0; i < modules->count; i++) {
		struct symtab *symtab;

		allowing.module = modules->items[i];
		if (is_allowed(allowing.control, allowing.module))
			continue;
		_cleanup_error_ struct error *unreadable =
			module_symtab(session->proc, modules->items[i], &symtab);
		if (!unreadable)
			symtab_each_unwind_covered(symtab, SYM_UNCOVERED_MIN, allow, &allowing);
	}
}
