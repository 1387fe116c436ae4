/*
 * frames.h - print addresses of a trace as function+offset (file:line).
 *
 * The trace's environment has the loaded files and their addresses (module_0, module_1...). If a
 * file was deleted or replaced (another build id), the address is printed as a number.
 *
 * Where a trace has several programs (--follow-exec, -p NAME), files of all but the first have a
 * %PROGRAM, a number, and lines "%PROGRAM PID @SINCE" tell which process runs which program from
 * what clock on. Processes that no line names run the first program, or are forks of it.
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

/* An event with a backtrace. */
struct frames_event {
	uint64_t pid;
	uint64_t clock;
};

/* Appends the address's text, by the file loaded there in that process at that clock. `is_return`:
 * it is a return address and belongs to the call before it. */
void frames_print(struct frames *frames, uint64_t address, const struct frames_event *event,
		  bool is_return, struct strbuf *text);

#endif
