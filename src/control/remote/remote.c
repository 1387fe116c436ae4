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
#include <elf.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "control/proc/judged.h"
#include "control/fence/fence.h"
#include "control/proc/proc_status.h"
#include "control/stop/fitness.h"
#include "remote_state.h"
#include "control/stop/restart.h"
#include "control/stop/rseq.h"

#define REMOTE_DIRECTION_FLAG 0x400ULL
#define REMOTE_END_LOOKS 20
#define SYSCALL_AND_RET 3u /* bytes */
#define REMOTE_SUSPEND (1ul << 21) /* PTRACE_O_SUSPEND_SECCOMP */
#define REMOTE_SPINS 100u /* looks of half a microsecond each */
#define REMOTE_CALL_US 10000000 /* for one call; a longer one is a failure */

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

/* (S7) Would our calls be dispatched? */
static bool is_dispatched(const struct remote *remote, size_t index)
{
	struct stop *stop = remote->stop;
	struct user_dispatch dispatch;
	uint8_t byte = DISPATCH_ALLOW + 1;

	if (stop->threads.items[index].state != HELD_STOPPED ||
	    !user_dispatch_read(stop->threads.items[index].tid, &dispatch))
		return false;
	_cleanup_error_ struct error *unreadable =
		dispatch.selector ?
			mem_read(stop->proc, taddr_of(dispatch.selector), &byte, sizeof(byte)) :
			NULL;
	if (!unreadable && byte == DISPATCH_ALLOW)
		return false;
	return !user_dispatch_spares(&dispatch, remote->gadgets.call.v) ||
	       !user_dispatch_spares(&dispatch, remote->gadgets.restorer.v + remote->gadgets.home);
}

enum { CHOICE_DISPATCHED = 1, CHOICE_TRAPPED = 2, CHOICES = 4 }; /* the worst last */

/* Chooses by these mappings. *ret_top 0: no thread is fit. (H10) A thread that has run into a trap
 * comes last: if the controller were killed just when the registers are ours and the mask isn't
 * yet, or no longer, the trap's handler would find our registers. */
static struct error *choose_by(struct remote *remote, const struct maps *maps, uint64_t *ret_top,
			       struct thread_status *ret_status)
{
	struct stop *stop = remote->stop;
	struct error *err = syscall_gadget_find(stop->proc, maps, &remote->gadgets);

	for (size_t n = 0; !err && n < CHOICES * stop->threads.count; n++) {
		size_t i = n % stop->threads.count, choice = n / stop->threads.count;
		bool trapped = choice & CHOICE_TRAPPED;

		if (is_dispatched(remote, i) != (choice & CHOICE_DISPATCHED) ||
		    !fitness_check(stop, i, maps, ret_top))
			continue;
		remote->index = i;
		err = proc_status_read(stop->proc->pid, remote_thread(remote), ret_status);
		if (err || !(ret_status->pending & 1ULL << (SIGTRAP - 1)) == !trapped)
			return err;
	}
	*ret_top = 0;
	return err;
}

/* Has the thread its thread block still? Then its stack, by which it was chosen, is the one that
 * was there before the stop. (The code was compared again.) */
static bool has_block(const struct remote *remote)
{
	uint64_t block = remote->stop->threads.items[remote->index].regs.fs_base, self = 0;
	_cleanup_error_ struct error *unreadable =
		mem_read(remote->stop->proc, taddr_of(block), &self, sizeof(self));

	return !unreadable && self == block;
}

static struct error *choose(struct remote *remote, uint64_t *ret_top,
			    struct thread_status *ret_status)
{
	const struct proc *proc = remote->stop->proc;
	_cleanup_(maps_free) struct maps maps = { 0 };
	struct error *err = NULL;

	/* the list of all mappings takes longer to read than all else here, with threads held */
	if (proc->maps_before) {
		err = choose_by(remote, proc->maps_before, ret_top, ret_status);
		if (!err && *ret_top && has_block(remote))
			return NULL;
		error_free(err);
	}
	err = maps_read(proc, &maps);
	if (!err)
		err = choose_by(remote, &maps, ret_top, ret_status);
	if (!err && !*ret_top)
		err = error_new(ERROR_FAILED,
				"no held thread of process %d can be borrowed for a system call",
				proc->pid);
	return err;
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

/* ---- filters --------------------------------------------------------------------------------- */

static struct error *refuse(const struct remote *remote, long number, uint32_t answer)
{
	char text[FILTERS_TEXT_SIZE];

	return error_new(ERROR_REFUSED, "process %d (%s): its filter %s for %s",
			 remote->stop->proc->pid, remote->stop->proc->comm,
			 filters_text(answer, text), fence_call_name(number));
}

/* (E4) The answers of the borrowed thread's filters. NULL: its filters can't be read. */
static struct answers *read_answers(struct remote *remote)
{
	struct answers *answers = &remote->stop->proc->answers;

