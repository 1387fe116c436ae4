/*
 * exec_session.c - make a session of a program that the target has executed.
 *
 * The program is held in the stop of its exec. It runs until its libraries are loaded, gets its
 * probes, and goes on.
 */
#include "exec_session.h"

#include <assert.h>

#include "control/exits/exits.h"
#include "control/launch/launch.h"
#include "control/session/detach.h"
#include "control/session/processes/process_names.h"
#include "control/session/session.h"

void exec_session_free(struct exec_session *exec)
{
	session_destroy(exec->session);
	launch_free(exec->launch);
	proc_close(exec->joined);
}

struct error *exec_session_create(struct session *root, struct proc *proc,
				  struct session **ret_exec)
{
	assert(!root->parent); /* F1 */
	struct session *exec = NULL;
	struct session_options options = root->options;

	options.stopped = root->stopped;
	struct error *error = session_create(proc, &options, &exec);

	if (error)
		return error;
	exec->parent = root;
	exec->program = ++root->programs;
	exec->types = root->types;
	exec->counters = root->counters;
	exec->follow->first_type = root->types->count;
	for (size_t i = 0; i < root->requests.count && !error; i++)
		error = session_add(exec, &root->requests.items[i]->spec, NULL);
	if (error)
		session_destroy(exec);
	else
		*ret_exec = exec;
	return error;
}

/* Runs the program until its libraries are loaded, or a static one with exits to its main, and
 * resolves the requests. */
static struct error *resolve(struct exec_session *exec)
{
	bool loaded = false;
	struct error *error = launch_run_to_loaded(exec->launch, &loaded);

	if (!error)
		error = session_resolve(exec->session);
	if (error || loaded)
		return error;
	taddr at = session_exits_from(exec->session);
	return at.v ? launch_run_to(exec->launch, at) : NULL;
}

static struct error *begin(struct exec_session *exec)
{
	struct session_summary ignored = { 0 };
	struct proc *proc = launch_proc(exec->launch);
	struct stop *stop = NULL;
	struct error *error = resolve(exec);

	if (!error)
		error = stop_adopt(proc, proc->pid, &stop);
	if (error)
		return error;
	error = session_begin(exec->session, stop);
	stop_disown(stop);
	if (error)
		error_free(detach_all(exec->session, &ignored));
	return error;
}

void exec_session_tell_blind(const struct session *root, const struct proc *proc)
{
	session_tell(root,
		     "%s (%d): programs that it executes aren't traced: its execve can't be watched",
		     proc->comm, proc->pid);
}

/* Lets the program run; the first error counts. */
static struct error *let_run(const struct exec_session *exec, struct error *error)
{
	struct error *going = launch_go(exec->launch);

	if (!error)
		return going;
	error_free(going);
	return error;
}

/* Two structs of one process: the end that one has seen is the other's, too. */
static void pass_end(const struct proc *from, struct proc *to)
{
	if (!from->reaped)
		return;
	to->reaped = true;
	to->reaped_status = from->reaped_status;
}

void exec_session_pass_end(struct session *root, const struct proc *proc)
{
	if (proc->pid == root->proc->pid)
		pass_end(proc, root->proc);
}

struct error *exec_session_reserve(struct session *root)
{
	return vec_reserve(&root->follow->execs, 1) ? NULL :
						      error_new(ERROR_FAILED, "out of memory");
}

void exec_session_follow(struct session *root, struct proc *before)
{
	struct exec_session exec = { 0 };
	pid_t pid = before->pid;
	struct error *error = launch_adopt(before, &exec.launch);

	if (!error)
		process_names_exec(root, pid, before->comm, launch_proc(exec.launch)->comm);
	if (!error)
		proc_take_after(launch_proc(exec.launch), root->proc);
	if (!error)
		error = exec_session_reserve(root);
	if (!error)
		error = exec_session_create(root, launch_proc(exec.launch), &exec.session);
	if (!error)
		error = begin(&exec);
	if (!error && !exec.session->sees_exec)
		exec_session_tell_blind(root, launch_proc(exec.launch));
	if (exec.launch) {
		error = let_run(&exec, error);
		pass_end(launch_proc(exec.launch), before);
	}
	if (!error) {
		root->follow->execs.items[root->follow->execs.count++] = exec;
		return;
	}
	if (error_kind(error) != ERROR_GONE)
		session_tell(root, "%s (%d): not traced: %s",
			     exec.launch ? launch_proc(exec.launch)->comm : "a program", pid,
			     error_text(error));
	error_free(error);
	exec_session_free(&exec);
}
