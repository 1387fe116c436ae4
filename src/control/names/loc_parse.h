/*
 * loc_parse.h - the syntax of a LOC.
 */
#ifndef DYNTRACE_LOC_PARSE_H
#define DYNTRACE_LOC_PARSE_H

#include <stdbool.h>
#include <stdint.h>

#include "control/base/error.h"

/* A LOC of the command line, parsed: SYMBOL, SYMBOL+OFFSET, ADDRESS, FILE:LINE, PROVIDER:NAME (a
 * static marker), each with @MODULE; a SYMBOL, a PROVIDER and a NAME may be a glob. */
struct location {
	char *text; /* as typed */
	char *symbol; /* NULL: an address */
	char *provider; /* of a marker, whose name is in `symbol`; NULL: not a marker */
	bool is_glob;
	char *file; /* NULL: not a source line */
	int line;
	uint64_t number; /* the offset or address; C-like bases */
	char *module; /* NULL: any */
};

struct error *location_parse(const char *text, struct location *ret_location);
void location_clear(struct location *location);

#endif
