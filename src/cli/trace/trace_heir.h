/*
 * trace_heir.h - go on where the `dyntrace trace` that had the process ended, or was killed.
 *
 * The dead one's probes stay until ours replace them, each in one stop (takeover_inherit): no hit
 * of ours is missed. Recording goes on in the same trace, which has events of both.
 */
#ifndef DYNTRACE_TRACE_HEIR_H
#define DYNTRACE_TRACE_HEIR_H

#include "trace_beside.h"

/* Takes over, records until trace_beside_is_over, and takes everything out of the target. Notes
 * counts and losses of our tracepoints. */
struct error *trace_heir_run(struct beside *beside);
/* After our events were copied: removes the shared trace, or leaves the dead one's events in it. */
struct error *trace_heir_tidy(struct beside *beside);
/* Losses that the dead one had counted for a type of the shared trace. */
uint64_t trace_heir_lost(const struct beside *beside, uint32_t id);

#endif
