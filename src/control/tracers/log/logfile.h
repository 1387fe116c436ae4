/*
 * logfile.h - a line of text per hit, to a file or to the target's own standard output.
 *
 * The controller writes the lines, from events of the pool: the target makes no system call, can't
 * be killed by a pipe that nobody reads, and a hit costs as much as an event. Lines are written
 * whole, by one write if the file takes them. Lines of all threads are in the order of their
 * clocks, as far as events were complete when the controller read them.
 *
 * Never waits for the file's reader: keeps events whose lines can't be written yet, up to a limit;
 * leaves out and counts those beyond. The caller ignores SIGPIPE.
 */
#ifndef DYNTRACE_LOGFILE_H
#define DYNTRACE_LOGFILE_H

#include "control/base/vec.h"
#include "control/proc/proc.h"
#include "line.h"
#include "output.h"

/* An event that waits for its line: lines are made in the order in which they are written. */
struct logfile_event {
	uint64_t clock;
	size_t at; /* of its words; grows with each event that is added */
	uint32_t words;
	uint32_t id; /* of its type */
	uint32_t pid, tid;
	char process[16];
};

struct logfile_line {
	size_t end; /* in the text */
	uint32_t id;
};

struct logfile {
	char *file; /* NULL: the target's standard output, or that of --print */
	bool is_print; /* --print: waits at the end as long as its reader likes, as cat does */
	struct output output;
	bool closed; /* its reader is gone, or a write failed: */
	int failed; /* errno of that write; 0: none, or the reader is gone */
	struct event_types *types; /* borrowed; their lines left out are counted, but for --print */
	VEC(struct logfile_event) events;
	VEC(uint64_t) words; /* of these events, and of written ones: */
	size_t dead; /* words of written events */
	struct event_line line; /* the text that is being written */
	VEC(struct logfile_line) lines; /* in that text */
	size_t written; /* bytes of the text */
	uint64_t left_out;
	uint64_t deadline; /* --print after Ctrl-C, in ms; 0: none */
};

/* Takes over `fd`, which is open already; -1: opens the file here, to append to it. */
struct error *logfile_open(struct proc *proc, struct event_types *types, const char *file, int fd,
			   struct logfile **ret_log);
void logfile_free(struct logfile *log);

/* `process` of the event is copied. */
void logfile_add(struct logfile *log, const struct line_event *event);
/* Writes lines up to the clock, as many as the file takes now. `all`: every line, as long as the
 * reader takes some. Lines that aren't written then are left out. */
void logfile_flush(struct logfile *log, const struct clock_estimate *estimate, uint64_t until,
		   bool all);

#endif
