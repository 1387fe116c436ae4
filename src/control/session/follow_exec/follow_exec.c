#include <assert.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <x86intrin.h>

#include "control/base/cleanup.h"
#include "control/launch/exec_catch.h"
#include "control/launch/launch.h"
#include "control/proc/proc_status.h"
#include "control/exits/exits.h"
#include "follow_exec.h"
#include "control/session/processes/process_lookup.h"
#include "control/session/processes/process_names.h"
#include "control/session/processes/thread_liveness.h"
#include "control/session/processes/follow_state.h"
#include "control/session/session.h"
#include "control/session/detach.h"
#include "control/session/recording.h"
#include "control/tracers/count/count_tracer.h"

#define LOOK_NS 500000000ULL /* pause between looks for exec sessions that are over */
#define FOLD_TRIES 3
#define LOOK_MAX 8 /* exec sessions per look: each means a look at all processes */
#define GENERATIONS_MAX 64
#define LATE_MAX 3 /* threads that ask and execute nothing, before we ignore all that ask */

/* ---- new exec sessions ----------------------------------------------------------------------- */

static void free_exec(struct exec_session *exec)
{
	session_destroy(exec->session);
	launch_free(exec->launch);
	proc_close(exec->joined);
}

static struct error *create_session(struct session *root, struct proc *proc,
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

static void tell_blind(const struct session *root, const struct proc *proc)
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

/* A stop of an exec session may have seen the end of the command: for launch_poll. */
static void pass_command_end(struct session *root, const struct proc *proc)
{
	if (proc->pid == root->proc->pid)
		pass_end(proc, root->proc);
}

/* Makes room for one more: a program with probes is always in the list (H32). */
static struct error *reserve_exec(struct session *root)
{
	return vec_reserve(&root->follow->execs, 1) ? NULL :
						      error_new(ERROR_FAILED, "out of memory");
}

/* The process is in the stop that reports its exec. `before`: what it was until now. */
static void follow_program(struct session *root, struct proc *before)
{
	struct exec_session exec = { 0 };
	pid_t pid = before->pid;
	struct error *error = launch_adopt(before, &exec.launch);

	if (!error)
		process_names_exec(root, pid, before->comm, launch_proc(exec.launch)->comm);
	if (!error)
		proc_take_after(launch_proc(exec.launch), root->proc);
	if (!error)
		error = reserve_exec(root);
	if (!error)
		error = create_session(root, launch_proc(exec.launch), &exec.session);
	if (!error)
		error = begin(&exec);
	if (!error && !exec.session->sees_exec)
		tell_blind(root, launch_proc(exec.launch));
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
	free_exec(&exec);
}

/* ---- threads that call execve ---------------------------------------------------------------- */

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
		follow_program(call->root, proc);
	else if (!error && result == EXEC_GAINS)
		session_tell(
			call->root,
			"process %d: not traced: it executes a program with other rights (setuid)",
			proc->pid);
	pass_command_end(call->root, proc);
	call->root->follow->late += !error && result == EXEC_LATE;
	if (error || result == EXEC_LATE)
		session_tell(call->root, "process %d: executes a program that isn't traced: %s",
			     proc->pid, error ? error_text(error) : "it took too long");
}

static void release(struct dt_exec *exec)
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

/* Pairs with exec_ask in the agent. True: a thread had asked. */
static bool follow_look(struct session *root, struct dt_exec *exec)
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
	release(exec);
	return true;
}

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

/*
 * Counts of an exec session that is over become the parent's (F3): first everything that needs
 * memory is done, then the counts are added, which can't fail. Without memory the exec session
 * stays, with its counts, and the next look tries again.
 */
static bool prepare_exits(struct session *root, const struct session *exec)
{
	assert(exec->parent == root && exec->types == root->types); /* F1 */
	if (!exec->exits->unwound)
		return true;
	if (!root->exits->unwound)
		root->exits->unwound = calloc(DT_EVENTS_MAX, sizeof(*root->exits->unwound));
	if (!root->exits->inside)
		root->exits->inside = calloc(DT_EVENTS_MAX, sizeof(*root->exits->inside));
	return root->exits->unwound && root->exits->inside;
}

/* Adds the exec session's counts of exits to the parent's. */
static void fold_exits(struct session *root, const struct session *exec)
{
	for (size_t id = 0; exec->exits->unwound && id < root->types->count; id++) {
		root->exits->unwound[id] += exec->exits->unwound[id];
		root->exits->inside[id] += exec->exits->inside[id];
	}
}

