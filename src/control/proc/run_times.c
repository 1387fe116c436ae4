#include "run_times.h"

#include "control/base/cleanup.h"
#include "proc_status.h"

/* 0: unknown. */
static uint64_t read_ns(const struct proc *proc, pid_t tid)
{
	uint64_t ns = 0;

	return proc_status_read_ran(proc->pid, tid, &ns) ? ns : 0;
}

void run_times_note(const struct proc *proc, struct run_times *ret_times)
{
	struct run_times times = { 0 };
	struct tids tids = { 0 };
	_cleanup_error_ struct error *gone = threads_list(proc, &tids);

	for (size_t i = 0; i < tids.count; i++) {
		struct run_time one = { tids.items[i], read_ns(proc, tids.items[i]) };

		if (one.ns && !vec_push(&times, one))
			break;
	}
	vec_free(&tids);
	*ret_times = times;
}

static bool wants_to_run(const struct proc *proc, pid_t tid)
{
	struct thread_stat stat;
	_cleanup_error_ struct error *gone = proc_status_read_stat(proc->pid, tid, &stat);

	return !gone && stat.state == 'R';
}

bool run_times_starve(const struct proc *proc, const struct run_times *since, uint64_t ns)
{
	for (size_t i = 0; i < since->count; i++) {
		const struct run_time *before = &since->items[i];

		if (wants_to_run(proc, before->tid) && read_ns(proc, before->tid) - before->ns < ns)
			return true;
	}
	return false;
}

void run_times_free(struct run_times *times)
{
	vec_free(times);
}
