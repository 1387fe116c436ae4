/*
 * fencing_later.c - filters that come while the target is traced.
 */
#include "control/base/cleanup.h"
#include "control/patch/patch.h"
#include "control/proc/judged.h"
#include "control/proc/proc_status.h"
#include "control/stop/prejudge.h"
#include "fencing_parts.h"
#include "own_probes.h"

#define AGAIN_NS 50000000u
#define TRIES_MAX 20u

taddr fencing_filtered_word(const struct session *session)
{
	return taddr_add(session->agent->state_at, offsetof(struct dt_state, inherited.filtered));
}

bool fencing_may_judge(const struct session *session)
{
	return filters_may_read() || session->proc->asker;
}

/* Has some process of the session taken up a filter, and may we judge it? */
static bool has_filters(const struct session *session)
{
	const struct agent *agent = session->agent;

	return agent && !session->found.items && !(agent->control->flags & DT_NO_SYSCALLS) &&
	       __atomic_load_n(&agent->pool->filtered, __ATOMIC_ACQUIRE) &&
	       fencing_may_judge(session);
}

static bool has_filtered_itself(const struct session *session)
{
	uint32_t filtered = 0;
	_cleanup_error_ struct error *gone = mem_read(session->proc, fencing_filtered_word(session),
						      &filtered, sizeof(filtered));

	return !gone && filtered;
}

struct error *fencing_find_passing(const struct session *session, struct proc *proc,
				   struct stop *stop, bool *ret_found)
{
	const struct agent *agent = session->agent;
	size_t count = 0, windows = agent->control->window_count;
	_cleanup_free_ struct patch_range *ranges =
		calloc(session->own_probes.count + windows + 1, sizeof(*ranges));

	if (!ranges)
		return error_new(ERROR_FAILED, "out of memory");
	ranges[count++] = (struct patch_range){ .start = agent->agent_at,
						.end = taddr_add(agent->agent_at, DT_AGENT_SIZE) };
	for (size_t i = 0; i < windows; i++) {
		const struct dt_window *window = &agent->control->windows[i];

		if (window->address)
			ranges[count++] = (struct patch_range){
				.start = taddr_of(window->address),
				.end = taddr_of(window->address + window->pages * DT_PAGE)
			};
	}
	for (size_t i = 0; i < session->own_probes.count; i++) {
		const struct probe *probe = session->own_probes.items[i];

		if (probe->event.watch_count && probe->place.symbol)
			ranges[count++] = (struct patch_range){
				.start = probe->place.address,
				.end = taddr_add(probe->place.address,
						 (int64_t)probe->place.symbol->size)
			};
	}
	return patch_find_threads(proc, stop, ranges, count, ret_found);
}

/* Unlike at the attach, no thread need have a filter: it may have been refused. */
struct error *fencing_judge_again(const struct session *session, struct proc *proc,
				  struct stop *stop, unsigned *ret_closed)
{
	struct error *error = NULL;
	struct fence fence;

	fence_begin(&fence);
	for (size_t i = 0; i < stop_thread_count(stop) && !error; i++) {
		struct thread_status status = { 0 };
		pid_t tid = stop_thread_tid(stop, i);

		if (!judged_is(proc))
			error = fence_add_thread(&fence, &proc->answers, tid, true);
		if (!error)
			error = proc_status_read(proc->pid, tid, &status);
		if (!error && status.seccomp == 1)
			error = error_new(ERROR_REFUSED, "a thread is in strict mode");
	}
	if (!error && judged_is(proc))
		error = fencing_add_judged(proc, stop, &fence);
	*ret_closed = fence_closed(&fence) | (fencing_is_dispatched(stop) ? FENCE_RECORD : 0);
	/* of many children it would be many lines */
	if (!error && proc == session->proc && !(*ret_closed & FENCE_RECORD))
		fencing_tell_parts(session, &fence, *ret_closed & (FENCE_READ | FENCE_NAME));
	return error;
}

bool fencing_is_judged(const struct proc *proc, const struct stop *stop)
{
	for (size_t i = 0; judged_is(proc) && i < stop_thread_count(stop); i++) {
		_cleanup_error_ struct error *error = judged_check(proc, stop_thread_tid(stop, i));

		if (error && error_kind(error) == ERROR_REFUSED)
			return false;
	}
	return true;
}

struct error *fencing_write(const struct session *session, struct proc *proc, unsigned closed)
{
	const uint32_t filtered = closed & FENCE_RECORD ? DT_FILTER_JUDGED : 0;
	const uint32_t flags = fencing_flags(session, closed);
	taddr at = taddr_add(session->agent->state_at, offsetof(struct dt_state, inherited.flags));
	struct error *error = filtered ? NULL : mem_write(proc, at, &flags, sizeof(flags));

	return error ? error :
		       mem_write(proc, fencing_filtered_word(session), &filtered, sizeof(filtered));
}

/* True: decided, one way or the other. */
static bool go_over(struct session *session, struct stop *stop)
{
	bool passing = false;
	unsigned closed = 0;
	struct error *error = fencing_find_passing(session, session->proc, stop, &passing);

	if (!error && (passing || !fencing_is_judged(session->proc, stop)))
		return false;
	if (!error)
		error = fencing_judge_again(session, session->proc, stop, &closed);
	if (error || closed & FENCE_RECORD) {
		session->fencing_tries = TRIES_MAX; /* no later filter allows more */
		closed = FENCE_RECORD;
	} else {
		__atomic_or_fetch(&session->agent->control->flags, fencing_flags(session, closed),
				  __ATOMIC_RELEASE);
		if (closed & FENCE_WORK)
			session->agent->control->controller = 0;
		session->fencing_tries = 0;
	}
	if (!error)
		error = fencing_write(session, session->proc, closed);
	error_free(error);
	return true;
}

void fencing_step(struct session *session, uint64_t now)
{
	_cleanup_(cleanup_stop) struct stop *stop = NULL;

	if (now < session->fencing_next || !has_filters(session))
		return;
	session->fencing_next = now + AGAIN_NS;
	fencing_look_at_children(session);
	if (session->fencing_tries >= TRIES_MAX || !has_filtered_itself(session))
		return;
	_cleanup_error_ struct error *error = judged_renew(session->proc);
	if (!error)
		prejudge(session->proc);
	if (!error)
		error = stop_all_or_quit(session->proc, STOP_TIMEOUT_MS, &stop);
	if (error || !go_over(session, stop))
		session->fencing_tries++;
}
