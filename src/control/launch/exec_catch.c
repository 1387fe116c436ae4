/*
 * exec_catch.c - follow a thread to its execve.
 *
 * The thread goes from system call to system call until the execve. The entry to execve shows which
 * file is meant; then either the kernel reports the exec or the call returns. execve in a process
 * with several threads ends all others, and the thread goes on under the process's id: so both ids
 * are waited for.
 */
#include "exec_catch.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "control/base/now.h"
#include "control/proc/unreleased.h"

#define CATCH_OPTIONS (PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC)
#define CATCH_TIMEOUT_MS 10000
#define CATCH_CALLS_MAX 256 /* other system calls allowed before the execve */
#define CATCH_NAP_NS 100000
#define SYSCALL_STOP (SIGTRAP | 0x80)

struct catch {
	struct proc *proc;
	pid_t tid;
	const struct exec_watch *watch;
	uint64_t deadline_ms;
	unsigned calls;
	bool entered; /* into execve */
};

/* ---- reports --------------------------------------------------------------------------------- */

/* Looks once at each id that the thread may have. False: no report yet. */
static bool look(struct catch *catch, int *ret_status)
{
	if (waitpid(catch->tid, ret_status, WNOHANG | __WALL) == catch->tid)
		return true;
	if (catch->tid == catch->proc->pid ||
	    waitpid(catch->proc->pid, ret_status, WNOHANG | __WALL) != catch->proc->pid)
		return false;
	catch->tid = catch->proc->pid;
	return true;
}

/* Waits for the next report. False: the time is over. */
static bool await(struct catch *catch, int *ret_status)
{
	while (!look(catch, ret_status)) {
		if (now_ms() > catch->deadline_ms)
			return false;
		if (catch->watch->idle)
			catch->watch->idle(catch->watch->context);
		nanosleep(&(struct timespec){ .tv_nsec = CATCH_NAP_NS }, NULL);
	}
	return true;
}

/* The end of a later thread isn't that of its process, which another thread may go on with. */
static enum exec_result ended(struct catch *catch, int status)
{
	if (catch->tid == catch->proc->pid && catch->proc->own_child) {
		catch->proc->reaped = true;
		catch->proc->reaped_status = status;
	}
	return EXEC_GONE;
}

static void go_on(const struct catch *catch, int status)
{
	int signal = status >> 16 || WSTOPSIG(status) == SYSCALL_STOP ? 0 : WSTOPSIG(status);
	bool group = status >> 16 == PTRACE_EVENT_STOP && WSTOPSIG(status) != SIGTRAP;

	ptrace(group ? PTRACE_LISTEN : PTRACE_SYSCALL, catch->tid, 0, signal);
}

/* Leaves the thread to unreleased.h: it hasn't stopped yet, or it is being killed and its end must
 * be seen. */
static void leave_later(const struct catch *catch)
{
	unreleased_add(catch->tid, catch->tid == catch->proc->pid && catch->proc->own_child);
}

/* Lets the thread go from its stop. */
static enum exec_result leave(const struct catch *catch, enum exec_result result)
{
	if (ptrace(PTRACE_DETACH, catch->tid, 0, 0))
		leave_later(catch);
	return result;
}

/* The thread didn't report in time: stops it once more to let it go, or leaves it to unreleased. */
static enum exec_result give_up(struct catch *catch)
{
	int status;

	catch->deadline_ms = now_ms() + CATCH_TIMEOUT_MS / 10;
	ptrace(PTRACE_INTERRUPT, catch->tid, 0, 0);
	if (!await(catch, &status)) {
		leave_later(catch);
		return EXEC_LATE;
	}
	if (!WIFSTOPPED(status))
		return ended(catch, status);
	return status >> 16 == PTRACE_EVENT_EXEC ? EXEC_BEGUN : leave(catch, EXEC_LATE);
}

/* ---- the file -------------------------------------------------------------------------------- */

static bool read_text(struct proc *proc, uint64_t from, char *to, size_t size)
{
	for (size_t i = 0; i + 1 < size; i++) {
		_cleanup_error_ struct error *err = mem_read(proc, taddr_of(from + i), to + i, 1);

		if (err)
			return false;
		if (!to[i])
			return true;
	}
	return false;
}

