/*
 * view_newest.h - the trace that a command reads: the one that was named, or the newest here.
 */
#ifndef DYNTRACE_VIEW_NEWEST_H
#define DYNTRACE_VIEW_NEWEST_H

#include "control/base/error.h"
#include "options/options.h"

/* Takes the first of at most `most` words; without words finds the newest trace in the current
 * directory, says which one, and hands its name over in *ret_newest for the caller to free. */
struct error *view_newest_choose(const struct words *words, size_t most, char **ret_newest,
				 const char **ret_path);

#endif
