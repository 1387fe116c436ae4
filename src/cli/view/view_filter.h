/*
 * view_filter.h - select events by an expression over their fields, in the language of --filter.
 *
 * Names are fields (with members and indices: req.path, numbers[2]), $name, $tid and $pid. An event
 * without one of the fields isn't printed. If no event has them all, view_filter_error says so.
 */
#ifndef DYNTRACE_VIEW_FILTER_H
#define DYNTRACE_VIEW_FILTER_H

#include <babeltrace2/babeltrace.h>
#include <stdbool.h>

#include "control/base/error.h"

struct view_filter;

/* NULL: out of memory. The text is borrowed. */
struct view_filter *view_filter_create(const char *text);
void view_filter_destroy(struct view_filter *filter);
bool view_filter_wants(struct view_filter *filter, const bt_event *event);
/* After the last event: why the filter fits no event class; NULL: it fits one, or no event came.
 * Caller frees. */
struct error *view_filter_error(struct view_filter *filter);

#endif
