/*
 * traps.h - one-byte traps in the target (H10): decide, guard, place and remove them.
 *
 * A trap that a thread hits while SIGTRAP is blocked, or has no handler, kills the process. So
 * before the first trap: only the libc's code makes system calls; every `syscall` instruction there
 * that might block SIGTRAP or change its action has a guard (target/signals/trap.c); no thread and
 * no handler's mask blocks SIGTRAP. Traps are refused where that isn't certain.
 */
#ifndef DYNTRACE_TRAPS_H
#define DYNTRACE_TRAPS_H

#include "own_probes.h"

struct traps {
	bool judged;
	struct error *refusal; /* why this process can't have traps; NULL: it can */
	struct own_probes guards;
	bool guarded; /* the guards have sites */
	bool alone; /* the program's libc is inside: its guards are for plain loads only (X9) */
	pid_t blocked; /* a thread that had SIGTRAP blocked; 0: none */
	uint64_t blocked_until; /* `blocked` is valid until then; ns of CLOCK_MONOTONIC */
};

/* planner_may_trap_fn; the context is the session. */
struct error *traps_allow(void *context, const struct module *module);
/* After planner_decide: plans the guards, if there are new traps or plain loads are wanted
 * (plain_loads.h), and no guards yet. */
struct error *traps_guard(struct session *session);
/* Notes a trap in the agent's table, before it is placed. False: the table is full. */
bool traps_note(struct session *session, const struct site *site);
/* Notes all placed traps again: an exchange that failed has noted others for their addresses. */
void traps_note_again(struct session *session);
/* Places traps that aren't part of an exchange, after all other sites. Traps that can't be placed
 * are PATCH_FAILED. */
struct error *traps_place(struct session *session, struct stop *held);
/* Takes the note of a removed trap away, when no thread can be on the way to its trampoline. */
void traps_forget(struct session *session, const struct site *site);
/* Has a held thread hit a trap, with its signal still to come? */
bool traps_find_threads(const struct session *session, const struct stop *stop);
/* When all traps are out of the held process: gives SIGTRAP back to it. */
struct error *traps_give_back(const struct session *session, struct proc *proc, struct stop *stop);
/* Adds struct dt_traps, if it is mapped, to what is to be unmapped. */
struct remote_map_list;
struct error *traps_list_memory(const struct session *session, struct proc *proc,
				struct remote_map_list *list);
/* Why not all guards are in place; NULL: they are. */
struct error *traps_check_guards(const struct session *session);
/* Refuses while a held thread is between a guard and its system call. `hits`: or inside the agent,
 * also for a hit. */
struct error *traps_check_passing(const struct session *session, struct stop *stop, bool hits);
/* Is any site a trap, placed or planned? */
bool traps_any(const struct session *session);
/* Checks whether a library that was loaded might take SIGTRAP away. */
void traps_look_at(struct session *session, struct module *module);
/* Why all traps must be removed now, and refused from now on: SIGTRAP might be lost, or the target
 * begins to filter its system calls. NULL: they can stay. The thread that caused it waits until the
 * traps are removed (N1). */
const char *traps_to_lift(struct session *session);
/* Must the guards go, too, because the target begins to filter or to handle its own system calls,
 * maybe by where they are made from? */
bool traps_to_unguard(const struct session *session);
bool traps_create(struct session *session);
void traps_free(struct session *session);

#endif
