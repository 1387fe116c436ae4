/*
 * session_options.h - options of a session, and the summary at its end.
 */
#ifndef DYNTRACE_SESSION_OPTIONS_H
#define DYNTRACE_SESSION_OPTIONS_H

#include "control/ctf/writer.h"
#include "control/record/reader.h"

/* The policy for full buffers. */
enum session_mode {
	SESSION_DISCARD, /* events are lost, and counted */
	SESSION_OVERWRITE, /* the oldest events make room; written at the end and by snapshots */
	SESSION_BLOCK, /* threads wait for room, for a bounded time */
};

#define SESSION_BLOCK_MS 10000

/* An event in the life of a session; `text` names the tracepoint or is the module's path. */
enum session_notice {
	SESSION_PLACED,
	SESSION_GONE, /* a tracepoint was removed, or its module was unloaded */
	SESSION_MODULE_LOADED,
	SESSION_MODULE_UNLOADED,
	SESSION_MARKER_LOADED, /* a static marker came with a library: "PROVIDER:NAME in PATH" */
	SESSION_STATIC_LOADED, /* a static tracepoint of LTTng did: likewise */
	SESSION_FAULT, /* a tracepoint's function got a signal and is called no more */
};
typedef void (*session_notify_fn)(void *context, enum session_notice notice, const char *text);

struct session_options {
	const char *output; /* the trace's directory, which must not exist yet */
	uint64_t buffer_size;
	bool follow_fork;
	bool follow_exec; /* trace also the programs that the target and its children execute */
	bool several; /* more processes will be joined (follow_exec_join) */
	enum session_mode mode;
	bool only_inside; /* some spec encloses */
	bool has_depth;
	uint32_t depth; /* with has_depth: calls that are deeper inside of others are left out */
	double overhead; /* the share of CPU time that tracing may take (session/budget); 0: any */
	struct writer_limits limits; /* of the trace */
	unsigned block_ms; /* SESSION_BLOCK: how long a thread waits; 0: SESSION_BLOCK_MS */
	unsigned flush_ms; /* the longest that an event waits to be written; 0: the default */
	/* NULL: the session makes `output`; else makes the trace's files; borrowed */
	struct trace_dir *directory;
	/* NULL, or the target's guise (proc_guise.h): nothing is put into a process with another */
	const char *guise;
	bool stopped; /* recording begins with session_recording */
	size_t tracepoints_max; /* a command that would make more is refused; 0: no limit */
	/* NULL, or called once, before the first change of the target or of a file. Until then the
	 * caller may end the process at any instruction. */
	void (*before_change)(void);
	/* NULL, or opens the file of a log with the right user's rights; `file` NULL: the target's
	 * standard output. Result -1: the session opens it. */
	int (*open_log)(void *context, const char *file);
	void *open_context;
	session_notify_fn notify; /* NULL, or called for modules and tracepoints */
	void *notify_context;
	/* NULL, or called with a line for the user: programs that aren't traced (follow_exec),
	 * functions that got a signal, and why a tracepoint still waits for its library */
	void (*tell)(void *context, const char *line);
	void *tell_context;
};

struct session_summary {
	uint64_t suspended; /* calls made in the target with its filter suspended */
	uint64_t lines_left_out; /* lines of logs that weren't read in time, or not written, */
	const char *lines_why; /* for this reason */
	/* libraries that the process used before their tracepoints were placed */
	uint32_t late_libraries;
	struct reader_totals totals; /* with what was removed later */
	struct writer_removed removed; /* from the trace, to keep it within its limits */
	uint64_t recorded_ns; /* from the first placing to session_recording(false) */
	unsigned children; /* other processes that still run, and are traced no more */
	bool probes_left; /* the target's text couldn't be restored: its probes are off */
	bool left; /* code of ours stays in the target: `why` */
	char why[256];
};

#endif
