/*
 * unwinding.h - put the unwind tables of all modules into the target, for backtraces.
 */
#ifndef DYNTRACE_UNWINDING_H
#define DYNTRACE_UNWINDING_H

#include "control/session/state/session_state.h"
#include "control/stop/stop.h"

/* A process that runs one of the programs, by the last thread that was seen of it. */
struct program_process {
	uint32_t pid, program;
};

struct unwinding {
	bool mapped;
	bool described; /* the trace has a line per module */
	VEC(uint32_t) tables; /* offsets in the code memfd */
	/* of a session without a parent: lines for the trace (lines/frames.h), of all programs */
	VEC(char *) loaded;
	VEC(struct program_process) processes; /* likewise */
};

bool unwinding_create(struct session *session);
void unwinding_free(struct session *session);
/* Maps tables for all modules that have none yet, through a held thread. */
struct error *unwinding_map(struct session *session, struct stop *stop);
/* Describes all modules in the trace, for readers of backtraces. */
void unwinding_describe(struct session *session);
/* A thread of the process was seen, with the number of its program (which the target may have
 * made up) and the clock of its first hit. */
void unwinding_note_process(struct session *session, uint32_t pid, uint32_t program,
			    uint64_t since);
/* After a change of the list of modules: maps tables for loaded ones, retracts those of `gone`. */
struct error *unwinding_follow(struct session *session, const struct modules *gone, bool is_new);

#endif
