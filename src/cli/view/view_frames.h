/*
 * view_frames.h - addresses of a trace as function+offset (file:line).
 *
 * The trace says which files were loaded where (environment entries module_0, module_1...). A file
 * that is gone, or isn't the one that was traced any more (its build id), isn't believed: then the
 * address is all there is.
 */
#ifndef DYNTRACE_VIEW_FRAMES_H
#define DYNTRACE_VIEW_FRAMES_H

#include <babeltrace2/babeltrace.h>

#include "control/base/strbuf.h"

struct frames;

/* NULL: out of memory. The files are opened when they are needed. */
struct frames *frames_create(const bt_trace *trace);
void frames_free(struct frames *frames);

/* Appends the text of an address, by what was loaded there at that clock; `is_return`: of the
 * instruction before it. */
void frames_print(struct frames *frames, uint64_t address, uint64_t clock, bool is_return,
		  struct strbuf *text);

#endif
