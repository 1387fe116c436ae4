/*
 * tracepoint_rows.h - counts by key of a tracepoint, as the daemon lists them: one item per key,
 * behind the tracepoint's own.
 */
#ifndef DYNTRACE_TRACEPOINT_ROWS_H
#define DYNTRACE_TRACEPOINT_ROWS_H

#include "control/tracers/count/count_rows.h"
#include "control/wire/messages.h"

/* Is the item such a row? */
bool tracepoint_rows_is_one(const struct wire_message *item);
/* Adds the item's row. */
struct error *tracepoint_rows_take(struct count_rows *rows, const struct wire_message *item);

#endif
