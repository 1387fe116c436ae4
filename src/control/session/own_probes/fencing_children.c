/*
 * fencing_children.c - filters of forked children that come while they are traced (Q8).
 *
 * The control page is one for all processes, so what a child's filter forbids stands in the child's
 * own page. Nothing is remembered here: dt_inherited.filtered tells which children aren't judged.
 */
#include "control/agent/agent.h"
#include "control/base/cleanup.h"
#include "control/fence/filters.h"
#include "control/stop/prejudge.h"
#include "fencing_parts.h"

#define LOOKS_MOST 20u

/* The agent does without these as a whole, or not at all. */
#define TOGETHER (FENCE_RECORD | FENCE_WORK | FENCE_SIGNAL | FENCE_HOME)

static bool is_new(const struct session *session, struct proc *child)
{
	uint32_t filtered = 0;
	_cleanup_error_ struct error *gone = mem_read(child, fencing_filtered_word(session),
						      &filtered, sizeof(filtered));

	return !gone && filtered == DT_FILTER_NEW;
}

/* Does nothing if its filter may still come, or it can't be held just now. */
static void judge_child(struct session *session, struct proc *child)
{
	_cleanup_(cleanup_stop) struct stop *stop = NULL;
	bool passing = false;
	unsigned closed = 0;

	prejudge(child);
	_cleanup_error_ struct error *error = stop_all_or_quit(child, STOP_TIMEOUT_MS, &stop);
	if (!error)
		error = fencing_find_passing(session, child, stop, &passing);
	if (error || passing || !fencing_is_judged(child, stop))
		return;
	error = fencing_judge_again(session, child, stop, &closed);
	if (error || closed & TOGETHER)
		closed = FENCE_RECORD;
	error_free(error);
	error = fencing_write(session, child, closed);
}

/* *ret_again: another look is worth while. */
static void look_at(struct session *session, pid_t pid, bool *ret_again)
{
	_cleanup_(cleanup_proc) struct proc *plain = NULL, *child = NULL;
	_cleanup_error_ struct error *error = proc_open_plain(pid, &plain);

	if (error || !is_new(session, plain))
		return;
	error = proc_open_forked(pid, session->proc, &child);
	if (!error)
		judge_child(session, child);
	*ret_again = true; /* also for a process that it forked meanwhile */
}

void fencing_look_at_children(struct session *session)
{
	struct tids pids = { 0 };
	uint32_t *filtered = &session->agent->pool->filtered;
	bool again = false;

	if (!session->options.follow_fork || !fencing_may_judge(session))
		return;
	if (__atomic_load_n(filtered, __ATOMIC_RELAXED) == DT_FILTER_NEW) {
		__atomic_store_n(filtered, DT_FILTER_JUDGED, __ATOMIC_SEQ_CST);
		session->fencing_looks = LOOKS_MOST;
	}
	if (!session->fencing_looks)
		return;
	session->fencing_looks--;
	_cleanup_error_ struct error *error = holders_find_forked(session->agent, &pids);
	for (size_t i = 0; !error && i < pids.count; i++)
		look_at(session, pids.items[i], &again);
	vec_free(&pids);
	if (!again)
		session->fencing_looks = 0;
}
