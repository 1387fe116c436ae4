/*
 * marker_fields.h - static markers as tracepoints: their arguments.
 */
#ifndef DYNTRACE_MARKER_FIELDS_H
#define DYNTRACE_MARKER_FIELDS_H

#include "control/proc/proc.h"
#include "control/dwarf/debug.h"
#include "describe.h"

/* Arguments become fields: arg0, arg1... */
void marker_fields_add(struct describe *d);
/* One of them by its name; false: it isn't one. */
bool marker_fields_find(struct describe *d, const char *name, struct type *ret_type,
		  struct value_place *ret_place);

#endif
