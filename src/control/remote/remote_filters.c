/*
 * remote_filters.c - what the seccomp filters of the borrowed thread say to our calls (H26).
 */
#include <sys/syscall.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "control/fence/fence.h"
#include "control/proc/judged.h"
#include "control/proc/proc_status.h"
#include "remote_state.h"

static struct error *refuse(const struct remote *remote, long number, uint32_t answer)
{
	char text[FILTERS_TEXT_SIZE];

	return error_new(ERROR_REFUSED, "process %d (%s): its filter %s for %s",
			 remote->stop->proc->pid, remote->stop->proc->comm,
			 filters_text(answer, text), fence_call_name(number));
}

/* (E4) The answers of the borrowed thread's filters. NULL: its filters can't be read. */
static struct answers *read_answers(struct remote *remote)
{
	struct answers *answers = &remote->stop->proc->answers;

	if (remote->generation && remote->generation == answers->generation)
		return answers;
	if (answers_read(answers, remote_thread(remote)) != FILTERS_READ)
		return NULL;
	remote->generation = answers->generation;
	return answers;
}

/* The `syscall` instruction's address, plus its length, is what a filter sees. */
static uint32_t ask(struct remote *remote, long number, const uint64_t args[6], taddr from)
{
	const struct proc *proc = remote->stop->proc;
	struct bpf_call call = fence_call(number, args, from.v + 2);

	if (judged_is(proc))
		return verdict_answer(&proc->verdict, number, args);
	struct answers *answers = read_answers(remote);
	if (!answers)
		return SECCOMP_RET_KILL_PROCESS;
	return answers_allow(answers, number, args) ? SECCOMP_RET_ALLOW :
						      filters_answer(&answers->filters, &call);
}

struct error *remote_filters_check(struct remote *remote, long number, const uint64_t args[6],
				   taddr from)
{
	uint32_t answer = ask(remote, number, args, from);

	return filters_is_allowed(answer) ? NULL : refuse(remote, number, answer);
}

bool remote_filters_allow(struct remote *remote, long number, const uint64_t args[6], taddr from,
			  bool open)
{
	if (!remote->filtered)
		return true;
	if (!open || judged_is(remote->stop->proc)) /* a verdict is one for all descriptors */
		return filters_is_allowed(ask(remote, number, args, from));
	struct answers *answers = read_answers(remote);
	return answers && answers_allow(answers, number, args);
}

/* Goes home by rt_sigreturn if the controller is killed (H14): not where that kills. */
static struct error *check_way_home(const struct remote *remote)
{
	static const uint64_t none[6];
	struct proc *proc = remote->stop->proc;
	size_t row = fence_find_row(SYS_rt_sigreturn, none);
	uint32_t answer = judged_is(proc) ?
				  verdict_answer(&proc->verdict, SYS_rt_sigreturn, none) :
				  answers_ask(&proc->answers, row);

	return filters_is_allowed(answer) ? NULL : refuse(remote, SYS_rt_sigreturn, answer);
}

bool remote_filters_may_suspend(const struct remote *remote)
{
	const struct proc *proc = remote->stop->proc;

	return proc->may_suspend && remote->gadgets.restorer.v &&
	       remote_thread(remote) != proc->held_tid;
}

/* A command that we started inherits our filters: they allow it what they allow us. */
static bool has_our_filters(const struct proc *proc, const struct thread_status *theirs)
{
	struct thread_status ours;

	if (!proc->inherits)
		return false;
	_cleanup_error_ struct error *err = proc_status_read(getpid(), getpid(), &ours);
	return !err && ours.seccomp == theirs->seccomp && ours.filters == theirs->filters;
}

struct error *remote_filters_read(struct remote *remote, const struct thread_status *status)
{
	const struct proc *proc = remote->stop->proc;

	if (!status->seccomp || has_our_filters(proc, status))
		return NULL;
	remote->filtered = true;
	if (judged_is(proc)) {
		struct error *err = judged_check(proc, remote_thread(remote));

		return err ? err : check_way_home(remote);
	}
	if (status->seccomp != 2 || !read_answers(remote))
		return error_wrap(fence_unreadable(), "process %d (%s)", proc->pid, proc->comm);
	return check_way_home(remote);
}
