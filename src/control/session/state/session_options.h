/*
 * session_options.h - how a session records, and what it says at its end.
 */
#ifndef DYNTRACE_SESSION_OPTIONS_H
#define DYNTRACE_SESSION_OPTIONS_H

#include "control/ctf/trace_dir.h"
#include "control/record/reader.h"

/* What happens when the buffers are full. */
enum session_mode {
	SESSION_DISCARD, /* events are lost, and counted */
	SESSION_OVERWRITE, /* the oldest make room; written at the end and by session_snapshot */
	SESSION_BLOCK, /* threads wait for room, for a bounded time */
};

#define SESSION_BLOCK_MS 10000

/* What happened; `text` is the name of a tracepoint or the path of a module. */
enum session_notice {
	SESSION_PLACED,
	SESSION_GONE, /* a tracepoint: removed, or its module is */
	SESSION_MODULE_LOADED,
	SESSION_MODULE_UNLOADED,
	SESSION_FAULT, /* a tracepoint's function has got a signal, and isn't called any more */
};
typedef void (*session_notify_fn)(void *context, enum session_notice notice, const char *text);

struct session_options {
	const char *output; /* the trace's directory, which must not exist */
	uint64_t buffer_size;
	bool follow_fork;
	bool follow_exec; /* programs that the target and its children begin are traced too */
	enum session_mode mode;
	unsigned block_ms; /* SESSION_BLOCK: how long a thread waits; 0: SESSION_BLOCK_MS */
	unsigned flush_ms; /* how long an event may wait until it is written; 0: a moment */
	reader_observe_fn observe; /* NULL, or told of all that is written */
	void *observe_context;
	/* NULL: `output`, made here; else who makes the trace's files; borrowed */
	struct trace_dir *directory;
	bool stopped; /* recording begins with session_recording */
	/* NULL, or who opens the file of a log (NULL: the target's standard output) with the right
	 * user's rights; -1: opened here. */
	int (*open_log)(void *context, const char *file);
	void *open_context;
	session_notify_fn notify; /* NULL, or told of what happens to modules and tracepoints */
	void *notify_context;
	/* NULL, or told of programs that aren't traced (follow_exec), and of functions that got a
	 * signal. */
	void (*tell)(void *context, const char *line);
	void *tell_context;
};

struct session_summary {
	uint64_t lines_left_out; /* of logs that nobody read in time, or that can't be written: */
	int lines_failed; /* errno */
	/* times when the process didn't wait until tracepoints were in a library that it loaded */
	uint32_t late_libraries;
	struct reader_totals totals;
	bool left; /* something had to stay in the target: `why` */
	char why[256];
};

#endif
