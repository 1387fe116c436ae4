/*
 * budget.h - keep what tracing takes from the target within a budget.
 *
 * Twenty times per second the budget adds up what the hits since the last look have cost
 * (tracers/count/hit_cost.h), and compares the sum with the share that the user allows: of the CPU
 * time that the target's processes used for themselves, and at least of a tenth of one processor's.
 * So a target that is nearly idle is recorded whole.
 *
 * (U11) A change of level is one store to a switch. No thread is stopped.
 * (U12) Every hit is in one of: events and losses, the count of a demoted tracepoint; or its
 *      tracepoint was off, and the time for which it was is known.
 * (U13) A call whose entry was recorded has its exit recorded, whatever its level is by then.
 * (U14) What a hit costs is corrected by measurement (budget_scale.h): where levels change, by what
 *      the target gets done before and after; always, by samples of where its CPU time goes.
 *
 * A guest of the session: budget_enable once, before session_begin.
 */
#ifndef DYNTRACE_BUDGET_H
#define DYNTRACE_BUDGET_H

#include "control/session/session.h"

/* Keeps to session_options.overhead. */
struct error *budget_enable(struct session *session);

#endif
