/*
 * fencing.c
 *
 * The agent does without any call that a fence closes. Without the calls that every slow path
 * makes, or where a thread's system calls are dispatched to the thread itself, the agent makes none
 * at all (target/quiet.c): that is less than it could do, and the same in all such targets.
 */
#include "fencing.h"

#include "control/base/cleanup.h"
#include "control/fence/user_dispatch.h"
#include "control/proc/judged.h"
#include "control/proc/proc_status.h"
#include "fencing_parts.h"

#define QUIET                                                                                      \
	(FENCE_WORK | FENCE_READ | FENCE_LIVE | FENCE_NAME | FENCE_STACK | FENCE_SIGNAL |          \
	 FENCE_LINES | FENCE_INFO | FENCE_RECORD)

bool fencing_may_be_ours(const struct session *session)
{
	return session->proc->inherits && !filters_may_read();
}

struct error *fencing_add_judged(const struct proc *proc, const struct stop *stop,
				 struct fence *fence)
{
	struct error *error = NULL;

	for (size_t i = 0; i < stop_thread_count(stop) && !error; i++)
		error = judged_check(proc, stop_thread_tid(stop, i));
	if (!error)
		verdict_fence(&proc->verdict, fence);
	return error;
}

static struct error *add_threads(const struct session *session, const struct stop *stop,
				 struct fence *fence)
{
	struct error *error = NULL;

	if (judged_is(session->proc))
		return fencing_add_judged(session->proc, stop, fence);
	for (size_t i = 0; i < stop_thread_count(stop) && !error; i++) {
		if (!stop_thread_is_plain(stop, i))
			error = fence_add_thread(fence, &session->proc->answers,
						 stop_thread_tid(stop, i), session->proc->filtered);
	}
	if (!error && session->proc->filtered && !fence->threads)
		error = fence_unreadable();
	return error ? error_wrap(error, "process %d (%s)", session->proc->pid,
				  session->proc->comm) :
		       NULL;
}

bool fencing_is_dispatched(const struct stop *stop)
{
	struct user_dispatch dispatch;

	for (size_t i = 0; i < stop_thread_count(stop); i++) {
		if (!stop_thread_is_plain(stop, i) &&
		    user_dispatch_read(stop_thread_tid(stop, i), &dispatch))
			return true;
	}
	return false;
}

/* Parts without which nothing can be recorded. The controller's own calls are possible all the
 * same if the filter may be suspended (S6). */
static unsigned needed_parts(const struct session *session)
{
	unsigned control = FENCE_CONTROL | (session->parent ? FENCE_SHARE : 0);
	const struct proc *proc = session->proc;
	bool suspend = proc->may_suspend && !proc->held_tid;

	return FENCE_HOME | (suspend ? 0 : control);
}

static struct error *refuse(const struct session *session, const struct fence *fence,
			    unsigned needed)
{
	_cleanup_free_ char *what = fence_describe(fence, needed);
	bool root_may = judged_is(session->proc) && !(fence_closed(fence) & FENCE_HOME);

	return error_new(ERROR_REFUSED,
			 "process %d (%s) can't be traced: its filter %s (run %s)", session->proc->pid,
			 session->proc->comm, what ? what : "forbids a system call",
			 root_may ? "'dyntrace trace' as root, which can suspend the filter" :
				    "it without this seccomp filter");
}

/* A process of our container, which we haven't begun: has a thread taken up another filter? */
static struct error *check_ours(const struct session *session, const struct stop *stop)
{
	struct error *error = NULL;

	for (size_t i = 0; session->proc->filtered && i < stop_thread_count(stop) && !error; i++) {
		struct thread_status status;

		error = proc_status_read(session->proc->pid, stop_thread_tid(stop, i), &status);
		if (!error && !proc_has_our_filters(session->proc->pid, status.filters))
			error = fence_unreadable();
	}
	return error;
}

static struct error *judge(struct session *session, const struct stop *stop,
			   const struct fence *trial, bool tell, unsigned *ret_closed)
{
	unsigned needed = needed_parts(session);
	struct fence fence;

	fence_begin(&fence);
	struct error *error = trial		     ? check_ours(session, stop) :
			      fencing_may_be_ours(session) ? NULL :
						     add_threads(session, stop, &fence);
	if (trial) { /* and nobody here may suspend filters */
		fence = *trial;
		needed |= FENCE_CONTROL | (session->parent ? FENCE_SHARE : 0);
	}
	unsigned closed = fence_closed(&fence);
	if (!error && closed & needed)
		error = refuse(session, &fence, needed);
	if (fencing_is_dispatched(stop))
		closed |= FENCE_RECORD;
	if (closed & FENCE_RECORD)
		closed |= QUIET;
	if (!error && tell)
		fencing_tell_parts(session, &fence, closed);
	fencing_note_lines(session, &fence);
	if (!error)
		*ret_closed = closed;
	return error;
}

static struct error *refuse_traps(void)
{
	return error_new(ERROR_REFUSED,
			 "its filter of system calls forbids what a trap needs");
}

struct error *fencing_check(struct session *session, const struct stop *stop,
			    const struct fence *trial, unsigned *ret_closed)
{
	struct error *error =
		judge(session, stop, trial->threads ? trial : NULL, true, ret_closed);

	/* decided before the filter came */
	if (!error && *ret_closed & FENCE_SIGNAL && planner_has_new_traps(session->planner))
		error = refuse_traps();
	return error;
}

static bool judged_allows_traps(const struct proc *proc)
{
	struct fence fence;

	verdict_fence(&proc->verdict, &fence);
	bool allowed = !(fence_closed(&fence) & (FENCE_SIGNAL | FENCE_RECORD));
	return allowed;
}

struct error *fencing_allows_traps(struct session *session)
{
	_cleanup_(cleanup_stop) struct stop *stop = NULL;
	unsigned closed = 0;

	if (session->agent)
		return session->agent->control->fronts ? NULL : refuse_traps();
	if (judged_is(session->proc))
		return judged_allows_traps(session->proc) ? NULL : refuse_traps();
	if (!session->proc->filtered || session->proc->held_tid || !filters_may_read())
		return NULL;
	struct error *error = stop_all_or_quit(session->proc, STOP_TIMEOUT_MS, &stop);
	if (!error)
		error = judge(session, stop, NULL, false, &closed);
	if (!error && closed & FENCE_SIGNAL)
		error = refuse_traps();
	return error;
}
