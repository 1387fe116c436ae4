#include "verdict.h"

#include <assert.h>
#include <string.h>
#include <sys/syscall.h>

#include "answers.h"

/* With any arguments, from anywhere. */
static uint32_t restart_answer(const struct filters *filters)
{
	static const uint64_t none[6];
	struct bpf_call call = fence_call(SYS_restart_syscall, none, 0);

	call.unknown = BPF_UNKNOWN_RIP;
	for (unsigned i = 0; i < 6; i++)
		call.unknown |= BPF_UNKNOWN_ARG(i);
	return filters_answer(filters, &call);
}

/* Adds a thread; `verdict` gets the answer to restart_syscall. */
static struct error *add(struct fence *fence, struct answers *known,
			 struct verdict_thread *thread, struct fence_verdict *verdict)
{
	size_t threads = fence->threads;
	uint64_t judged = fence->judged;
	struct error *error = fence_add_thread(fence, known, thread->tid, true);

	thread->filters = fence->threads > threads ? (uint32_t)known->filters.count : 0;
	if (fence->judged == judged)
		return error;
	uint32_t restart = restart_answer(&known->filters);
	if (bpf_is_stricter(restart, verdict->restart))
		verdict->restart = restart;
	return error;
}

/* (E3) Names the threads with more filters than others. */
static struct error *list_threads(const struct verdict_thread *threads, size_t count,
				  struct fence_verdict *verdict)
{
	verdict->least = count ? threads[0].filters : 0;
	for (size_t i = 0; i < count; i++) {
		if (threads[i].filters < verdict->least)
			verdict->least = threads[i].filters;
		if (threads[i].filters > verdict->most)
			verdict->most = threads[i].filters;
	}
	for (size_t i = 0; i < count; i++) {
		if (threads[i].filters == verdict->least)
			continue;
		if (verdict->thread_count == VERDICT_THREADS_MAX)
			return error_new(ERROR_REFUSED,
					 "more than %u of its threads have filters of system calls "
					 "(seccomp) that others don't have: run 'dyntrace trace' as root",
					 VERDICT_THREADS_MAX);
		verdict->threads[verdict->thread_count++] = threads[i];
	}
	return NULL;
}

struct error *verdict_make(struct verdict_thread *threads, size_t count,
			   struct fence_verdict *ret_verdict)
{
	struct fence_verdict verdict = { .magic = VERDICT_MAGIC, .restart = SECCOMP_RET_ALLOW };
	struct answers known = { 0 };
	struct fence fence;
	struct error *error = NULL;

	fence_begin(&fence);
	for (size_t i = 0; i < count && !error; i++)
		error = add(&fence, &known, &threads[i], &verdict);
	if (!error)
		error = list_threads(threads, count, &verdict);
	assert(error || verdict.most == fence.filters); /* E3 */
	memcpy(verdict.answers, fence.answers, sizeof(verdict.answers));
	answers_free(&known);
	if (!error)
		*ret_verdict = verdict;
	return error;
}

/* The kernel counts filters since Linux 5.9: before, a thread with some has 0 by its count. */
bool verdict_holds_for_any(const struct fence_verdict *verdict, int mode, int filters)
{
	if (mode == 0)
		return verdict->least == 0;
	return mode == 2 && filters > 0 && (uint32_t)filters == verdict->least;
}

bool verdict_holds_for(const struct fence_verdict *verdict, const struct verdict_thread *thread)
{
	for (uint32_t i = 0; i < verdict->thread_count; i++) {
		const struct verdict_thread *judged = &verdict->threads[i];

		if (judged->tid == thread->tid && judged->start_time == thread->start_time)
			return judged->filters == thread->filters;
	}
	return false;
}

void verdict_fence(const struct fence_verdict *verdict, struct fence *ret_fence)
{
	fence_begin(ret_fence);
	if (!verdict->most)
		return;
	ret_fence->threads = 1;
	ret_fence->filters = verdict->most;
	memcpy(ret_fence->answers, verdict->answers, sizeof(verdict->answers));
}

uint32_t verdict_answer(const struct fence_verdict *verdict, long number, const uint64_t args[6])
{
	size_t row = fence_find_row(number, args);

	if (!verdict->most)
		return SECCOMP_RET_ALLOW;
	return row < fence_rows() ? verdict->answers[row] : SECCOMP_RET_KILL_PROCESS;
}