/* A path by which the controller can open the file: through the process's root, or its
 * directory. */
static bool find_file(struct proc *proc, const struct user_regs_struct *regs, char *path,
		      size_t size)
{
	bool at = regs->orig_rax == SYS_execveat;
	int directory = at ? (int)regs->rdi : AT_FDCWD, written;
	char name[4096];

	if (!read_text(proc, at ? regs->rsi : regs->rdi, name, sizeof(name)))
		return false;
	if (name[0] == '/')
		written = snprintf(path, size, "/proc/%d/root%s", proc->pid, name);
	else if (directory == AT_FDCWD)
		written = snprintf(path, size, "/proc/%d/cwd/%s", proc->pid, name);
	else
		written = snprintf(path, size, "/proc/%d/fd/%d%s%s", proc->pid, directory,
				   name[0] ? "/" : "", name);
	return written > 0 && (size_t)written < size;
}

/* Would the program get rights that the kernel withholds under ptrace by a tracer without
 * privilege? */
static bool gains_rights(struct proc *proc, const struct user_regs_struct *regs)
{
	char path[4200];
	struct stat st;

	if (!geteuid() || !find_file(proc, regs, path, sizeof(path)) || stat(path, &st))
		return false;
	return (st.st_mode & S_ISUID) || ((st.st_mode & S_ISGID) && (st.st_mode & S_IXGRP)) ||
	       getxattr(path, "security.capability", NULL, 0) > 0;
}

/* ---- the way to execve ----------------------------------------------------------------------- */

/* Judges a stop at a system call. True: *ret_result is decided. */
static bool judge_call(struct catch *catch, enum exec_result *ret_result)
{
	struct __ptrace_syscall_info info = { 0 };
	struct user_regs_struct regs;

	if (ptrace(PTRACE_GET_SYSCALL_INFO, catch->tid, sizeof(info), &info) <= 0 ||
	    ptrace(PTRACE_GETREGS, catch->tid, 0, &regs))
		return false;
	if (info.op == PTRACE_SYSCALL_INFO_EXIT && catch->entered) {
		*ret_result = leave(catch, EXEC_FAILED);
		return true;
	}
	if (info.op != PTRACE_SYSCALL_INFO_ENTRY)
		return false;
	if (regs.orig_rax == SYS_execve || regs.orig_rax == SYS_execveat) {
		catch->entered = true;
		if (!gains_rights(catch->proc, &regs))
			return false;
		*ret_result = leave(catch, EXEC_GAINS);
		return true;
	}
	if (++catch->calls < CATCH_CALLS_MAX)
		return false;
	*ret_result = leave(catch, EXEC_LATE);
	return true;
}

static enum exec_result follow(struct catch *catch)
{
	enum exec_result result;
	int status;

	while (await(catch, &status)) {
		if (!WIFSTOPPED(status))
			return ended(catch, status);
		if (status >> 16 == PTRACE_EVENT_EXEC)
			return EXEC_BEGUN;
		if (WSTOPSIG(status) == SYSCALL_STOP && judge_call(catch, &result))
			return result;
		go_on(catch, status);
	}
	return give_up(catch);
}

struct error *exec_catch(struct proc *proc, pid_t tid, const struct exec_watch *watch,
			 enum exec_result *ret_result)
{
	struct catch catch = {
		.proc = proc, .tid = tid, .watch = watch, .deadline_ms = now_ms() + CATCH_TIMEOUT_MS
	};

	assert(watch->seized);
	if (ptrace(PTRACE_SEIZE, tid, 0, CATCH_OPTIONS)) {
		if (errno == ESRCH) {
			*ret_result = EXEC_GONE;
			return NULL;
		}
		return error_errno(errno, "cannot follow process %d", proc->pid);
	}
	ptrace(PTRACE_INTERRUPT, tid, 0, 0);
	watch->seized(watch->context);
	*ret_result = follow(&catch);
	return NULL;
}
