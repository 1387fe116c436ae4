/*
 * held_rewind.c - system calls that a stop interrupted: back to their beginning.
 */
#include "held_rewind.h"

#include <errno.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include "control/fence/fence.h"
#include "control/proc/judged.h"
#include "control/proc/proc_status.h"
#include "restart.h"

/* By ptrace: the memory is the thread's own, also if it runs another program than the caller
 * knows. */
static bool is_syscall_at(pid_t tid, uint64_t at)
{
	for (unsigned before = 0; before <= 6; before += 6) { /* a page may end behind it */
		errno = 0;
		uint64_t word = (uint64_t)ptrace(PTRACE_PEEKTEXT, tid, at - before, 0);

		if (!errno)
			return (word >> (8 * before) & 0xffff) == 0x050f;
	}
	return false;
}

/* By a verdict over a process that was held: we can't read its filters, nor can the handler find
 * the process. */
static volatile bool restart_is_forbidden;

void held_rewind_note_verdict(const struct proc *proc)
{
	if (judged_is(proc) && proc->verdict.most && !filters_is_allowed(proc->verdict.restart))
		restart_is_forbidden = true;
}

/* (S5) Would the kernel restart the call by restart_syscall, which a filter of the thread forbids?
 * Runs in a signal handler, too. */
static bool may_not_restart(pid_t tid, const struct user_regs_struct *regs)
{
	static const uint64_t none[6];

	if (!restart_with_rest(regs))
		return false;
	if (restart_is_forbidden)
		return true;
	struct bpf_call call = fence_call(SYS_restart_syscall, none, regs->rip);
	for (unsigned i = 0; i < 6; i++)
		call.unknown |= BPF_UNKNOWN_ARG(i);
	return filters_forbid(tid, &call);
}

/* A call that was restarted before the filter came can't begin afresh: its arguments are lost. */
static void rewind_regs(struct user_regs_struct *regs)
{
	restart_rewind(regs);
	if (regs->rax != SYS_restart_syscall)
		return;
	regs->rip += 2;
	regs->rax = (unsigned long long)-EINTR;
}

void held_rewind_call(struct stop *stop, size_t index)
{
	struct held *held = &stop->threads.items[index];
	struct user_regs_struct regs = held->regs;

	if ((!restart_by_hand(&regs) && !may_not_restart(held->tid, &regs)) ||
	    !is_syscall_at(held->tid, regs.rip - 2))
		return;
	rewind_regs(&regs);
	struct error *err = held_set_regs(stop, index, &regs);
	held->rewound = !err;
	error_free(err);
}

void held_rewind_late(pid_t tid)
{
	struct user_regs_struct regs;

	if (ptrace(PTRACE_GETREGS, tid, 0, &regs) ||
	    (!restart_by_hand(&regs) && !may_not_restart(tid, &regs)) ||
	    held_has_signal(tid, ~0ULL) || !is_syscall_at(tid, regs.rip - 2))
		return;
	rewind_regs(&regs);
	ptrace(PTRACE_SETREGS, tid, 0, &regs);
}

void held_rewind_undo(struct stop *stop, size_t index)
{
	struct held *held = &stop->threads.items[index];
	struct user_regs_struct regs = held->regs;
	struct thread_status status;
	struct error *err = proc_status_read(held->tid, held->tid, &status);

	if (err || !(status.pending & ~status.blocked & status.caught) ||
	    !is_syscall_at(held->tid, regs.rip)) {
		error_free(err);
		return;
	}
	regs.rip += 2;
	regs.rax = (unsigned long long)-EINTR;
	error_free(held_set_regs(stop, index, &regs));
}
