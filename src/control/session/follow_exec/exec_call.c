/*
 * exec_call.c - follow a thread that calls execve, from its request to the stop of the new program.
 */
#include "exec_call.h"

#include <linux/futex.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <x86intrin.h>

#include "control/base/cleanup.h"
#include "control/launch/exec_catch.h"
#include "control/session/processes/process_lookup.h"
#include "control/session/processes/thread_liveness.h"
#include "control/session/recording.h"
#include "control/session/session.h"
#include "exec_session.h"

#define LATE_MAX 3 /* threads that ask and execute nothing, before we ignore all that ask */

struct call {
	struct session *root;
	struct dt_exec *exec;
};

static void let_go(void *context)
{
	struct call *call = context;

	__atomic_store_n(&call->exec->state, DT_EXEC_SEIZED, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &call->exec->state, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void keep_reading(void *context)
{
	struct call *call = context;

	recording_make_room(call->root);
}

/* Does the process have our code, and such a thread? The target can write anything to the pool. */
static bool is_ours(const struct session *root, struct proc *proc, pid_t tid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d", proc->pid, tid);
	if (access(path, F_OK))
		return false;
	if (session_has_code(root, proc))
		return true;
	for (size_t i = 0; i < root->follow->execs.count; i++) {
		if (session_has_code(root->follow->execs.items[i].session, proc))
			return true;
	}
	return false;
}

static void follow_call(struct call *call, struct proc *proc, pid_t tid)
{
	struct exec_watch watch = { .seized = let_go, .idle = keep_reading, .context = call };
	enum exec_result result = EXEC_LATE;
	_cleanup_error_ struct error *error = exec_catch(proc, tid, &watch, &result);

	if (!error && result == EXEC_BEGUN)
		exec_session_follow(call->root, proc);
	else if (!error && result == EXEC_GAINS)
		session_tell(
			call->root,
			"process %d: not traced: it executes a program with other rights (setuid)",
			proc->pid);
	exec_session_pass_end(call->root, proc);
	call->root->follow->late += !error && result == EXEC_LATE;
	if (error || result == EXEC_LATE)
		session_tell(call->root, "process %d: executes a program that isn't traced: %s",
			     proc->pid, error ? error_text(error) : "it took too long");
}

void exec_call_release(struct dt_exec *exec)
{
	__atomic_store_n(&exec->state, DT_EXEC_FREE, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &exec->state, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* The ids that the thread has here. A vfork child has its parent's number, and its parent's pid
 * namespace. */
static bool find_caller(struct session *root, const struct dt_exec *exec, pid_t *ret_pid,
			pid_t *ret_tid)
{
	uint32_t pid = __atomic_load_n(&exec->pid, __ATOMIC_RELAXED);
	uint32_t tid = __atomic_load_n(&exec->tid, __ATOMIC_RELAXED);
	uint32_t number = __atomic_load_n(&exec->process, __ATOMIC_RELAXED);
	struct traced_process like;

	if (process_lookup(root, number, pid, __rdtsc(), &like) != LOOKUP_FOUND)
		return false;
	if (like.inside && !thread_liveness_find(root, like.pid, &pid, &tid))
		return false;
	*ret_pid = (pid_t)pid;
	*ret_tid = (pid_t)tid;
	return pid > 1 && tid > 1;
}

/* Pairs with exec_ask in the agent. */
bool exec_call_look(struct session *root, struct dt_exec *exec)
{
	struct call call = { root, exec };
	struct proc *proc = NULL;

	if (__atomic_load_n(&exec->state, __ATOMIC_ACQUIRE) != DT_EXEC_ASKED)
		return false;
	pid_t pid = 0, tid = 0;
	_cleanup_error_ struct error *error =
		find_caller(root, exec, &pid, &tid) ? proc_open_plain(pid, &proc) : NULL;
	if (root->follow->late < LATE_MAX && proc && is_ours(root, proc, tid))
		follow_call(&call, proc, tid);
	proc_close(proc);
	exec_call_release(exec);
	return true;
}