	if (remote->generation && remote->generation == answers->generation)
		return answers;
	if (answers_read(answers, remote_thread(remote)) != FILTERS_READ)
		return NULL;
	remote->generation = answers->generation;
	return answers;
}

/* The `syscall` instruction's address, plus its length, is what a filter sees. */
static uint32_t ask(struct remote *remote, long number, const uint64_t args[6], taddr from)
{
	const struct proc *proc = remote->stop->proc;
	struct bpf_call call = fence_call(number, args, from.v + 2);

	if (judged_is(proc))
		return verdict_answer(&proc->verdict, number, args);
	struct answers *answers = read_answers(remote);
	if (!answers)
		return SECCOMP_RET_KILL_PROCESS;
	return answers_allow(answers, number, args) ? SECCOMP_RET_ALLOW :
						      filters_answer(&answers->filters, &call);
}

static struct error *check_call(struct remote *remote, long number, const uint64_t args[6],
				taddr from)
{
	uint32_t answer = ask(remote, number, args, from);

	return filters_is_allowed(answer) ? NULL : refuse(remote, number, answer);
}

bool remote_is_allowed(struct remote *remote, long number, const uint64_t args[6], taddr from,
		       bool open)
{
	if (!remote->filtered)
		return true;
	if (!open || judged_is(remote->stop->proc)) /* a verdict is one for all descriptors */
		return filters_is_allowed(ask(remote, number, args, from));
	struct answers *answers = read_answers(remote);
	return answers && answers_allow(answers, number, args);
}

/* Goes home by rt_sigreturn if the controller is killed (H14): not where that kills. */
static struct error *check_way_home(const struct remote *remote)
{
	static const uint64_t none[6];
	struct proc *proc = remote->stop->proc;
	size_t row = fence_find_row(SYS_rt_sigreturn, none);
	uint32_t answer = judged_is(proc) ?
				  verdict_answer(&proc->verdict, SYS_rt_sigreturn, none) :
				  answers_ask(&proc->answers, row);

	return filters_is_allowed(answer) ? NULL : refuse(remote, SYS_rt_sigreturn, answer);
}

/* (S6) Not in a thread that launch holds, with other options of ptrace than a stop's. */
static bool may_suspend(const struct remote *remote)
{
	const struct proc *proc = remote->stop->proc;

	return proc->may_suspend && remote->gadgets.restorer.v &&
	       remote_thread(remote) != proc->held_tid;
}

/* A command that we started inherits our filters: they allow it what they allow us. */
static bool has_our_filters(const struct proc *proc, const struct thread_status *theirs)
{
	struct thread_status ours;

	if (!proc->inherits)
		return false;
	_cleanup_error_ struct error *err = proc_status_read(getpid(), getpid(), &ours);
	return !err && ours.seccomp == theirs->seccomp && ours.filters == theirs->filters;
}

static struct error *read_filters(struct remote *remote, const struct thread_status *status)
{
	const struct proc *proc = remote->stop->proc;

