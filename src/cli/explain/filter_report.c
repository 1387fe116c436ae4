#include "filter_report.h"

#include "control/base/cleanup.h"
#include "control/fence/fence.h"
#include "control/stop/prejudge.h"
#include "control/stop/stop.h"
#include "options/commands.h"

/* By parts of dyntrace: what happens without them. */
static const struct {
	unsigned parts;
	const char *without;
} losses[] = {
	{ FENCE_HOME, "the process can't be traced" },
	{ FENCE_RECORD,
	  "dyntrace makes no system call in it, so most values behind pointers can't be read" },
	{ FENCE_SIGNAL, "no traps, and its handlers of faults may see addresses of dyntrace's" },
	{ FENCE_CONTROL,
	  "dyntrace suspends the filter of one stopped thread for that (not with --no-suspend)" },
	{ FENCE_READ, "some values behind pointers can't be read, and backtraces may end early" },
	{ FENCE_NAME, "names of threads can't be read" },
	{ FENCE_INFO, "a core dump may tell another sender of a signal, and code of dyntrace's" },
	{ FENCE_LIVE, "room of threads that ended is used again later" },
	{ FENCE_STACK, "strings and backtraces cost two system calls more" },
	{ FENCE_FRAME, "strings cost a system call each where the processor has AMX" },
	{ FENCE_WORK, "a thread that loads a library waits for dyntrace for 2 s at most" },
	{ FENCE_SHARE, "it can't share its trace with other processes" },
};

static void print(const struct fence *fence)
{
	cli_print("filter:      %zu seccomp filter%s, of %zu thread%s\n", fence->filters,
		  fence->filters == 1 ? "" : "s", fence->threads, fence->threads == 1 ? "" : "s");
	if (!fence_closed(fence))
		cli_print("             allows all that dyntrace needs\n");
	for (size_t i = 0; i < sizeof(losses) / sizeof(losses[0]); i++) {
		_cleanup_free_ char *what = fence_describe(fence, losses[i].parts);

		if (what)
			cli_print("             %s: %s\n", what, losses[i].without);
	}
}

struct error *filter_report(struct proc *proc)
{
	struct stop *stop = NULL;
	struct fence fence;

	if (!proc->filtered) {
		cli_print("filter:      none: dyntrace may make all its system calls\n");
		return NULL;
	}
	prejudge(proc);
	struct error *error = stop_all(proc, STOP_TIMEOUT_MS, &stop);
	if (error)
		return error;
	fence_begin(&fence);
	for (size_t i = 0; i < stop_thread_count(stop) && !error; i++)
		error = fence_add_thread(&fence, &proc->answers, stop_thread_tid(stop, i), true);
	stop_release(stop, NULL);
	if (!error)
		print(&fence);
	return error;
}
