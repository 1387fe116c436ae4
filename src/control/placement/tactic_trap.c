/*
 * tactic_trap.c - one byte, int3, where nothing else fits.
 *
 * A trap costs a signal per hit, and kills the target where SIGTRAP is lost: so it is tried last,
 * and only where the caller guards SIGTRAP (planner_allow_traps).
 */
#include "tactic.h"

void planner_allow_traps(struct planner *planner, planner_may_trap_fn may_trap, void *context)
{
	planner->may_trap = may_trap;
	planner->may_trap_context = context;
}

void planner_traps_ready(struct planner *planner)
{
	planner->traps_ready = true;
}

struct error *tactic_trap_try(const struct tactic_view *view, struct site **ret_site)
{
	const struct planner *planner = view->planner;
	struct run run;

	if (!planner->may_trap)
		return error_new(ERROR_REFUSED, "not allowed here");
	if (planner->avoids_traps)
		return error_new(ERROR_REFUSED, "not yet");
	if (planner->group && !planner->traps_ready)
		return error_new(ERROR_REFUSED,
				 "not possible among tracepoints that are already placed");
	struct error *error = run_gather(view, view->index, 1, 1, &run);
	if (!error)
		error = planner->may_trap(planner->may_trap_context, view->module->module);
	if (!error)
		error = run_make_site(view, &run, "trap", ret_site);
	if (!error)
		(*ret_site)->way = DIVERT_TRAP;
	return error;
}