	if (!status->seccomp || has_our_filters(proc, status))
		return NULL;
	remote->filtered = true;
	if (judged_is(proc)) {
		struct error *err = judged_check(proc, remote_thread(remote));

		return err ? err : check_way_home(remote);
	}
	if (status->seccomp != 2 || !read_answers(remote))
		return error_wrap(fence_unreadable(), "process %d (%s)", proc->pid, proc->comm);
	return check_way_home(remote);
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
	if ((err = choose(remote, &top, &status)) ||
	    (err = read_filters(remote, &status)) || (err = build_frame(remote, top, &status)) ||
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

static struct error *note_end(struct remote *remote, int status)
{
	struct held *held = &remote->stop->threads.items[remote->index];

	held->state = HELD_GONE;
	if (held->tid == remote->stop->proc->pid) {
		remote->stop->proc->reaped = true;
		remote->stop->proc->reaped_status = status;
	}
	return held_gone(remote->stop);
}

/* Waits for the thread's report. The first moments without sleeping, if there is a processor for
 * the thread beside ours: most calls take less time than a processor needs to wake up. A thread
 * that doesn't report in this time is likely to wait for our processor, now and at each further
 * call. */
static void await_report(struct remote *remote, unsigned round)
{
	if (round >= REMOTE_SPINS)
		remote->spins = false;
	if (!remote->spins)
		held_block(remote_thread(remote), round);
}

/* Asks for an event stop each time, as the kernel forgets the request with any other stop. Lets
 * SIGSTOP through, which no mask holds back: the group-stop that follows doesn't keep us from going
 * on. */
struct error *remote_run_until(struct remote *remote, int request, int wanted, bool event)
{
	uint64_t deadline = held_now_us() + REMOTE_CALL_US;
	pid_t tid = remote_thread(remote);
	int status, signal = 0;

	for (;;) {
		if ((event && ptrace(PTRACE_INTERRUPT, tid, 0, 0)) ||
		    ptrace((enum __ptrace_request)request, tid, 0, signal))
			return remote_ptrace_failed(remote, "go on with a system call");
		for (unsigned round = 0;; round++) {
			pid_t got = held_peek(tid, &status);

			if (got == tid)
				break;
			if (got < 0 && errno != EINTR)
				return held_gone(remote->stop);
			if (held_now_us() > deadline)
				return error_new(ERROR_FAILED,
						 "a system call of thread %d doesn't return", tid);
			await_report(remote, round);
		}
		if (!WIFSTOPPED(status))
			return note_end(remote, status);
		if (status >> 8 == wanted || (event && status >> 16 == PTRACE_EVENT_STOP))
			return NULL;
		signal = status >> 16 ? 0 : WSTOPSIG(status) & 0x7f;
		if (WSTOPSIG(status) == (SIGTRAP | 0x80))
			signal = 0;
	}
}

/* (S7) */
static bool set_dispatch_aside(struct remote *remote)
{
	const struct user_dispatch off = { 0 };

	if (!user_dispatch_read(remote_thread(remote), &remote->dispatch))
		return false;
	uint64_t call = remote->gadgets.call.v, back = remote->gadgets.restorer.v;
	const struct user_dispatch_away away = {
		.stack = { remote->frame.low, remote->frame.low + remote->frame.size },
		.call = { call, call + SYSCALL_AND_RET + 1 },
		.back = { back, back + remote->gadgets.home + SYSCALL_AND_RET },
	};
	user_dispatch_guard(remote_thread(remote), &remote->dispatch, &away, &remote->guard);
	return user_dispatch_write(remote_thread(remote), &off);
}

struct error *remote_enter(struct remote *remote, const struct user_regs_struct *regs,
			   uint64_t open)
{
	uint64_t mask = ~open | remote->mask;
	bool masks = !remote->entered || remote->paused;

	/* first: with our registers the thread makes a call of ours, even if we are killed */
	if (!remote->entered && is_dispatched(remote, remote->index) && !set_dispatch_aside(remote))
		return remote_ptrace_failed(remote, "set the dispatch of system calls");
	if (ptrace(PTRACE_SETREGS, remote_thread(remote), 0, regs))
		return remote_ptrace_failed(remote, "set the registers");
	if (masks && ptrace(PTRACE_SETSIGMASK, remote_thread(remote), sizeof(mask), &mask))
		return remote_ptrace_failed(remote, "set the signal mask");
	remote->entered = true;
	remote->paused = false;
	return NULL;
}

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
		err = check_call(remote, number, args, remote->gadgets.call);
	bool suspend = err && may_suspend(remote);
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
	if ((err = remote_enter(remote, &regs, 0)) ||
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

/* The function returned to the restorer, which is about to call rt_sigreturn: skips that call, so
 * that remote_end finds the frame unused. */
static struct error *skip_sigreturn(struct remote *remote, struct user_regs_struct *regs)
{
	regs->orig_rax = (unsigned long long)-1;
	if (ptrace(PTRACE_SETREGS, remote_thread(remote), 0, regs))
		return remote_ptrace_failed(remote, "set the registers");
	return remote_run_until(remote, PTRACE_SYSCALL, SIGTRAP | 0x80, false);
}

struct error *remote_function(struct remote *remote, taddr function, const uint64_t args[3])
{
	struct user_regs_struct regs = remote->stop->threads.items[remote->index].regs;

	assert(remote->borrowers == 1); /* set_adrift frees the remote of all borrowers */
	if (remote->generation)
		return error_new(ERROR_REFUSED,
				 "process %d (%s): what a called function does may be against its "
				 "filter of system calls (seccomp)",
				 remote->stop->proc->pid, remote->stop->proc->comm);
	struct user_dispatch dispatch;
	if (user_dispatch_read(remote_thread(remote), &dispatch))
		return error_new(ERROR_REFUSED,
				 "process %d (%s) handles its own system calls, and so those of a "
				 "called function",
				 remote->stop->proc->pid, remote->stop->proc->comm);
	if (!remote->gadgets.restorer.v || remote->frame.rsp % 16 != 8)
		return error_new(ERROR_FAILED,
				 "process %d has no code for a called function to return to",
				 remote->stop->proc->pid);
	regs.rip = function.v;
	regs.rsp = remote->frame.rsp;
	regs.rax = 0;
	regs.orig_rax = (unsigned long long)-1;
	regs.rdi = args[0];
	regs.rsi = args[1];
	regs.rdx = args[2];
	regs.eflags &= ~REMOTE_DIRECTION_FLAG;
	/* the function may run into a trap of ours (H10) */
	struct error *err = remote_enter(remote, &regs, 1ULL << (SIGTRAP - 1));
	remote->adrift = !err;
	while (!err) {
		err = remote_run_until(remote, PTRACE_SYSCALL, SIGTRAP | 0x80, false);
		if (!err && ptrace(PTRACE_GETREGS, remote_thread(remote), 0, &regs))
			err = remote_ptrace_failed(remote, "read the registers");
		if (err)
			break;
		if (regs.orig_rax == SYS_rt_sigreturn && regs.rsp == remote->frame.rsp + 8) {
			err = skip_sigreturn(remote, &regs);
			remote->adrift = err != NULL;
			break;
		}
		err = remote_run_until(remote, PTRACE_SYSCALL, SIGTRAP | 0x80, false);
	}
	return err;
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
