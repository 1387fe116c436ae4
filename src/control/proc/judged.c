#include "judged.h"

#include <assert.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "proc_status.h"

/* Has this very thread been judged, with as many filters as it has now? */
static struct error *check_itself(const struct proc *proc, pid_t pid, pid_t tid,
				  const struct thread_status *status, bool *ret_holds)
{
	struct thread_stat stat;

	*ret_holds = false;
	if (status->seccomp != 2 || status->filters <= 0 || !proc->verdict.thread_count)
		return NULL;
	struct error *error = proc_status_read_stat(pid, tid, &stat);
	if (!error)
		*ret_holds = verdict_holds_for(
			&proc->verdict, &(struct verdict_thread){ tid, (uint32_t)status->filters,
								  stat.start_time });
	return error;
}

struct error *judged_check(const struct proc *proc, pid_t tid)
{
	struct thread_status status;
	pid_t pid = proc->pid;
	bool holds = false;
	struct error *error = proc_status_read(pid, tid, &status);

	assert(judged_is(proc));
	if (error && error_kind(error) == ERROR_GONE) { /* a process that shares the memory (H13) */
		error_free(error);
		pid = tid;
		error = proc_status_read(pid, tid, &status);
	}
	if (!error && verdict_holds_for_any(&proc->verdict, status.seccomp, status.filters))
		return NULL;
	if (!error)
		error = check_itself(proc, pid, tid, &status, &holds);
	if (error || holds)
		return error;
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
	error = proc->asker->ask(proc->asker->context, proc->pid, &verdict);
	if (error)
		return error_wrap(error, "process %d (%s)", proc->pid, proc->comm);
	assert(verdict.magic == VERDICT_MAGIC);
	proc->verdict = verdict;
	proc->filtered |= verdict.most != 0;
	return NULL;
}
