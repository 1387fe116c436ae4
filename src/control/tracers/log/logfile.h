/*
 * logfile.h - a line of text per hit, to a file or to the target's own standard output.
 *
 * The controller writes the lines, from events of the pool: the target makes no system call, can't
 * be killed by a pipe that nobody reads, and a hit costs as much as an event. A line is written
 * whole, by one write if the file takes it. Lines of all threads are in the order of their clocks,
 * as far as events were complete when the controller read them.
 *
 * Never waits for the file's reader: keeps lines that can't be written yet, up to a limit; leaves
 * out and counts the lines beyond. The caller ignores SIGPIPE.
 */
#ifndef DYNTRACE_LOGFILE_H
#define DYNTRACE_LOGFILE_H

#include "control/base/vec.h"
#include "control/proc/proc.h"
#include "line.h"
#include "output.h"

struct logfile_line {
	uint64_t clock;
	size_t at, length; /* in the text */
};

struct logfile {
	char *file; /* NULL: the target's standard output */
	struct output output;
	bool closed; /* its reader is gone, or a write failed: */
	int failed; /* errno of that write; 0: none, or the reader is gone */
	struct line_style style;
	struct strbuf text;
	VEC(struct logfile_line) lines; /* not written yet */
	size_t partly; /* written bytes of the first line */
	uint64_t left_out;
};

/* Takes over `fd`, which is open already; -1: opens the file here, to append to it. */
struct error *logfile_open(struct proc *proc, const char *file, int fd, struct logfile **ret_log);
void logfile_free(struct logfile *log);

void logfile_add(struct logfile *log, const struct clock_estimate *estimate,
		 const struct line_event *event);
/* Writes lines up to the clock `until`. `all`: writes every line, and waits for the reader, for
 * seconds at most, and not after Ctrl-C. */
void logfile_flush(struct logfile *log, uint64_t until, bool all);

#endif
