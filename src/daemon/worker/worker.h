/*
 * worker.h - the process that hosts the session of one target.
 *
 * It has the rights of the target's user: what a hostile program could gain by its ELF file, its
 * debug information or its memory is what its user has anyway. It listens at descriptor 3. Only the
 * supervisor can connect there, for the socket is in a folder of the supervisor's own; a second
 * supervisor replaces the first, which is dead. Without a supervisor the worker goes on recording.
 * It sleeps when there is nothing to do, and ends with its target or when it is asked to detach.
 */
#ifndef DYNTRACE_WORKER_H
#define DYNTRACE_WORKER_H

#include "control/ctf/trace_dir.h"
#include "control/proc/judged.h"
#include "control/proc/proc_guise.h"
#include "control/session/own_probes/static_points.h"
#include "control/session/triggers/triggers.h"
#include "control/tracers/count/count_rows.h"
#include "control/wire/channel.h"

struct worker {
	char *cleaned; /* what a killed dyntrace had left, for the first client; NULL: nothing */
	pid_t pid;
	int listener;
	struct asker asker; /* without a function: nobody reads filters for us */
	struct channel channel; /* fd -1: no supervisor */
	struct proc *proc;
	struct session *session; /* NULL: not attached */
	struct trace_dir *directory; /* NULL: no keeper yet */
	char guise[PROC_GUISE_SIZE]; /* of the process that this worker was started for */
	int log; /* opened for the tracepoint that is being added; -1: none */
	enum session_mode mode;
	bool over;
	bool settled; /* the whole journal was replayed */
	struct wire_out unsent; /* events, while there is no supervisor */
	uint64_t lost; /* events, as last announced */
	uint64_t lines_lost; /* of logs, as last announced */
	uint64_t next_look; /* ns of CLOCK_MONOTONIC: when losses are looked at again */
	unsigned snapshots; /* taken so far (worker_snapshots.h) */
	bool has_triggers;
	struct triggers triggers;
	VEC(struct trace_dir *) kept; /* snapshots that hits asked for, the oldest first */
	size_t keep; /* so many of them */
	/* A list that is being sent (worker_list.h). */
	struct {
		bool active;
		uint32_t sequence;
		size_t next;
		bool has_rows, resets;
		struct count_rows rows; /* of the tracepoint before `next`, by key */
		size_t next_row;
		struct static_points statics; /* behind all tracepoints */
		size_t next_static;
	} listing;
};

int worker_main(pid_t pid);

#endif
