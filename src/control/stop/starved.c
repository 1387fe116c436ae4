/*
 * starved.c
 *
 * A thread stops at its next step, and needs a processor for that. A machine with much else to do,
 * or a container's quota of processor time, may give it none for seconds. Such a thread isn't
 * stuck. Only the time for which it has run tells: a thread that is busy in a long system call is
 * ready to run as well.
 */
#include "starved.h"

#include "control/base/cleanup.h"
#include "control/proc/proc_status.h"
#include "stop_parts.h"

#define NS_PER_US 1000u

void starved_note(struct held *held)
{
	if (!held->is_timed)
		held->is_timed = proc_status_read_ran(held->tid, held->tid, &held->ran_ns);
}

bool starved_is(const struct held *held, uint64_t us)
{
	struct thread_stat stat;
	uint64_t ran_ns = 0;

	if (held->state != HELD_SEIZED || !held->is_timed ||
	    !proc_status_read_ran(held->tid, held->tid, &ran_ns))
		return false;
	_cleanup_error_ struct error *gone = proc_status_read_stat(held->tid, held->tid, &stat);
	return !gone && stat.state == 'R' && ran_ns - held->ran_ns < us * NS_PER_US / 2;
}

struct error *starved_wait(struct stop *stop, pid_t tid, uint64_t deadline_us)
{
	size_t index = 0;
	struct error *err = NULL;

	while (index < stop->threads.count && stop->threads.items[index].tid != tid)
		index++;
	for (unsigned round = 0; !err && index < stop->threads.count; round++) {
		err = held_look(stop, index);
		if (stop->threads.items[index].state != HELD_SEIZED ||
		    held_now_us() > deadline_us || stop_is_quit(stop))
			break;
		held_block(tid, round);
	}
	return err;
}
