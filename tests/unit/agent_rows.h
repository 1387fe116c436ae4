/*
 * agent_rows.h - rows that the agent finds and keeps, for tests: its own headers forbid what tests
 * need.
 */
#ifndef DYNTRACE_AGENT_ROWS_H
#define DYNTRACE_AGENT_ROWS_H

#include "shared/unwind.h"

/* `rows`: DT_ROWS_CACHED words. */
struct dt_unwind_row agent_row_of(uint64_t *rows, uint64_t turn, const struct dt_unwind *table,
				  uint64_t key);

#endif
