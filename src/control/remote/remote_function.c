/*
 * remote_function.c - call a function of the target in the borrowed thread.
 */
#include <assert.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include "remote_state.h"

#define REMOTE_DIRECTION_FLAG 0x400ULL
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
	struct error *err = remote_run_enter(remote, &regs, 1ULL << (SIGTRAP - 1));
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
