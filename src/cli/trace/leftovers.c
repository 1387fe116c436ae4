#include "leftovers.h"

#include "options/commands.h"

void leftovers_tell(const struct proc *proc, const struct takeover *takeover)
{
	unsigned long long events = takeover->events;

	if (!takeover->found)
		return;
	if (takeover->half) {
		cli_note(
			"process %d (%s) had memory of a dyntrace that was killed, and no probes: cleaned up",
			proc->pid, proc->comm);
		return;
	}
	cli_note("process %d (%s) had %zu probe%s of a dyntrace that was killed: cleaned up",
		 proc->pid, proc->comm, takeover->sites, takeover->sites == 1 ? "" : "s");
	if (takeover->trace[0])
		cli_note("%llu events that it had not written yet are saved in %s", events,
			 takeover->trace);
	else
		cli_note("events that it had not written yet could not be saved: %s",
			 takeover->unsaved);
}
