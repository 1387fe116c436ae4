/*
 * view_follow.h - view -f: the events of a trace that is being recorded, as they come.
 */
#ifndef DYNTRACE_VIEW_FOLLOW_H
#define DYNTRACE_VIEW_FOLLOW_H

#include "view_filter.h"
#include "view_own.h"

/* Prints all events, and those that come, until recording ends. `filter`: only these; NULL: all. */
struct error *view_follow_run(const char *path, const char *filter, struct viewer *viewer);

#endif
