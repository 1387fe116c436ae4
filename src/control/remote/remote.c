/*
 * remote.c - remote calls.
 *
 * The order of the steps decides what a `kill -9` of the controller leaves behind (H14). Wherever
 * the kernel lets the thread go, the thread must end up where it was:
 *
 *	begin	frame written below the red zone	dead memory
 *		registers: `syscall` on that frame	runs the call, returns through the frame
 *		mask: all signals blocked (1)		the frame holds the real one
 *	call	entry stop, exit stop			as above
 *	end	to an event stop			as above
 *		mask: the real one			as above
 *		registers: the thread's own		goes on, an interrupted call is restarted
 *		stack bytes put back			dead memory
 *
 * (1) SIGTRAP stays open while a function runs.
 *
 * Where the frame lies: stop/fitness.c.
 */
#include "remote.h"

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "control/proc/proc_status.h"
#include "control/stop/fitness.h"
#include "remote_state.h"
#include "control/stop/restart.h"

#define REMOTE_END_LOOKS 20
#define REMOTE_SUSPEND (1ul << 21) /* PTRACE_O_SUSPEND_SECCOMP */

pid_t remote_thread(const struct remote *remote)
{
	return remote->stop->threads.items[remote->index].tid;
}

struct error *remote_ptrace_failed(const struct remote *remote, const char *what)
{
	if (errno == ESRCH)
		return held_gone(remote->stop);
	return error_errno(errno, "cannot %s of thread %d", what, remote_thread(remote));
}

/* ---- frame ----------------------------------------------------------------------------------- */

/* The registers that the frame leads back to. */
static struct user_regs_struct way_back(struct remote *remote, const struct thread_status *status)
{
	const struct held *held = &remote->stop->threads.items[remote->index];
	/* a handler will run before the thread goes on */
	bool handler = status->pending & ~status->blocked & status->caught;
	struct user_regs_struct regs = restart_context(&held->regs, handler);
	unsigned char before[RESTART_MOVE_LENGTH];

	if (regs.rip == held->regs.rip || regs.rax != SYS_restart_syscall)
		return regs;
	struct error *err = mem_read(remote->stop->proc, taddr_of(regs.rip - sizeof(before)),
				     before, sizeof(before));
	if (!err && restart_number(before) >= 0)
		regs.rax = (unsigned long long)restart_number(before);
	error_free(err);
	return regs;
}

static struct error *build_frame(struct remote *remote, uint64_t top,
				 const struct thread_status *status)
{
	pid_t tid = remote_thread(remote);
	struct sigframe_input input = { .top = top, .xstate = remote->xstate };

	remote->xstate_size = fitness_read_xstate(tid, remote->xstate);
	if (!remote->xstate_size)
		return remote_ptrace_failed(remote, "read the vector registers");
	if (ptrace(PTRACE_GETSIGMASK, tid, sizeof(remote->mask), &remote->mask))
		return remote_ptrace_failed(remote, "read the signal mask");
	input.regs = way_back(remote, status);
	input.mask = remote->mask;
	remote->signal = ahead_find_signal(status, remote->mask);
	input.restorer = remote->gadgets.restorer.v;
	input.xstate_size = remote->xstate_size;
	sigframe_build(&input, &remote->frame);
	return mem_read(remote->stop->proc, taddr_of(remote->frame.low), remote->stack,
			remote->frame.size);
}

/* A process that was just killed has no memory any more, but is alive for another moment. Waits for
 * that moment, and then blames the failure on the end. */
static struct error *blame_end(const struct stop *stop, struct error *err)
{
	for (unsigned round = 0; err && error_kind(err) != ERROR_GONE && round < REMOTE_END_LOOKS;
	     round++) {
		if (!proc_is_alive(stop->proc)) {
			error_free(err);
			return held_gone(stop);
		}
		held_nap(round);
	}
	return err;
}

static void free_remote(struct remote *remote)
{
	if (remote)
		user_dispatch_unguard(&remote->guard);
	free(remote);
}

static void cleanup_remote(struct remote **remote)
{
	free_remote(*remote);
}

