/*
 * overhead_option.h - --overhead N%: a budget for what tracing may cost.
 */
#ifndef DYNTRACE_OVERHEAD_OPTION_H
#define DYNTRACE_OVERHEAD_OPTION_H

#include "control/base/error.h"

#define OVERHEAD_OPTION(variable)                                                                  \
	{ 0, "overhead", "N%",                                                                     \
	  "take at most this share of the target's CPU time: what costs most and tells least is\n"   \
	  "counted instead of recorded, or off, until the load falls",                             \
	  .string = &(variable) }

/* The share, 0.05 for "5%"; 0: `text` is NULL. */
struct error *overhead_option_parse(const char *text, double *ret_share);

#endif
