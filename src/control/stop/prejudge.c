#include "prejudge.h"

#include "control/base/cleanup.h"
#include "control/proc/judged.h"
#include "stop.h"

#define PREJUDGE_MS 20u

void prejudge(struct proc *proc)
{
	struct stop *stop = NULL;

	if (judged_is(proc) || proc->held_tid || !filters_may_read())
		return;
	_cleanup_error_ struct error *failed = stop_one_or_quit(proc, PREJUDGE_MS, &stop);
	if (!failed)
		answers_read(&proc->answers, stop_thread_tid(stop, 0));
	stop_release(stop, NULL);
	answers_ask_all(&proc->answers);
}
