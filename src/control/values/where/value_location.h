/*
 * value_location.h - where the debug information says that a variable is, at one address.
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
	/* of its file; may be NULL: then nothing in a frame is found */
	const struct cfi_rows *rows;
	uint64_t pc; /* the file's */
	uint64_t bias; /* from the file's addresses to the process's */
	/* of the file's module, if a thread-local variable is met; may be NULL */
	struct tls (*find_tls)(void *tls_context);
	void *tls_context;
	Dwarf_Attribute *location; /* of the expression at work */
};

/* PLACE_GONE where it isn't anywhere. */
void location_place(struct location_context *context, Dwarf_Die *variable,
		    struct value_place *ret_place);

#endif
