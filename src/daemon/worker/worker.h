/*
 * worker.h - hosts the session of one target, for the supervisor.
 *
 * Its own process, with the rights of the target's user: what a hostile program could gain by its
 * ELF file, its debug information or its memory is what its user has anyway. It listens at
 * descriptor 3; whoever connects there (the socket is in a folder of the supervisor's own) is the
 * supervisor, and a second one replaces the first, which is dead. Without one it goes on recording.
 * It sleeps when there is nothing to do, and ends with its target or when it is told to let it go.
 */
#ifndef DYNTRACE_WORKER_H
#define DYNTRACE_WORKER_H

#include "control/ctf/trace_dir.h"
#include "control/session/session.h"
#include "control/wire/channel.h"

struct worker {
	/* what a dyntrace that was killed had left, until it is told; NULL: nothing */
	char *cleaned;
	pid_t pid;
	int listener;
	struct channel channel; /* fd -1: nobody is there */
	struct proc *proc;
	struct session *session; /* NULL: not attached */
	struct trace_dir *directory; /* NULL: no keeper yet */
	int log; /* opened for the tracepoint that is being added; -1: none */
	enum session_mode mode;
	bool over;
	bool settled; /* all that the journal has was asked for */
	struct wire_out unsent; /* events, while nobody is there */
	uint64_t lost; /* as last told */
	uint64_t next_look; /* ns of CLOCK_MONOTONIC: when losses are looked at again */
	unsigned snapshots;
};

int worker_main(pid_t pid);

/* worker_commands.c: answers one message. */
void worker_do(struct worker *worker, const struct wire_message *message);
/* Takes everything out of the target and completes the trace. */
struct error *worker_leave(struct worker *worker, struct session_summary *ret_summary);

/* worker_list.c: an item for each tracepoint. */
struct error *worker_list(struct worker *worker, const struct wire_message *message);

/* worker_events.c: notifications */
uint64_t worker_wall_ns(void);
void worker_tell(struct worker *worker, const char *event, const char *detail);
void worker_notice(void *context, enum session_notice notice, const char *text);
/* Tells what was lost since the last time; at most once a second. */
void worker_tell_losses(struct worker *worker);
/* How the process ended: "exit status 3", "killed by SIGSEGV", ... */
void worker_how_ended(const struct worker *worker, char *ret_text, size_t size);

#endif
