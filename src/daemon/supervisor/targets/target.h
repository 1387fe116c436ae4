/*
 * target.h - a process that has the agent.
 *
 * A target has a worker (target_worker.h), or has registered and waits for its first tracepoint.
 */
#ifndef DYNTRACE_TARGET_H
#define DYNTRACE_TARGET_H

#include "control/base/vec.h"
#include "control/wire/channel.h"
#include "daemon/base/loop.h"
#include "journal_entries.h"
#include "process.h"
#include "target_mode.h"
#include "trace_keeper.h"

struct request;
struct supervisor;

/* What the worker owes an answer to, or will be asked. */
struct worker_call {
	struct request *request; /* NULL: the supervisor's own */
	enum wire_kind kind;
	uint32_t sequence; /* once it was sent */
	uint64_t since; /* its client waits */
	uint64_t sent_at;
	size_t entry; /* of the journal, when it is replayed; SIZE_MAX: none */
};

struct target {
	struct supervisor *supervisor;
	pid_t pid;
	struct process process;
	uid_t asker; /* whose it is among the targets (D6): who asked first, or its own user */
	struct target_mode mode; /* of its worker's session */
	const char *loaded; /* "injected", "linked", "preloaded" */
	struct loop_source source; /* its worker's socket, or its pidfd while it has none */
	struct channel channel;
	bool has_worker;
	pid_t worker; /* 0: unknown */
	int worker_fd; /* its pidfd; -1: unknown */
	uint64_t heard_at; /* its worker began, or answered last */
	uint64_t silent_since; /* stuck.c: its worker owes an answer since then */
	uint64_t queued_before; /* ... and had waited so long for a processor until then, in ns */
	bool distrusted; /* its worker has said what no worker says */
	bool ending; /* its worker must end before another one begins */
	bool found_again; /* its worker was started by an earlier supervisor */
	int last_words; /* what its worker writes to stderr; -1: an earlier supervisor's */
	bool leaving; /* its worker was asked to detach */
	bool leaves_again; /* ... and was killed instead: the next one is asked, too */
	bool gone; /* its worker has detached, or never attached */
	bool attached; /* its worker has attached */
	bool announced; /* watchers know of it */
	uint32_t sequence;
	VEC(struct worker_call) calls; /* in the order of the answers to come (D9) */
	size_t sent; /* so many of them, the first ones, are with the worker */
	size_t tracepoints;
	char *trace; /* its directory; NULL: none yet */
	char *old_trace; /* that of a worker that died, for the next; NULL: none */
	struct identity owner; /* of the trace */
	VEC(struct promise) promises; /* while it has no trace (trace_keeper.h) */
	struct journal_entries entries;
	size_t journal_written; /* bytes of the file; SIZE_MAX: it must be written anew */
	size_t replay; /* the next entry to ask for again; SIZE_MAX: none */
	uint64_t first_death;
	unsigned deaths; /* of workers, lately */
	VEC(uint64_t) waited; /* numbers of the waiting tracepoints that it was asked for */
};

struct target *target_find(struct supervisor *supervisor, pid_t pid);
/* Doesn't ask for limits. */
struct error *target_create(struct supervisor *supervisor, pid_t pid, const struct process *process,
			    uid_t asker, struct target **ret_target);
/* (D6) May that user have one more? */
struct error *target_check_room(const struct supervisor *supervisor, uid_t asker);
void target_free(struct target *target);
/* A process has said that it has the agent. */
struct error *target_register(struct supervisor *supervisor, pid_t pid,
			      const struct process *process, const char *loaded,
			      struct target **ret_target);
/* Its agent was linked or preloaded: the process has registered. */
bool target_is_registered(const struct target *target);
/* Waits for the end of a process that has no worker. */
struct error *target_watch_process(struct target *target);
/* Closes the worker's socket; the trace becomes `old_trace`. */
void target_forget_worker(struct target *target);
/* Notes the error for the first `count` calls, and forgets them. */
void target_fail_calls(struct target *target, size_t count, const struct error *error);

#endif
