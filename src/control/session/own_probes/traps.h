/*
 * traps.h - one-byte traps in the target (H10): whether, what they need, and away again.
 *
 * A trap that is run into while SIGTRAP is blocked, or has no handler, is the process's death. So
 * before the first one: all code that makes system calls is known to be the libc's; every `syscall`
 * there that might block SIGTRAP or change its action has a guard (target/trap.c); no thread has it
 * blocked, and no handler's mask does. What isn't certain is refused.
 */
#ifndef DYNTRACE_TRAPS_H
#define DYNTRACE_TRAPS_H

#include "own_probes.h"

struct traps {
	bool judged;
	struct error *refusal; /* why there are none in this process; NULL: there may be */
	struct own_probes guards;
	bool guarded; /* they have sites */
	pid_t blocked; /* a thread that had SIGTRAP blocked; 0: none */
	uint64_t blocked_until; /* ns of CLOCK_MONOTONIC: until then that is believed */
};

/* planner_may_trap_fn; the context is the session. */
struct error *traps_allow(void *context, const struct module *module);
/* After planner_decide: sites for the guards, if there are new traps and none of them yet. */
struct error *traps_guard(struct session *session);
/* Before one is placed together with others. false: there are too many. */
bool traps_note(struct session *session, const struct site *site);
/* Those that are placed: an exchange that failed has noted others in their place. */
void traps_note_again(struct session *session);
/* Places the other sites that are traps, when all others are there. Sites that can't be placed are
 * PATCH_FAILED. */
struct error *traps_place(struct session *session, struct stop *held);
/* The site is gone, and nobody can be on the way to its trampoline. */
void traps_forget(struct session *session, const struct site *site);
/* Has a thread run into a trap, with its signal still to come? */
bool traps_find_threads(const struct session *session, const struct stop *stop);
/* All traps are out of the process that is held: SIGTRAP is its own again. */
struct error *traps_uninstall(const struct session *session, struct proc *proc, struct stop *stop);
/* Are there any, or will there be? */
bool traps_any(const struct session *session);
/* A library has come: might SIGTRAP be lost by it? */
void traps_look_at(struct session *session, struct module *module);
/* If SIGTRAP might be lost, or if the target begins to filter its system calls: why the traps must be
 * taken out and their tracepoints refused from now on. NULL: nothing is to be done. The thread that
 * told of it waits until that is done (N1). */
const char *traps_to_lift(struct session *session);
bool traps_create(struct session *session);
void traps_free(struct session *session);

#endif
