/*
 * follow_exec.c - take part in a session's life: look for threads that wait in execve, keep exec
 * sessions going, end those that are over, and let further processes join.
 */
#include "follow_exec.h"

#include <assert.h>

#include "control/base/cleanup.h"
#include "control/exits/exits.h"
#include "control/proc/proc_status.h"
#include "control/session/detach.h"
#include "control/session/processes/process_names.h"
#include "control/session/session.h"
#include "exec_call.h"
#include "exec_fold.h"
#include "exec_session.h"

#define LOOK_NS 500000000ULL /* pause between looks for exec sessions that are over */
#define FOLD_TRIES 3
#define LOOK_MAX 8 /* exec sessions per look: each means a look at all processes */
#define GENERATIONS_MAX 64

/* ---- exec sessions that are over ------------------------------------------------------------- */

static bool has_program(const struct session *exec)
{
	return proc_is_alive(exec->proc) && session_may_have_code(exec, exec->proc);
}

/* Does no process have its code any more? */
static bool is_over(const struct session *exec)
{
	struct tids pids = { 0 };

	if (has_program(exec))
		return false;
	_cleanup_error_ struct error *error = holders_find(exec->agent, &pids);
	bool over = !error && !pids.count;
	vec_free(&pids);
	return over;
}

static struct error *drop_exec(struct session *root, size_t index)
{
	struct follow *follow = root->follow;
	assert(index < follow->execs.count);
	struct exec_session exec = follow->execs.items[index];

	exec_session_pass_end(root, exec.session->proc);
	struct error *error = exec_fold(root, exec.session);
	if (error)
		return error;
	follow->execs.items[index] = follow->execs.items[--follow->execs.count];
	exec_session_free(&exec);
	return NULL;
}

static void drop_ended(struct session *root)
{
	size_t looked = 0;

	for (size_t i = root->follow->execs.count; i-- > 0 && looked < LOOK_MAX;) {
		const struct session *exec = root->follow->execs.items[i].session;

		if (has_program(exec))
			continue;
		looked++;
		if (is_over(exec))
			error_free(drop_exec(root, i)); /* tried again by the next look (F3) */
	}
}

/* Follows threads that call execve. */
static void follow_asked(struct session *root)
{
	struct follow *follow = root->follow;

	if (!root->sees_exec && !follow->blind)
		exec_session_tell_blind(root, root->proc);
	follow->blind = !root->sees_exec;
	/* one per step: the session's user has other work between steps */
	for (uint32_t i = 0; i < DT_EXECS_MAX; i++, follow->next_exec++) {
		if (exec_call_look(root,
				   &root->agent->pool->execs[follow->next_exec % DT_EXECS_MAX]))
			break;
	}
}

static void follow_step(struct session *root, uint64_t now_ns)
{
	struct follow *follow = root->follow;

	if (root->parent)
		return;
	if (root->options.follow_exec)
		follow_asked(root);
	for (size_t i = 0; i < follow->execs.count; i++) {
		exits_grow(follow->execs.items[i].session, now_ns);
		exits_watch(follow->execs.items[i].session, now_ns);
		exits_open_look(follow->execs.items[i].session, now_ns);
		exec_session_pass_end(root, follow->execs.items[i].session->proc);
	}
	if (now_ns < follow->next_look)
		return;
	follow->next_look = now_ns + LOOK_NS;
	drop_ended(root);
}

static void follow_modules_changed(struct session *root)
{
	for (size_t i = 0; i < root->follow->execs.count; i++) {
		struct session *exec = root->follow->execs.items[i].session;

		exec->follow->first_type = root->types->count;
		exec->counters = root->counters;
		error_free(session_modules_changed(exec)); /* drop_ended finds what is over */
	}
}

static void stop_asking(const struct session *session)
{
	if (session->agent)
		__atomic_or_fetch(&session->agent->control->flags, DT_NO_EXECS, __ATOMIC_RELAXED);
}

/* Detaches from the processes of the last exec session. There is no next look: what can't be added
 * now is lost, and that is told (F3). */
