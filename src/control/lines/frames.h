/*
 * frames.h - print addresses of a trace as function+offset (file:line).
 *
 * The trace's environment has the loaded files and their addresses (module_0, module_1...). If a
 * file was deleted or replaced (another build id), the address is printed as a number.
 */
#ifndef DYNTRACE_FRAMES_H
#define DYNTRACE_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "control/base/strbuf.h"

struct frames;

/* NULL: out of memory. */
struct frames *frames_create(void);
/* Number of files added. */
size_t frames_count(const struct frames *frames);
/* Adds the file of a line module_N; leaves out what it can't understand. Files are opened on first
 * use. */
void frames_add(struct frames *frames, const char *line);
void frames_free(struct frames *frames);

/* Appends the address's text, by the file loaded there at that clock. `is_return`: it is a return
 * address and belongs to the call before it. */
void frames_print(struct frames *frames, uint64_t address, uint64_t clock, bool is_return,
		  struct strbuf *text);

#endif
