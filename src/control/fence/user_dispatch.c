#include "user_dispatch.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SET_CONFIG 0x4210 /* PTRACE_SET_SYSCALL_USER_DISPATCH_CONFIG */
#define GET_CONFIG 0x4211
#define SYSCALL_LENGTH 2u
#define GUARD_TRIES 10000 /* a quarter of an hour */
#define PAUSE_FIRST_NS 100000L
#define PAUSE_LAST_NS 100000000L

bool user_dispatch_read(pid_t tid, struct user_dispatch *ret_dispatch)
{
	/* EIO: the kernel doesn't know the request. Asking each thread takes time while all are
	 * held. */
	static volatile bool is_unknown;
	struct user_dispatch dispatch = { 0 };

	if (is_unknown)
		return false;
	if (ptrace((enum __ptrace_request)GET_CONFIG, tid, sizeof(dispatch), &dispatch)) {
		is_unknown = errno == EIO;
		return false;
	}
	if (!dispatch.on)
		return false;
	*ret_dispatch = dispatch;
	return true;
}

bool user_dispatch_write(pid_t tid, const struct user_dispatch *dispatch)
{
	return !ptrace((enum __ptrace_request)SET_CONFIG, tid, sizeof(*dispatch), dispatch);
}

bool user_dispatch_spares(const struct user_dispatch *dispatch, uint64_t at)
{
	return at + SYSCALL_LENGTH - dispatch->offset < dispatch->length;
}

/* A thread's dispatch, which the guard restores. */
struct guarded {
	pid_t tid;
	struct user_dispatch dispatch;
	struct user_dispatch_away away;
};

static bool is_in(uint64_t address, const uint64_t range[2])
{
	return address >= range[0] && address < range[1];
}

static bool is_away(const struct user_dispatch_away *away, const struct user_regs_struct *regs)
{
	return is_in(regs->rsp, away->stack) &&
	       (is_in(regs->rip, away->call) || is_in(regs->rip, away->back));
}

/* Runs the thread until it is back in its own code, stopped; *ret_signal: what it is about to get.
 * False: it has ended. To look now and then, instead, would leave it no time to run if it waits for
 * a processor, or time for calls of its own. Its signals wait meanwhile: a handler would run
 * between calls of ours. The frame that it returns from has its own mask. */
static bool lead_home(const struct guarded *guarded, int status, int *ret_signal)
{
	const uint64_t all = ~0ULL;
	struct user_regs_struct regs;
	pid_t tid = guarded->tid;

	for (;;) {
		bool reports = status >> 16 || WSTOPSIG(status) == (SIGTRAP | 0x80);

		*ret_signal = reports ? 0 : WSTOPSIG(status);
		if (ptrace(PTRACE_GETREGS, tid, 0, &regs))
			return false;
		if (!is_away(&guarded->away, &regs))
			return true;
		if (ptrace(PTRACE_SETSIGMASK, tid, sizeof(all), &all) ||
		    ptrace(PTRACE_SYSCALL, tid, 0, (void *)(long)*ret_signal) ||
		    waitpid(tid, &status, __WALL) != tid || !WIFSTOPPED(status))
			return false;
	}
}

/* False: somebody else traces the thread: the dead controller, until the kernel lets it go. */
static bool restore(const struct guarded *guarded)
{
	struct user_dispatch now;
	pid_t tid = guarded->tid;
	int status, signal;

	if (ptrace(PTRACE_SEIZE, tid, 0, PTRACE_O_TRACESYSGOOD))
		return errno == ESRCH;
	if (ptrace(PTRACE_INTERRUPT, tid, 0, 0) || waitpid(tid, &status, __WALL) != tid ||
	    !WIFSTOPPED(status) || !lead_home(guarded, status, &signal))
		return true;
	if (!user_dispatch_read(tid, &now))
		user_dispatch_write(tid, &guarded->dispatch);
	ptrace(PTRACE_DETACH, tid, 0, (void *)(long)signal);
	return true;
}

static _Noreturn void run_guard(int fd, const struct guarded *guarded)
{
	struct timespec pause = { 0, PAUSE_FIRST_NS };
	char byte;

	if (read(fd, &byte, 1) == 0) {
		for (int i = 0; i < GUARD_TRIES && !restore(guarded); i++) {
			nanosleep(&pause, NULL);
			if (pause.tv_nsec < PAUSE_LAST_NS)
				pause.tv_nsec *= 2;
		}
	}
	_exit(0);
}

void user_dispatch_guard(pid_t tid, const struct user_dispatch *dispatch,
			 const struct user_dispatch_away *away,
			 struct user_dispatch_guard *ret_guard)
{
	const struct guarded guarded = { tid, *dispatch, *away };
	sigset_t all, before;
	int ends[2];

	*ret_guard = (struct user_dispatch_guard){ 0, -1 };
	if (pipe2(ends, O_CLOEXEC))
		return;
	sigfillset(&all); /* Ctrl-C is for all processes of the terminal */
	sigprocmask(SIG_SETMASK, &all, &before);
	/* without a signal at its end: nobody who waits for children sees it */
	pid_t pid = (pid_t)syscall(SYS_clone, 0, 0, 0, 0, 0);
	if (!pid) {
		/* nobody waits for a pipe or a lock because the guard has it, too */
		if (dup2(ends[0], STDIN_FILENO) != STDIN_FILENO ||
		    syscall(SYS_close_range, STDIN_FILENO + 1, ~0u, 0))
			_exit(1);
		run_guard(STDIN_FILENO, &guarded);
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	close(ends[0]);
	if (pid < 0)
		close(ends[1]);
	else
		*ret_guard = (struct user_dispatch_guard){ pid, ends[1] };
}

void user_dispatch_unguard(struct user_dispatch_guard *guard)
{
	if (guard->pid <= 0)
		return;
	kill(guard->pid, SIGKILL);
	while (waitpid(guard->pid, NULL, __WALL) < 0 && errno == EINTR)
		;
	close(guard->fd);
	guard->pid = 0;
}
