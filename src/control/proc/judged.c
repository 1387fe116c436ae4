#include "judged.h"

#include <assert.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "proc_status.h"

struct error *judged_check(const struct proc *proc, pid_t tid)
{
	struct thread_status status;
	struct error *error = proc_status_read(proc->pid, tid, &status);

	assert(judged_is(proc));
	if (error && error_kind(error) == ERROR_GONE) { /* a process that shares the memory (H13) */
		error_free(error);
		error = proc_status_read(tid, tid, &status);
	}
	if (error)
		return error;
	if (verdict_holds(&proc->verdict, status.seccomp, status.filters))
		return NULL;
	return error_new(ERROR_REFUSED,
			 "process %d (%s) has taken up another filter of system calls (seccomp): try "
			 "again, or run 'dyntrace trace' as root",
			 proc->pid, proc->comm);
}

/* A thread that has just ended has no filters to judge. */
static bool holds_for_all(const struct proc *proc, const struct tids *tids)
{
	for (size_t i = 0; i < tids->count; i++) {
		_cleanup_error_ struct error *error = judged_check(proc, tids->items[i]);

		if (error && error_kind(error) != ERROR_GONE)
			return false;
	}
	return true;
}

struct error *judged_renew(struct proc *proc)
{
	struct tids tids = { 0 };
	struct fence_verdict verdict;

	if (!proc->asker)
		return NULL;
	struct error *error = threads_list(proc, &tids);
	bool asks = !error && !holds_for_all(proc, &tids);
	vec_free(&tids);
	if (!asks)
		return error;
	error = proc->asker->ask(proc->asker->context, &verdict);
	if (error)
		return error_wrap(error, "process %d (%s)", proc->pid, proc->comm);
	assert(verdict.magic == VERDICT_MAGIC);
	proc->verdict = verdict;
	proc->filtered |= verdict.filters != 0;
	return NULL;
}
