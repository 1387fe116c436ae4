/*
 * remote_state.h - the borrowed thread from the inside: what remote.c, its parts and ahead.c share.
 */
#ifndef DYNTRACE_REMOTE_STATE_H
#define DYNTRACE_REMOTE_STATE_H

#include "ahead.h"
#include "control/fence/user_dispatch.h"
#include "control/stop/sigframe.h"
#include "remote.h"
#include "syscall_gadget.h"

/* A call that was made ahead, and waits to be asked for. */
struct remote_made {
	long number;
	uint64_t args[6];
	int64_t result;
};

struct remote {
	struct stop *stop;
	unsigned borrowers;
	size_t index;
	struct syscall_gadgets gadgets;
	uint64_t mask;
	bool filtered; /* its filters, read or judged, are asked before each call */
	uint64_t generation; /* of proc->answers: those of the thread; 0: not read */
	struct user_dispatch dispatch; /* to be put back; `on` is 0: as it is (S7) */
	struct user_dispatch_guard guard;
	bool locks; /* the process locks memory, as far as is known, */
	bool has_mapped; /* one mapping of ours is there since, */
	bool locks_known; /* and was looked at */
	bool spins; /* the thread seems to have a processor beside ours */
	bool entered; /* registers and mask are changed */
	bool paused; /* of the mask, the signal that ends calls made ahead is open again */
	bool adrift; /* in a function that didn't return: the frame leads the thread back */
	int signal; /* that ends calls made ahead; 0: none is fit (S10) */
	uint8_t *desk; /* for calls made ahead, in our mapping; NULL: none */
	taddr desk_there;
	struct remote_made made[AHEAD_MAX];
	size_t made_count, made_next;
	struct sigframe frame;
	uint8_t stack[FRAME_MAX]; /* the thread's own bytes under the frame */
	uint8_t xstate[FRAME_XSTATE_MAX];
	size_t xstate_size;
};

/* ---- remote.c ---- */

struct error *remote_ptrace_failed(const struct remote *remote, const char *what);
/* Makes the call itself, whatever was made ahead. */
struct error *remote_call_now(struct remote *remote, long number, const uint64_t args[6],
			      int64_t *ret_result);

/* ---- remote_choose.c, remote_dispatch.c ---- */

/* Chooses the thread to borrow: notes it, and the gadgets. *ret_top: where its frame may end. */
struct error *remote_choose(struct remote *remote, uint64_t *ret_top,
			    struct thread_status *ret_status);
/* (S7) Would our calls be dispatched in that thread? */
bool remote_dispatch_is_on(const struct remote *remote, size_t index);
/* (S7) Switches the dispatch of the borrowed thread off. A process of ours switches it on again if
 * the controller is killed. False: errno says why not. */
bool remote_dispatch_set_aside(struct remote *remote);

/* ---- remote_filters.c ---- */

/* Reads the filters of the borrowed thread, if it has any. Fails if they can't be read or judged,
 * or forbid the way home. */
struct error *remote_filters_read(struct remote *remote, const struct thread_status *status);
/* Fails if the thread's filters forbid the call, made by the `syscall` at `from`. */
struct error *remote_filters_check(struct remote *remote, long number, const uint64_t args[6],
				   taddr from);
/* Do the thread's filters allow the call, made by the `syscall` at `from`? `open`: args[4] may be
 * any. */
bool remote_filters_allow(struct remote *remote, long number, const uint64_t args[6], taddr from,
			  bool open);
/* (S6) May its filters be suspended? Not in a thread that launch holds, with other options of
 * ptrace than a stop's. */
bool remote_filters_may_suspend(const struct remote *remote);

/* ---- remote_run.c ---- */

/* Sets registers, and blocks all signals but those of `open`. */
struct error *remote_run_enter(struct remote *remote, const struct user_regs_struct *regs,
			       uint64_t open);
/* Goes on with `request` until the thread reports a stop of the wanted kind (status >> 8), or, with
 * `event`, any event stop. */
struct error *remote_run_until(struct remote *remote, int request, int wanted, bool event);

#endif
