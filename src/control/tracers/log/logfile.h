/*
 * logfile.h - a line of text for each hit, to a file or to the target's own standard output.
 *
 * The controller writes them, from events that came through the pool: the target makes no system
 * call, can't be killed by a pipe that nobody reads, and a hit costs what an event costs. A line is
 * written whole, by one write where the file takes it. Lines of all threads are in the order of
 * their clocks, as far as events were complete when they were read.
 *
 * Never waits for who reads: what can't be written yet is kept, up to a limit, and beyond it left
 * out and counted. The caller ignores SIGPIPE.
 */
#ifndef DYNTRACE_LOGFILE_H
#define DYNTRACE_LOGFILE_H

#include "control/base/vec.h"
#include "control/proc/proc.h"
#include "line.h"

struct logfile_line {
	uint64_t clock;
	size_t at, length; /* in the text */
};

struct logfile {
	char *file; /* NULL: the target's standard output */
	int fd;
	bool closed; /* nobody reads it any more, or it can't be written any more: */
	int failed; /* errno; 0: it hasn't failed, or nobody reads it */
	struct line_style style;
	struct strbuf text;
	VEC(struct logfile_line) lines; /* not written yet */
	size_t partly; /* bytes of the first line that were written */
	uint64_t left_out;
};

/* `fd`: opened for it already, and the log's from now on; -1: it is opened here, appended to. */
struct error *logfile_open(struct proc *proc, const char *file, int fd, struct logfile **ret_log);
void logfile_free(struct logfile *log);

void logfile_add(struct logfile *log, const struct clock_estimate *estimate,
		 const struct line_event *event);
/* Writes lines up to that clock; `all`: every one, and waits for who reads, for a bounded time. */
void logfile_flush(struct logfile *log, uint64_t until, bool all);

#endif