static void end_last(struct session *root, struct session_summary *summary)
{
	struct exec_session *last = vec_last(&root->follow->execs);
	pid_t pid = last->session->proc->pid;
	struct error *error = NULL;

	error_free(detach_all(last->session, summary));
	for (int tries = 0; tries < FOLD_TRIES; tries++) {
		error_free(error);
		error = drop_exec(root, root->follow->execs.count - 1);
		if (!error)
			return;
	}
	session_tell(root, "process %d: what was counted in it is lost: %s", pid,
		     error_text(error));
	error_free(error);
	exec_session_free(last);
	root->follow->execs.count--;
}

static void follow_end(struct session *root, struct session_summary *summary)
{
	if (!session_may_lack(root) || !root->agent)
		return;
	stop_asking(root);
	for (size_t i = 0; i < root->follow->execs.count; i++)
		stop_asking(root->follow->execs.items[i].session);
	for (uint32_t i = 0; i < DT_EXECS_MAX; i++)
		exec_call_release(&root->agent->pool->execs[i]);
	while (root->follow->execs.count)
		end_last(root, summary);
	uint64_t missed = __atomic_load_n(&root->agent->pool->execs_missed, __ATOMIC_RELAXED);
	if (missed)
		session_tell(root,
			     "%llu programs were not traced (dyntrace was too slow, or they filter "
			     "system calls)",
			     (unsigned long long)missed);
	for (size_t i = 0; i < root->follow->requests.count; i++) {
		const struct follow_request *request = &root->follow->requests.items[i];

		if (!request->found && request->missing)
			session_tell(root, "in no program: %s", error_text(request->missing));
	}
}

static void free_all(struct session *root)
{
	for (size_t i = 0; i < root->follow->execs.count; i++)
		exec_session_free(&root->follow->execs.items[i]);
	vec_free(&root->follow->execs);
}

static const struct session_guest follower = {
	.step = follow_step,
	.modules_changed = follow_modules_changed,
	.end = follow_end,
	.free = free_all,
};

/* ---- processes that ran before --------------------------------------------------------------- */

static bool is_descendant(pid_t pid, pid_t of)
{
	for (int i = 0; i < GENERATIONS_MAX && pid > 1; i++) {
		struct thread_status status;
		_cleanup_error_ struct error *gone = proc_status_read(pid, pid, &status);

		if (gone || pid == of)
			return !gone;
		pid = status.parent;
	}
	return false;
}

/* The processes of a trace see each other's events in the pool: those of another user only if one
 * was forked from the other, which then has them anyway. */
static struct error *check_join(const struct session *root, const struct proc *proc)
{
	struct thread_status theirs, ours;
	struct error *error = proc_status_read(proc->pid, proc->pid, &theirs);

	if (!error)
		error = proc_status_read(root->proc->pid, root->proc->pid, &ours);
	if (error)
		return error;
	if (theirs.uid != ours.uid && !is_descendant(proc->pid, root->proc->pid) &&
	    !is_descendant(root->proc->pid, proc->pid))
		return error_new(ERROR_REFUSED,
				 "it is another user's than process %d (trace it apart)",
				 root->proc->pid);
	return NULL;
}

struct error *follow_exec_join(struct session *root, struct proc *proc)
{
	assert(root->options.several && !root->parent && root->begun);
	struct exec_session exec = { .joined = proc };
	struct error *error = check_join(root, proc);

	process_names_exec(root, proc->pid, proc->comm, proc->comm);
	session_invite(root, &follower);
	if (!root->follow->own_types)
		root->follow->own_types = root->types->count;
	if (!error)
		error = exec_session_reserve(root);
	if (!error)
		error = exec_session_create(root, proc, &exec.session);
	if (exec.session)
		exec.session->follow->is_joined = true;
	if (!error)
		error = session_resolve(exec.session);
	if (!error)
		error = session_begin(exec.session, NULL);
	if (!error) {
		root->follow->execs.items[root->follow->execs.count++] = exec;
		return NULL;
	}
	exec_session_free(&exec);
	return error;
}

void follow_exec_enable(struct session *session)
{
	session_invite(session, &follower);
}
