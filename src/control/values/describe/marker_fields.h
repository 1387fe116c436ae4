/*
 * marker_fields.h - the arguments of static markers (SDT) as fields.
 */
#ifndef DYNTRACE_MARKER_FIELDS_H
#define DYNTRACE_MARKER_FIELDS_H

#include "control/proc/proc.h"
#include "control/dwarf/debug.h"
#include "describe.h"

/* Adds the marker's arguments as fields arg0, arg1... */
void marker_fields_add(struct describe *d);
/* Finds an argument by such a name. False: the marker has none of that name. */
bool marker_fields_find(struct describe *d, const char *name, struct type *ret_type,
			struct value_place *ret_place);

#endif
