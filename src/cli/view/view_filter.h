/*
 * view_filter.h - which events dyntrace view prints: an expression over their fields, in the
 * language of --filter.
 *
 * Names are fields (with members and indices: req.path, numbers[2]), $name, $tid and $pid. An event
 * that hasn't all the fields isn't printed; that no event has them is an error.
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
/* At the end: why it fitted no event; NULL: it did, or there were none. Caller frees. */
struct error *view_filter_error(struct view_filter *filter);

#endif
