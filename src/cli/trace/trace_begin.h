/*
 * trace_begin.h - one run of `dyntrace trace`, up to its first event: the target, the trace's
 * directory, the session with its tracepoints.
 *
 * cmd_trace.c calls these in the order of their declarations.
 */
#ifndef DYNTRACE_TRACE_BEGIN_H
#define DYNTRACE_TRACE_BEGIN_H

#include <signal.h>

#include "control/launch/launch.h"
#include "control/launch/user_command.h"
#include "control/session/session.h"
#include "control/session/triggers/triggers.h"
#include "options/options.h"
#include "trace_targets.h"

struct trace_run {
	struct launch *launch; /* NULL: a process that was running before */
	struct trace_targets opened; /* owned; none with a launch */
	struct proc *proc; /* the launch's, or the first of `opened` that is traced */
	bool has_daemon;
	/* the dyntrace that traces `proc` already (trace_peer.h); -1: none */
	int host_fd, host_pidfd;
	struct trace_host *host; /* NULL: this one can't be joined */
	bool has_left; /* the session has left the target to another dyntrace */
	size_t joined; /* processes that are traced beside `proc` */
	struct session *session;
	char *output;
	unsigned snapshots; /* written so far */
	sig_atomic_t snapshots_handled; /* of those that signals wanted */
	struct triggers triggers; /* hits that asked for one */
	struct user_command on_snapshot;
	char how_ended[64]; /* the target: "killed by SIGSEGV"; empty: otherwise, or unknown */
	int status; /* of the launched command, as waitpid gives it */
	bool ended;
	bool over; /* and with --follow-daemons, so have the processes that the target has forked */
	bool is_cut_short; /* recording stopped before the disk is full */
	bool has_told; /* the user of such processes */
	unsigned quiet_looks; /* in a row that have found no such process */
	uint64_t next_look; /* ns of CLOCK_MONOTONIC */
	const struct trace_screen *screen; /* NULL: a summary at the end */
};

/* A view of the session while it runs, in place of notes and summary (`dyntrace top`). */
struct trace_screen {
	bool (*look)(struct trace_run *run); /* again and again; false: enough */
	void (*end)(struct trace_run *run); /* the target is left as it was next */
};

/* cmd_trace.c: runs `dyntrace trace` by trace_args, with a screen. */
struct error *trace_run_with(const struct words *words, const struct trace_screen *screen,
			     int *ret_status);

/* cmd_trace.c: signals mean something else from here on. */
void trace_will_change(void);
void trace_command_runs(void);
bool trace_must_stop(void);

/* Fails if -o names a file that is no trace; before anything starts. */
struct error *trace_begin_check_output(void);
/* Starts the command, held at its first instruction, or opens the process and cleans up after a
 * dyntrace that was killed; run->has_daemon: and nothing is cleaned up, because a daemon traces the
 * process (trace_beside.h); run->host_fd: likewise, another dyntrace does. */
struct error *trace_begin_open(const struct words *words, struct trace_run *run);
/* Sets run->output: -o, or ./NAME-DATE.dyntrace, with a number if that is there already; NULL for
 * tracers without a trace. */
struct error *trace_begin_choose_output(struct trace_run *run);
/* The kind of tracepoint that an option of trace_args.what asks for. */
enum tracepoint_kind trace_begin_kind(const struct option_value *value);
/* The tracepoint that the option asks for; all get the same filter, contexts and limits. */
struct tracepoint_spec trace_begin_spec(const struct option_value *value);
/* Creates the session (and the printer) and adds the tracepoints. */
struct error *trace_begin_create_session(struct trace_run *run);
/* Places the tracepoints; a started command runs from then on. */
struct error *trace_begin_record(struct trace_run *run);

#endif
