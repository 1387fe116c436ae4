/*
 * fencing.c
 *
 * The agent does without any call that a fence closes. Without the calls that every slow path
 * makes, or where a thread's system calls are dispatched to the thread itself, the agent makes none
 * at all (target/quiet.c): that is less than it could do, and the same in all such targets.
 */
#include "fencing.h"

#include <assert.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "control/fence/user_dispatch.h"
#include "control/patch/patch.h"
#include "control/proc/judged.h"
#include "control/proc/proc_status.h"
#include "own_probes.h"

#define AGAIN_NS 50000000u
#define TRIES_MAX 20u
#define QUIET                                                                                      \
	(FENCE_WORK | FENCE_READ | FENCE_LIVE | FENCE_NAME | FENCE_STACK | FENCE_SIGNAL |          \
	 FENCE_LINES | FENCE_RECORD)

bool fencing_may_be_ours(const struct session *session)
{
	return session->proc->inherits && !filters_may_read();
}

/* (E3) In our own stop: the filters are still those that were judged. */
static struct error *add_judged(const struct proc *proc, const struct stop *stop,
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
		return add_judged(session->proc, stop, fence);
	for (size_t i = 0; i < stop_thread_count(stop) && !error; i++)
		error = fence_add_thread(fence, stop_thread_tid(stop, i), session->proc->filtered);
	if (!error && session->proc->filtered && !fence->threads)
		error = fence_unreadable();
	return error ? error_wrap(error, "process %d (%s)", session->proc->pid,
				  session->proc->comm) :
		       NULL;
}