/* ---- begin ----------------------------------------------------------------------------------- */

static struct error *join(struct remote *remote, struct remote **ret_remote)
{
	remote->borrowers++;
	*ret_remote = remote;
	return NULL;
}

static bool has_processors(void)
{
	cpu_set_t ours;

	return !sched_getaffinity(0, sizeof(ours), &ours) && CPU_COUNT(&ours) > 1;
}

struct error *remote_begin(struct stop *stop, struct remote **ret_remote)
{
	if (stop->remote)
		return join(stop->remote, ret_remote);
	_cleanup_(cleanup_remote) struct remote *remote = calloc(1, sizeof(*remote));
	struct thread_status status = { 0 };
	struct error *err;
	uint64_t top = 0;

	if (!remote)
		return error_new(ERROR_FAILED, "out of memory");
	remote->stop = stop;
	remote->spins = has_processors();
	if ((err = remote_choose(remote, &top, &status)) ||
	    (err = remote_filters_read(remote, &status)) ||
	    (err = build_frame(remote, top, &status)) ||
	    (err = mem_write(stop->proc, taddr_of(remote->frame.low), remote->frame.bytes,
			     remote->frame.size)))
		return blame_end(stop, err);
	remote->locks = status.locked;
	remote->desk = stop->proc->desk;
	remote->desk_there = stop->proc->desk_there;
	stop->remote = remote;
	return join(take_ptr(&remote), ret_remote);
}

bool remote_locks_memory(struct remote *remote)
{
	struct thread_status status = { 0 };

	/* MCL_FUTURE shows in the first mapping that is made under it */
	if (remote->locks || !remote->has_mapped || remote->locks_known)
		return remote->locks;
	_cleanup_error_ struct error *ended =
		proc_status_read(remote->stop->proc->pid, remote_thread(remote), &status);
	remote->locks = !ended && status.locked;
	remote->locks_known = true;
	return remote->locks;
}

void remote_note_mapped(struct remote *remote)
{
	remote->has_mapped = true;
}

struct error *remote_put(struct remote *remote, const void *data, size_t n, taddr *ret_at)
{
	assert(n <= FRAME_SCRATCH - 8);
	struct error *err = mem_write(remote->stop->proc, taddr_of(remote->frame.scratch), data, n);

	if (!err)
		*ret_at = taddr_of(remote->frame.scratch);
	return err;
}

taddr remote_room(const struct remote *remote)
{
	return taddr_of(remote->frame.scratch + FRAME_SCRATCH - 8);
}

/* ---- call ------------------------------------------------------------------------------------ */

/* Lets the thread run from the stop before a call to the stop behind it. */
static struct error *run_call(struct remote *remote)
{
	struct error *err = remote_run_until(remote, PTRACE_SYSCALL, SIGTRAP | 0x80, false);

	return err ? err : remote_run_until(remote, PTRACE_SYSCALL, SIGTRAP | 0x80, false);
}

/* (S6) If we are killed meanwhile, the kernel ends the suspension with our ptrace. */
static struct error *run_suspended(struct remote *remote)
{
	const struct stop *stop = remote->stop;
	unsigned long options = held_options(stop);
	pid_t tid = remote_thread(remote);

	assert(stop->proc->may_suspend && tid != stop->proc->held_tid); /* S6 */
	if (ptrace(PTRACE_SETOPTIONS, tid, 0, options | REMOTE_SUSPEND))
		return remote_ptrace_failed(remote, "suspend the filter");
	struct error *err = run_call(remote);
	stop->proc->suspended++;
	if (ptrace(PTRACE_SETOPTIONS, tid, 0, options) && !err)
		err = remote_ptrace_failed(remote, "put back the filter");
	return err;
}

