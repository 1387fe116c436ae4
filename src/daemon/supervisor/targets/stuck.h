/*
 * stuck.h - workers that don't answer.
 */
#ifndef DYNTRACE_STUCK_H
#define DYNTRACE_STUCK_H

#include <stdbool.h>
#include <stdint.h>

struct supervisor;
struct target;

/* The target's worker was stopped by a signal. */
bool stuck_worker_is_stopped(const struct target *target);
/* Tells clients that have waited long enough, and replaces workers that have hung for too long. */
void stuck_sweep(struct supervisor *supervisor, uint64_t now, bool *ret_again);

#endif
