/*
 * view_select.h - the part of a trace that a user wants to see: threads, a time, a number of lines.
 */
#ifndef DYNTRACE_VIEW_SELECT_H
#define DYNTRACE_VIEW_SELECT_H

#include <stdbool.h>
#include <stdint.h>

#include "control/base/error.h"

struct view_select {
	/* As the user gave them; NULL: all. */
	const char *tid, *pid, *from, *to, *around, *count;

	/* Read from them by view_select_read and view_select_place: */
	uint64_t wanted_tid, wanted_pid; /* UINT64_MAX: any */
	uint64_t most, shown; /* lines */
	int64_t from_ns, to_ns;
};

/* Reads the numbers; times are read when the trace's first event is known. */
struct error *view_select_read(struct view_select *select);
/* Reads the times: of the day (09:03:30.118), of the trace (+1.5), or ns since 1970. */
struct error *view_select_place(struct view_select *select, int64_t first_ns);
/* Is a time wanted at all? */
bool view_select_has_time(const struct view_select *select);
bool view_select_wants(const struct view_select *select, int64_t ns, uint64_t tid, uint64_t pid);
/* Has everything been shown? Nothing after `ns` will come before it. */
bool view_select_is_done(const struct view_select *select, int64_t ns);

#endif
