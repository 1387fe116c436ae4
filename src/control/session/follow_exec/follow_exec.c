#include <fcntl.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "control/launch/exec_catch.h"
#include "control/launch/launch.h"
#include "control/proc/proc_status.h"
#include "control/exits/exits.h"
#include "follow_exec.h"
#include "control/session/processes/follow_state.h"
#include "control/session/session.h"
#include "control/session/detach.h"
#include "control/session/recording.h"

#define LOOK_NS 500000000ULL /* how often images are looked for that are over ... */
#define LATE_MAX 3 /* so often nothing is begun by who said so: nobody is believed any more */
#define LOOK_MAX 8 /* ... and how many at a time: each means a look at all processes */

static void tell(const struct session *session, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
static void tell(const struct session *session, const char *format, ...)
{
	_cleanup_free_ char *line = NULL;
	va_list args;

	va_start(args, format);
	if (vasprintf(&line, format, args) < 0)
		line = NULL;
	va_end(args);
	if (line && session->options.tell)
		session->options.tell(session->options.tell_context, line);
}

/* ---- an image in ----------------------------------------------------------------------------- */

static void free_program(struct exec_session *image)
{
	session_destroy(image->session);
	launch_free(image->launch);
}

/* A filter that it was started with is ours, too, and harmless so far; one of its own may kill
 * (H26). */
static struct error *check_filter(const struct proc *proc)
{
	struct thread_status theirs, ours;
	struct error *error = proc_status_read(proc->pid, proc->pid, &theirs);

	if (!error)
		error = proc_status_read(getpid(), getpid(), &ours);
	if (!error && theirs.seccomp != ours.seccomp)
		error = error_new(ERROR_REFUSED, "it filters its system calls (seccomp)");
	return error;
}

static struct error *create_image(struct session *root, struct proc *proc,
				  struct session **ret_image)
{
	struct session *image = NULL;
	struct error *error = session_create(proc, &root->options, &image);

	if (error)
		return error;
	image->parent = root;
	image->types = root->types;
	image->counters = root->counters;
	image->follow->first_type = root->types->count;
	for (size_t i = 0; i < root->requests.count && !error; i++)
		error = session_add(image, &root->requests.items[i]->spec, NULL);
	if (error)
		session_destroy(image);
	else
		*ret_image = image;
	return error;
}

/* To where its libraries are loaded; a static program with exits to its main. */
static struct error *resolve_image(struct exec_session *image)
{
	bool loaded = false;
	struct error *error = launch_run_to_loaded(image->launch, &loaded);

	if (!error)
		error = session_resolve(image->session);
	if (error || loaded)
		return error;
	taddr at = session_exits_from(image->session);
	return at.v ? launch_run_to(image->launch, at) : NULL;
}

static struct error *begin_image(struct exec_session *image)
{
	struct session_summary ignored = { 0 };
	struct proc *proc = launch_proc(image->launch);
	struct stop *stop = NULL;
	struct error *error = resolve_image(image);

	if (!error)
		error = stop_adopt(proc, proc->pid, &stop);
	if (error)
		return error;
	error = session_begin(image->session, stop);
	stop_disown(stop);
	if (error)
		error_free(detach_all(image->session, &ignored));
	return error;
}

/* The process is in the stop that reports its exec. */
static void follow_program(struct session *root, pid_t pid)
{
	struct exec_session image = { 0 };
	struct error *error = launch_adopt(pid, &image.launch);

	if (!error)
		error = check_filter(launch_proc(image.launch));
	if (!error)
		error = create_image(root, launch_proc(image.launch), &image.session);
	if (!error)
		error = begin_image(&image);
	if (!error && !image.session->sees_exec)
		tell(root,
		     "%s (%d): its execve can't be watched: programs that it begins aren't traced",
		     launch_proc(image.launch)->comm, pid);
	if (image.launch) {
		struct error *going = launch_go(image.launch);

		if (error)
			error_free(going);
		else
			error = going;
	}
	if (!error && vec_push(&root->follow->images, image))
		return;
	if (error && error_kind(error) != ERROR_GONE)
		tell(root, "%s (%d) isn't traced: %s",
		     image.launch ? launch_proc(image.launch)->comm : "a program", pid,
		     error_text(error));
	error_free(error);
	free_program(&image);
}

/* ---- who asks -------------------------------------------------------------------------------- */

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

/* The pool can be written by the target: only a process that has code of ours is followed. */
static bool is_ours(const struct session *root, struct proc *proc, pid_t tid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d", proc->pid, tid);
	if (access(path, F_OK))
		return false;
	if (session_has_code(root, proc))
		return true;
	for (size_t i = 0; i < root->follow->images.count; i++) {
		if (session_has_code(root->follow->images.items[i].session, proc))
			return true;
	}
	return false;
}

static void follow_call(struct call *call, struct proc *proc, pid_t tid)
{
	struct exec_watch watch = { .seized = let_go, .idle = keep_reading, .context = call };
	enum exec_result result = EXEC_LATE;
	_cleanup_error_ struct error *error = exec_catch(proc, tid, &watch, &result);

	if (proc->reaped && proc->pid == call->root->proc->pid) {
		call->root->proc->reaped = true; /* launch_poll tells */
		call->root->proc->reaped_status = proc->reaped_status;
	}
	if (!error && result == EXEC_BEGUN)
		follow_program(call->root, proc->pid);
	else if (!error && result == EXEC_GAINS)
		tell(call->root,
		     "process %d begins a program with other rights (setuid): it isn't traced",
		     proc->pid);
	call->root->follow->late += !error && result == EXEC_LATE;
	if (error || result == EXEC_LATE)
		tell(call->root, "process %d begins a program that isn't traced: %s", proc->pid,
		     error ? error_text(error) : "it took too long");
}

static void release(struct dt_exec *exec)
{
	__atomic_store_n(&exec->state, DT_EXEC_FREE, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &exec->state, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* Pairs with exec_ask in the agent. True: somebody had asked. */
static bool follow_look(struct session *root, struct dt_exec *exec)
{
	struct call call = { root, exec };
	struct proc *proc = NULL;

	if (__atomic_load_n(&exec->state, __ATOMIC_ACQUIRE) != DT_EXEC_ASKED)
		return false;
	pid_t pid = (pid_t)__atomic_load_n(&exec->pid, __ATOMIC_RELAXED);
	pid_t tid = (pid_t)__atomic_load_n(&exec->tid, __ATOMIC_RELAXED);
	_cleanup_error_ struct error *error =
		pid > 1 && tid > 1 ? proc_open_plain(pid, &proc) : NULL;
	if (root->follow->late < LATE_MAX && proc && is_ours(root, proc, tid))
		follow_call(&call, proc, tid);
	proc_close(proc);
	release(exec);
	return true;
}

/* ---- images that are over -------------------------------------------------------------------- */

static bool is_over(const struct session *image)
{
	struct tids pids = { 0 };

	if (proc_is_alive(image->proc) && session_has_code(image, image->proc))
		return false;
	_cleanup_error_ struct error *error = holders_find(image->agent, &pids);
	bool over = !error && !pids.count;
	vec_free(&pids);
	return over;
}

/* What its end has shown stays known. */
static struct error *fold_exits(struct session *root, const struct session *image)
{
	if (!image->exits->unwound)
		return NULL;
	if (!root->exits->unwound)
		root->exits->unwound = calloc(DT_EVENTS_MAX, sizeof(*root->exits->unwound));
	if (!root->exits->inside)
		root->exits->inside = calloc(DT_EVENTS_MAX, sizeof(*root->exits->inside));
	if (!root->exits->unwound || !root->exits->inside)
		return error_new(ERROR_FAILED, "out of memory");
	for (size_t id = 0; id < root->types->count; id++) {
		root->exits->unwound[id] += image->exits->unwound[id];
		root->exits->inside[id] += image->exits->inside[id];
	}
	return NULL;
}

static void drop_image(struct session *root, size_t index)
{
	struct exec_session image = root->follow->images.items[index];

	root->follow->images.items[index] = root->follow->images.items[--root->follow->images.count];
	error_free(fold_exits(root, image.session));
	free_program(&image);
}

static void drop_some(struct session *root)
{
	size_t looked = 0;

	for (size_t i = root->follow->images.count; i-- > 0 && looked < LOOK_MAX;) {
		const struct session *image = root->follow->images.items[i].session;

		if (proc_is_alive(image->proc) && session_has_code(image, image->proc))
			continue;
		looked++;
		if (is_over(image))
			drop_image(root, i);
	}
}

static void follow_step(struct session *root, uint64_t now_ns)
{
	struct follow *follow = root->follow;

	if (!root->options.follow_exec || root->parent)
		return;
	if (!root->sees_exec && !follow->blind)
		tell(root,
		     "%s (%d): its execve can't be watched: programs that it begins aren't traced",
		     root->proc->comm, root->proc->pid);
	follow->blind = !root->sees_exec;
	/* One at a time: whoever drives the session wants to hear of signals, too. */
	for (uint32_t i = 0; i < DT_EXECS_MAX; i++, follow->next_exec++) {
		if (follow_look(root, &root->agent->pool->execs[follow->next_exec % DT_EXECS_MAX]))
			break;
	}
	for (size_t i = 0; i < follow->images.count; i++) {
		exits_grow(follow->images.items[i].session, now_ns);
		exits_watch(follow->images.items[i].session, now_ns);
	}
	if (now_ns < follow->next_look)
		return;
	follow->next_look = now_ns + LOOK_NS;
	drop_some(root);
}

static void follow_modules_changed(struct session *root)
{
	for (size_t i = 0; i < root->follow->images.count; i++) {
		struct session *image = root->follow->images.items[i].session;

		image->follow->first_type = root->types->count;
		image->counters = root->counters;
		error_free(session_modules_changed(image)); /* what is gone is seen to elsewhere */
	}
}

static void follow_end(struct session *root, struct session_summary *summary)
{
	if (!root->options.follow_exec || !root->agent)
		return;
	for (uint32_t i = 0; i < DT_EXECS_MAX; i++)
		release(&root->agent->pool->execs[i]);
	while (root->follow->images.count) {
		error_free(detach_all(
			root->follow->images.items[root->follow->images.count - 1].session, summary));
		drop_image(root, root->follow->images.count - 1);
	}
	uint64_t missed = __atomic_load_n(&root->agent->pool->execs_missed, __ATOMIC_RELAXED);
	if (missed)
		tell(root,
		     "%llu programs began untraced, because dyntrace was too slow or system calls are filtered",
		     (unsigned long long)missed);
	for (size_t i = 0; i < root->follow->requests.count; i++) {
		const struct follow_request *request = &root->follow->requests.items[i];

		if (!request->found && request->missing)
			tell(root, "in no program: %s", error_text(request->missing));
	}
}

static void free_images(struct session *root)
{
	for (size_t i = 0; i < root->follow->images.count; i++)
		free_program(&root->follow->images.items[i]);
	vec_free(&root->follow->images);
}

static const struct session_guest follower = {
	.step = follow_step,
	.modules_changed = follow_modules_changed,
	.end = follow_end,
	.free = free_images,
};

void follow_exec_enable(struct session *session)
{
	session_invite(session, &follower);
}