struct error *remote_call_now(struct remote *remote, long number, const uint64_t args[6],
			      int64_t *ret_result)
{
	struct user_regs_struct regs = remote->stop->threads.items[remote->index].regs;
	struct error *err = NULL;

	assert(remote->borrowers && !remote->adrift);
	if (remote->filtered)
		err = remote_filters_check(remote, number, args, remote->gadgets.call);
	bool suspend = err && remote_filters_may_suspend(remote);
	if (err && !suspend)
		return err;
	error_free(err);
	regs.rip = remote->gadgets.call.v;
	regs.rsp = remote->frame.rsp;
	regs.rax = (unsigned long long)number;
	regs.orig_rax = (unsigned long long)-1;
	regs.rdi = args[0];
	regs.rsi = args[1];
	regs.rdx = args[2];
	regs.r10 = args[3];
	regs.r8 = args[4];
	regs.r9 = args[5];
	if ((err = remote_run_enter(remote, &regs, 0)) ||
	    (err = suspend ? run_suspended(remote) : run_call(remote)))
		return err;
	if (ptrace(PTRACE_GETREGS, remote_thread(remote), 0, &regs))
		return remote_ptrace_failed(remote, "read the registers");
	*ret_result = (int64_t)regs.rax;
	return NULL;
}

struct error *remote_call(struct remote *remote, long number, const uint64_t args[6],
			  int64_t *ret_result)
{
	bool taken;
	struct error *err = ahead_take(remote, number, args, ret_result, &taken);

	return err || taken ? err : remote_call_now(remote, number, args, ret_result);
}

/* ---- end ------------------------------------------------------------------------------------- */

static struct error *give_back(struct remote *remote)
{
	const struct held *held = &remote->stop->threads.items[remote->index];
	struct error *err = remote_run_until(remote, PTRACE_CONT, 0, true);

	if (err)
		return err;
	assert(!remote->dispatch.on || remote->entered); /* S7 */
	if (ptrace(PTRACE_SETSIGMASK, held->tid, sizeof(remote->mask), &remote->mask))
		return remote_ptrace_failed(remote, "restore the signal mask");
	if (ptrace(PTRACE_SETREGS, held->tid, 0, &held->regs))
		return remote_ptrace_failed(remote, "restore the registers");
	/* last: until here the way home of a thread whose controller is killed is a call of ours */
	if (remote->dispatch.on && !user_dispatch_write(held->tid, &remote->dispatch))
		return remote_ptrace_failed(remote, "restore the dispatch of system calls");
	return NULL;
}

/* Lets the thread go in the middle of a function. */
static struct error *set_adrift(struct remote *remote)
{
	struct held *held = &remote->stop->threads.items[remote->index];
	struct error *err = remote_run_until(remote, PTRACE_CONT, 0, true);

	if (!err && ptrace(PTRACE_DETACH, held->tid, 0, 0))
		err = remote_ptrace_failed(remote, "let go");
	held->state = HELD_GONE;
	remote->stop->remote = NULL;
	free_remote(remote);
	return err;
}

struct error *remote_end(struct remote *remote)
{
	struct error *err = NULL;

	if (!remote)
		return NULL;
	assert(remote->borrowers && remote->stop->remote == remote);
	if (remote->borrowers == 1 && !remote->adrift)
		err = ahead_undo(remote);
	if (--remote->borrowers)
		return NULL;
	if (remote->adrift)
		return set_adrift(remote);
	if (!err && remote->entered)
		err = give_back(remote);
	if (!err)
		err = mem_write(remote->stop->proc, taddr_of(remote->frame.low), remote->stack,
				remote->frame.size);
	remote->stop->remote = NULL;
	free_remote(remote);
	return err;
}

struct error *remote_borrow(struct stop *stop)
{
	struct remote *remote;

	return remote_begin(stop, &remote);
}

struct error *remote_give_back(struct stop *stop)
{
	return remote_end(stop->remote);
}

struct error *remote_syscall(struct stop *stop, long number, const uint64_t args[6],
			     int64_t *ret_result)
{
	struct remote *remote = NULL;
	int64_t result;
	struct error *err = remote_begin(stop, &remote);

	if (err)
		return err;
	err = remote_call(remote, number, args, &result);
	struct error *end = remote_end(remote);
	if (!err && !end)
		*ret_result = result;
	if (err)
		error_free(end);
	return err ? err : end;
}
