#include "verdict.h"

#include <assert.h>
#include <string.h>
#include <sys/syscall.h>

/* Adds a thread, which must have the filters of the first one, or none as the first one. */
static struct error *add_same(struct fence *fence, pid_t tid, bool first)
{
	struct filters filters;
	enum filters_found found = filters_read(tid, &filters);
	bool same = first || filters_equal(&filters, &fence->last);

	filters_free(&filters);
	if (found == FILTERS_UNREADABLE)
		return fence_unreadable();
	if (!same)
		return error_new(ERROR_REFUSED,
				 "its threads have different filters of system calls (seccomp): run "
				 "'dyntrace trace' as root");
	return fence_add_thread(fence, tid, true);
}

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

struct error *verdict_make(const pid_t *tids, size_t count, struct fence_verdict *ret_verdict)
{
	struct fence_verdict verdict = { .magic = VERDICT_MAGIC };
	struct fence fence;
	struct error *error = NULL;

	fence_begin(&fence);
	for (size_t i = 0; i < count && !error; i++)
		error = add_same(&fence, tids[i], i == 0);
	assert(error || !fence.threads || fence.threads == count); /* E3 */
	verdict.filters = (uint32_t)fence.filters;
	memcpy(verdict.answers, fence.answers, sizeof(verdict.answers));
	verdict.restart = restart_answer(&fence.last);
	fence_end(&fence);
	if (!error)
		*ret_verdict = verdict;
	return error;
}

/* The kernel counts filters since Linux 5.9: before, a thread with some has 0 by its count. */
bool verdict_holds(const struct fence_verdict *verdict, int mode, int filters)
{
	if (mode == 0)
		return verdict->filters == 0;
	return mode == 2 && filters > 0 && (uint32_t)filters == verdict->filters;
}

void verdict_fence(const struct fence_verdict *verdict, struct fence *ret_fence)
{
	fence_begin(ret_fence);
	if (!verdict->filters)
		return;
	ret_fence->threads = 1;
	ret_fence->filters = verdict->filters;
	memcpy(ret_fence->answers, verdict->answers, sizeof(verdict->answers));
}

uint32_t verdict_answer(const struct fence_verdict *verdict, long number, const uint64_t args[6])
{
	size_t row = fence_find_row(number, args);

	if (!verdict->filters)
		return SECCOMP_RET_ALLOW;
	return row < fence_rows() ? verdict->answers[row] : SECCOMP_RET_KILL_PROCESS;
}
