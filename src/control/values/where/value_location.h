/*
 * value_location.h - where a variable is at one address, by the debug information.
 *
 * Pure.
 */
#ifndef DYNTRACE_VALUE_LOCATION_H
#define DYNTRACE_VALUE_LOCATION_H

#include "control/elf/cfi.h"
#include "control/modules/tls.h"
#include "value_place.h"

struct location_context {
	struct debug *debug;
	const struct debug_function *function; /* that contains pc */
	/* of the file; NULL: variables in frames are PLACE_GONE */
	const struct cfi_rows *rows;
	uint64_t pc; /* address in the file */
	uint64_t bias; /* from the file's addresses to the process's */
	/* called for thread-local variables; may be NULL */
	struct tls (*find_tls)(void *tls_context);
	void *tls_context;
	Dwarf_Attribute *location; /* of the current expression */
};

/* The place of a variable; PLACE_GONE: nowhere. */
void location_place(struct location_context *context, Dwarf_Die *variable,
		    struct value_place *ret_place);

#endif