/* Does a held thread get its own system calls as signals? */
static bool is_dispatched(const struct stop *stop)
{
	struct user_dispatch dispatch;

	for (size_t i = 0; i < stop_thread_count(stop); i++) {
		if (user_dispatch_read(stop_thread_tid(stop, i), &dispatch))
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

static void tell_missing(const struct session *session, const struct fence *fence, unsigned part,
			 const char *missing)
{
	_cleanup_free_ char *what = fence_describe(fence, part);

	if (what)
		session_tell(session, "%s: its filter %s: %s", session->proc->comm, what, missing);
}

/* Tells which wishes of the user's a target without any call of the agent's can't have. */
static void tell_quiet(const struct session *session, const struct fence *fence)
{
	const struct session_options *options = &session->options;
	const char *comm = session->proc->comm;
	_cleanup_free_ char *what = fence_describe(fence, FENCE_RECORD);

	session_tell(session,
		     "%s: %s%s: dyntrace makes no system call in it, so most values behind pointers "
		     "can't be read, backtraces end early and names of threads are unknown",
		     comm, what ? "its filter " : "it handles its own system calls",
		     what ? what : "");
	if (options->mode == SESSION_BLOCK)
		session_tell(session, "%s: its threads can't wait for room: events are lost instead",
			     comm);
	if (options->follow_exec)
		session_tell(session, "%s: programs that it begins aren't followed", comm);
}

static void tell_parts(const struct session *session, const struct fence *fence, unsigned closed)
{
	if (closed & FENCE_RECORD) {
		tell_quiet(session, fence);
		return;
	}
	tell_missing(session, fence, FENCE_READ,
		     "most values behind pointers can't be read, and backtraces end early");
	tell_missing(session, fence, FENCE_NAME, "names of threads can't be read");
	tell_missing(session, fence, FENCE_SIGNAL,
		     "its handlers of faults may see addresses of dyntrace's");
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

/* For those who ask for lines at the hit (tracers/sync): nobody else is told. */
static void note_lines(struct session *session, const struct fence *fence)
{
	_cleanup_free_ char *what = fence_describe(fence, FENCE_LINES | FENCE_RECORD);

	snprintf(session->no_lines, sizeof(session->no_lines), "%s", what ? what : "");
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
	if (is_dispatched(stop))
		closed |= FENCE_RECORD;
	if (closed & FENCE_RECORD)
		closed |= QUIET;
	if (!error && tell)
		tell_parts(session, &fence, closed);
	note_lines(session, &fence);
	if (!error)
		*ret_closed = closed;
	fence_end(&fence);
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
	fence_end(&fence);
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

/* ---- the control page ------------------------------------------------------------------------ */

static bool has_glibc(const struct session *session)
{
	for (size_t i = 0; i < session->modules.count; i++) {
		if (!strcmp(session->modules.items[i]->name, "libc.so.6"))
			return true;
	}
	return false;
}

uint32_t fencing_flags(const struct session *session, unsigned closed)
{
	return (closed & FENCE_READ ? DT_NO_READ : 0) | (closed & FENCE_LIVE ? DT_NO_LIVE : 0) |
	       (closed & FENCE_NAME ? DT_NO_NAME : 0) |
	       (closed & FENCE_STACK ? DT_NO_ALTSTACK : 0) |
	       (closed & FENCE_LINES ? DT_NO_LINES : 0) |
	       (closed & FENCE_RECORD ? DT_NO_SYSCALLS : 0) |
	       (has_glibc(session) ? DT_GLIBC : 0);
}

/* Where a thread block of glibc's or musl's has the tid; 0: nowhere. */
static uint32_t find_tid(const struct session *session, uint64_t block, uint32_t tid)
{
	static const uint32_t offsets[] = { 0x2d0, 0x30, 0x38 };
	uint64_t self = 0;
	uint32_t word = 0;

	for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
		_cleanup_error_ struct error *unreadable =
			mem_read(session->proc, taddr_of(block), &self, sizeof(self));
		if (!unreadable)
			unreadable = mem_read(session->proc, taddr_of(block + offsets[i]), &word,
					      sizeof(word));
		if (!unreadable && self == block && word == tid)
			return offsets[i];
	}
	return 0;
}

uint32_t fencing_tid_offset(const struct session *session, const struct stop *stop)
{
	uint32_t found = 0;

	for (size_t i = 0; i < stop_thread_count(stop); i++) {
		struct thread_status status;
		pid_t tid = stop_thread_tid(stop, i);
		uint64_t block = stop_thread_block(stop, i);
		_cleanup_error_ struct error *ended =
			proc_status_read(session->proc->pid, tid, &status);

		if (ended || !block)
			continue;
		uint32_t offset = find_tid(session, block, (uint32_t)status.inner_tid);
		if (!offset || (found && found != offset))
			return 0;
		found = offset;
	}
	return found;
}

/* ---- filters that come later ----------------------------------------------------------------- */

/* The state's word that says so: of the target itself, not of its children. */
static taddr filtered_word(const struct session *session)
{
	return taddr_add(session->agent->state_at, offsetof(struct dt_state, filtered));
}

static bool has_filtered_itself(const struct session *session)
{
	const struct agent *agent = session->agent;
	uint32_t filtered = 0;

	if (!agent || session->found.items || agent->control->flags & DT_NO_SYSCALLS ||
	    !__atomic_load_n(&agent->pool->filtered, __ATOMIC_ACQUIRE) ||
	    !(filters_may_read() || session->proc->asker))
		return false;
	_cleanup_error_ struct error *gone = mem_read(session->proc, filtered_word(session),
						      &filtered, sizeof(filtered));
	return !gone && filtered;
}

/* Is a thread in a watched function, so that its filter may still come? */
static struct error *find_passing(const struct session *session, struct stop *stop,
				  bool *ret_found)
{
	const struct agent *agent = session->agent;
	size_t count = 0, windows = agent->control->window_count;
	_cleanup_free_ struct patch_range *ranges =
		calloc(session->own_probes.count + windows + 1, sizeof(*ranges));

	if (!ranges)
		return error_new(ERROR_FAILED, "out of memory");
	ranges[count++] = (struct patch_range){ agent->agent_at,
						taddr_add(agent->agent_at, DT_AGENT_SIZE) };
	for (size_t i = 0; i < windows; i++) {
		const struct dt_window *window = &agent->control->windows[i];

		if (window->address)
			ranges[count++] = (struct patch_range){
				taddr_of(window->address),
				taddr_of(window->address + window->pages * DT_PAGE)
			};
	}
	for (size_t i = 0; i < session->own_probes.count; i++) {
		const struct probe *probe = session->own_probes.items[i];

		if (probe->event.watch_count && probe->place.symbol)
			ranges[count++] = (struct patch_range){
				probe->place.address,
				taddr_add(probe->place.address,
					  (int64_t)probe->place.symbol->size)
			};
	}
	return patch_find_threads(session->proc, stop, ranges, count, ret_found);
}

/* Unlike at the attach, no thread need have a filter: it may have been refused. */
static struct error *judge_again(const struct session *session, struct stop *stop,
				 unsigned *ret_closed)
{
	struct error *error = NULL;
	struct fence fence;

	fence_begin(&fence);
	for (size_t i = 0; i < stop_thread_count(stop) && !error; i++) {
		struct thread_status status = { 0 };
		pid_t tid = stop_thread_tid(stop, i);

		if (!judged_is(session->proc))
			error = fence_add_thread(&fence, tid, true);
		if (!error)
			error = proc_status_read(session->proc->pid, tid, &status);
		if (!error && status.seccomp == 1)
			error = error_new(ERROR_REFUSED, "a thread is in strict mode");
	}
	if (!error && judged_is(session->proc))
		error = add_judged(session->proc, stop, &fence);
	*ret_closed = fence_closed(&fence) | (is_dispatched(stop) ? FENCE_RECORD : 0);
	if (!error && !(*ret_closed & FENCE_RECORD))
		tell_parts(session, &fence, *ret_closed & (FENCE_READ | FENCE_NAME));
	fence_end(&fence);
	return error;
}

/* False: a filter came between the asker's stop and this one. */
static bool is_judged(const struct proc *proc, const struct stop *stop)
{
	for (size_t i = 0; judged_is(proc) && i < stop_thread_count(stop); i++) {
		_cleanup_error_ struct error *error = judged_check(proc, stop_thread_tid(stop, i));

		if (error && error_kind(error) == ERROR_REFUSED)
			return false;
	}
	return true;
}

/* True: decided, one way or the other. */
static bool go_over(struct session *session, struct stop *stop)
{
	const uint32_t loud = 0;
	bool passing = false;
	unsigned closed = 0;
	struct error *error = find_passing(session, stop, &passing);

	if (!error && (passing || !is_judged(session->proc, stop)))
		return false;
	if (!error)
		error = judge_again(session, stop, &closed);
	if (!error && !(closed & FENCE_RECORD)) {
		__atomic_or_fetch(&session->agent->control->flags, fencing_flags(session, closed),
				  __ATOMIC_RELEASE);
		if (closed & FENCE_WORK)
			session->agent->control->controller = 0;
		error = mem_write(session->proc, filtered_word(session), &loud, sizeof(loud));
		session->fencing_tries = 0;
	} else {
		session->fencing_tries = TRIES_MAX; /* no later filter allows more */
	}
	error_free(error);
	return true;
}

void fencing_step(struct session *session, uint64_t now)
{
	_cleanup_(cleanup_stop) struct stop *stop = NULL;

	if (now < session->fencing_next || session->fencing_tries >= TRIES_MAX ||
	    !has_filtered_itself(session))
		return;
	session->fencing_next = now + AGAIN_NS;
	_cleanup_error_ struct error *error = judged_renew(session->proc);
	if (!error)
		error = stop_all_or_quit(session->proc, STOP_TIMEOUT_MS, &stop);
	if (error || !go_over(session, stop))
		session->fencing_tries++;
}
