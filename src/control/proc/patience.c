#include "patience.h"

#include "control/base/cleanup.h"
#include "control/base/now.h"
#include "proc_status.h"

#define TURN_NS 200000000u /* a thread that has run for so long has had its chance */

/* 0: unknown. */
static uint64_t read_ns(const struct proc *proc, pid_t tid)
{
	uint64_t ns = 0;

	return proc_status_read_ran(proc->pid, tid, &ns) ? ns : 0;
}

void patience_begin(struct patience *ret_patience, const struct proc *proc, unsigned least_ms,
		    unsigned most_ms)
{
	uint64_t now = now_ms();
	struct patience patience = { .least = now + least_ms, .most = now + most_ms };
	struct tids tids = { 0 };
	_cleanup_error_ struct error *gone = threads_list(proc, &tids);

	for (size_t i = 0; i < tids.count; i++) {
		struct run_time one = { tids.items[i], read_ns(proc, tids.items[i]) };

		if (one.ns && !vec_push(&patience.since, one))
			break;
	}
	vec_free(&tids);
	*ret_patience = patience;
}

static bool wants_to_run(const struct proc *proc, pid_t tid)
{
	struct thread_stat stat;
	_cleanup_error_ struct error *gone = proc_status_read_stat(proc->pid, tid, &stat);

	return !gone && stat.state == 'R';
}

/* Does one of the threads want to run, and has hardly run since? */
static bool is_starved(const struct patience *patience, const struct proc *proc)
{
	for (size_t i = 0; i < patience->since.count; i++) {
		const struct run_time *before = &patience->since.items[i];

		if (wants_to_run(proc, before->tid) &&
		    read_ns(proc, before->tid) - before->ns < TURN_NS)
			return true;
	}
	return false;
}

bool patience_ends(const struct patience *patience, const struct proc *proc)
{
	uint64_t now = now_ms();

	return now >= patience->least && (now >= patience->most || !is_starved(patience, proc));
}

void patience_free(struct patience *patience)
{
	vec_free(&patience->since);
}
