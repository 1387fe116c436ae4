/*
 * sync_line.h - describe the line of an event to the agent (shared/hit_line.h), which has the form
 * of lines/event_line.h.
 *
 * Pure. Names are foreign, and are escaped here.
 */
#ifndef DYNTRACE_SYNC_LINE_H
#define DYNTRACE_SYNC_LINE_H

#include "shared/hit_line.h"
#include "control/base/error.h"
#include "control/event/event.h"

/* Offsets are complete, addresses and the descriptor are 0. The caller frees *ret_line. */
struct error *sync_line_make(struct event_type *type, const char *process,
			     struct dt_line **ret_line, uint32_t *ret_size);

#endif
