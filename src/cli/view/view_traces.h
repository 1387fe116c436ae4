/*
 * view_traces.h - the traces in and below a directory.
 */
#ifndef DYNTRACE_VIEW_TRACES_H
#define DYNTRACE_VIEW_TRACES_H

#include <stdint.h>

#include "control/base/error.h"
#include "control/base/vec.h"

/* The directories to read, and the bytes that they occupy. A file with holes is as large as its
 * blocks: what isn't there needs no time. */
struct traces {
	VEC(char *) paths;
	uint64_t size, metadata;
};

struct error *view_traces_find(const char *path, struct traces *ret_traces);
void view_traces_free(struct traces *traces);

#endif
