/*
 * min_duration.h - --min-duration TIME: only calls that take that long, as a part of the filter.
 *
 * Pure.
 */
#ifndef DYNTRACE_MIN_DURATION_H
#define DYNTRACE_MIN_DURATION_H

#include <stdbool.h>

#include "control/base/error.h"

/* Has the filter (NULL: none) also ask for the duration. `time` NULL: gives a copy of the filter.
 * `has_exit`: exits are recorded. The caller frees *ret_filter, which may be NULL. */
struct error *min_duration_filter(const char *time, bool has_exit, const char *filter,
				  char **ret_filter);

#endif