static struct follow_row *find_row(const struct session *root, uint32_t id)
{
	for (size_t i = 0; i < root->follow->rows.count; i++) {
		if (root->follow->rows.items[i].id == id)
			return &root->follow->rows.items[i];
	}
	return NULL;
}

/* Has it counts, and not by key? */
static bool has_counts(const struct tracepoint *tracepoint)
{
	return tracepoint->count && tracepoint->has_type && !tracepoint->count->keys.capacity;
}

/* Makes what the rows keep counts in. */
static bool prepare_cells(struct session *root, const struct session *exec)
{
	for (size_t i = 0; i < exec->tracepoints.count; i++) {
		const struct tracepoint *tracepoint = exec->tracepoints.items[i];
		struct follow_row *row = has_counts(tracepoint) ?
						 find_row(root, tracepoint->probe.event.id) :
						 NULL;

		if (!row || row->counted)
			continue;
		row->has_times = tracepoint->count->cell.has_times;
		row->counted = calloc(1, row->has_times ? sizeof(*row->counted) :
							  offsetof(struct dt_cell, buckets));
		if (!row->counted)
			return false;
	}
	return true;
}

/* Adds the counts to those of the parent's tracepoint that has the same id. */
static void fold_shared(struct session *root, const struct session *exec,
			const struct tracepoint *tracepoint)
{
	struct dt_cell words = { 0 };

	counts_gather(&exec->count->counts, &tracepoint->count->cell, &words);
	/* of thousands most are never called: adding nothing would give their cells memory */
	if (!(words.hits | words.total | words.again | words.inside | words.max))
		return;
	for (size_t i = 0; i < root->tracepoints.count; i++) {
		const struct tracepoint *own = root->tracepoints.items[i];

		if (own->count && own->probe.event.id == tracepoint->probe.event.id)
			counts_add(&root->count->counts, &own->count->cell, &words);
	}
}

/* Adds what was counted in the exec session's processes to the parent's. */
static void fold_counts(struct session *root, const struct session *exec)
{
	for (size_t i = 0; i < exec->tracepoints.count; i++) {
		const struct tracepoint *tracepoint = exec->tracepoints.items[i];

		if (!has_counts(tracepoint))
			continue;
		const struct counts_cell *cell = &tracepoint->count->cell;
		struct follow_row *row = find_row(root, tracepoint->probe.event.id);

		if (row && row->has_times == cell->has_times)
			counts_gather(&exec->count->counts, cell, row->counted);
		else if (!row)
			fold_shared(root, exec, tracepoint);
	}
}

/* Keeps what was counted by key there. */
static struct error *fold_rows(struct session *root, const struct session *exec)
{
	_cleanup_(count_rows_free) struct count_rows rows = { 0 };
	struct error *error = count_rows_read(exec, false, &rows);

	if (error)
		return error;
	error = count_rows_add(&root->count->past, &rows);
	if (rows.rows.count)
		return error;
	error_free(error); /* all are there, if some of the same keys are apart */
	return NULL;
}

/* (F3) */
static struct error *fold(struct session *root, struct session *exec)
{
	exits_open_end(exec);
	if (!prepare_exits(root, exec) || !prepare_cells(root, exec))
		return error_new(ERROR_FAILED, "out of memory");
	struct error *error = fold_rows(root, exec);
	if (error)
		return error;
	fold_exits(root, exec);
	fold_counts(root, exec);
	return NULL;
}

static struct error *drop_exec(struct session *root, size_t index)
{
	struct follow *follow = root->follow;
	assert(index < follow->execs.count);
	struct exec_session exec = follow->execs.items[index];

	pass_command_end(root, exec.session->proc);
	struct error *error = fold(root, exec.session);
	if (error)
		return error;
	follow->execs.items[index] = follow->execs.items[--follow->execs.count];
	free_exec(&exec);
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
		tell_blind(root, root->proc);
	follow->blind = !root->sees_exec;
	/* one per step: the session's user has other work between steps */
	for (uint32_t i = 0; i < DT_EXECS_MAX; i++, follow->next_exec++) {
		if (follow_look(root, &root->agent->pool->execs[follow->next_exec % DT_EXECS_MAX]))
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
		pass_command_end(root, follow->execs.items[i].session->proc);
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
	free_exec(last);
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
		release(&root->agent->pool->execs[i]);
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
		free_exec(&root->follow->execs.items[i]);
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
		error = reserve_exec(root);
	if (!error)
		error = create_session(root, proc, &exec.session);
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
	free_exec(&exec);
	return error;
}

void follow_exec_enable(struct session *session)
{
	session_invite(session, &follower);
}
