/*
 * remote_choose.c - choose the held thread that is borrowed.
 */
#include <signal.h>

#include "control/base/cleanup.h"
#include "control/proc/proc_status.h"
#include "control/stop/fitness.h"
#include "remote_state.h"

enum { CHOICE_DISPATCHED = 1, CHOICE_TRAPPED = 2, CHOICES = 4 }; /* the worst last */

/* Chooses by these mappings. *ret_top 0: no thread is fit. (H10) A thread that has run into a trap
 * comes last: if the controller were killed just when the registers are ours and the mask isn't
 * yet, or no longer, the trap's handler would find our registers. */
static struct error *choose_by(struct remote *remote, const struct maps *maps, uint64_t *ret_top,
			       struct thread_status *ret_status)
{
	struct stop *stop = remote->stop;
	struct error *err = syscall_gadget_find(stop->proc, maps, &remote->gadgets);

	for (size_t n = 0; !err && n < CHOICES * stop->threads.count; n++) {
		size_t i = n % stop->threads.count, choice = n / stop->threads.count;
		bool trapped = choice & CHOICE_TRAPPED;

		if (remote_dispatch_is_on(remote, i) != (choice & CHOICE_DISPATCHED) ||
		    !fitness_check(stop, i, maps, ret_top))
			continue;
		remote->index = i;
		err = proc_status_read(stop->proc->pid, remote_thread(remote), ret_status);
		if (err || !(ret_status->pending & 1ULL << (SIGTRAP - 1)) == !trapped)
			return err;
	}
	*ret_top = 0;
	return err;
}

/* Has the thread its thread block still? Then its stack, by which it was chosen, is the one that
 * was there before the stop. (The code was compared again.) */
static bool has_block(const struct remote *remote)
{
	uint64_t block = remote->stop->threads.items[remote->index].regs.fs_base, self = 0;
	_cleanup_error_ struct error *unreadable =
		mem_read(remote->stop->proc, taddr_of(block), &self, sizeof(self));

	return !unreadable && self == block;
}

struct error *remote_choose(struct remote *remote, uint64_t *ret_top,
			    struct thread_status *ret_status)
{
	const struct proc *proc = remote->stop->proc;
	_cleanup_(maps_free) struct maps maps = { 0 };
	struct error *err = NULL;

	/* the list of all mappings takes longer to read than all else here, with threads held */
	if (proc->maps_before) {
		err = choose_by(remote, proc->maps_before, ret_top, ret_status);
		if (!err && *ret_top && has_block(remote))
			return NULL;
		error_free(err);
	}
	err = maps_read(proc, &maps);
	if (!err)
		err = choose_by(remote, &maps, ret_top, ret_status);
	if (!err && !*ret_top)
		err = error_new(ERROR_UNFIT,
				"no held thread of process %d can be borrowed for a system call",
				proc->pid);
	return err;
}
