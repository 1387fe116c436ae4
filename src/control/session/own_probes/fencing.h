/*
 * fencing.h - what the target's fences (seccomp filters, Syscall User Dispatch) leave to dyntrace.
 */
#ifndef DYNTRACE_FENCING_H
#define DYNTRACE_FENCING_H

#include "control/fence/fence.h"
#include "control/session/state/session_state.h"
#include "control/stop/stop.h"

/*
 * (H26) Asks the filters of all held threads, before anything is changed, for every call that the
 * agent or the controller will make. *ret_closed: the parts (enum fence_part) that dyntrace does
 * without; the user is told what that means. Fails if it can't do without one. `trial`: what our
 * own filters allow, if it has threads: those of a process of our container are the same.
 */
struct error *fencing_check(struct session *session, const struct stop *stop,
			    const struct fence *trial, unsigned *ret_closed);
/* Can the filters of the target's threads be those that we have ourselves (remote_filters.c)? */
bool fencing_may_be_ours(const struct session *session);
/* Flags of the control page for these parts. */
uint32_t fencing_flags(const struct session *session, unsigned closed);

/* Thread blocks: FS bases; 0: none. */
struct fencing_block {
	pid_t tid;
	uint64_t at;
};
struct fencing_blocks {
	struct fencing_block *items;
	size_t count;
	size_t room;
};
/* Those of all held threads. */
struct error *fencing_note_blocks(const struct stop *stop, struct fencing_blocks *ret_blocks);
/*
 * dt_control.tid_offset: where all of these threads have their tid; 0, which is never wrong: not
 * known. Only an agent that makes no system call reads it. Of another one, the threads are asked
 * when they run again, before there is any probe. `held`: they don't run yet.
 *
 * (E5) One thread that lives and has its tid elsewhere is enough for 0. A thread that has ended
 *      since it was held says nothing.
 */
uint32_t fencing_tid_offset(const struct session *session, const struct fencing_blocks *blocks,
			    bool held);
/* Judges a filter that came while the target is traced: the agent makes no call since then, and
 * goes over to what the filter allows. */
void fencing_step(struct session *session, uint64_t now);
/* May the target have traps? Stops it to ask, if the agent isn't there yet. */
struct error *fencing_allows_traps(struct session *session);

#endif
