/*
 * takeover.h - what a controller that was killed has left in a process.
 *
 * The process runs on with its probes and the agent; events fill its buffers. Nobody but the dead
 * controller could write the code memory (H25), so it isn't used again: the bytes of the sites are
 * put back, what the buffers hold goes to the dead controller's trace, and everything is unmapped.
 * Who wants to trace the process begins afresh.
 *
 * Nothing that is found there is believed (H24): sites are restored only to what the file on disk
 * holds, memory is unmapped only where the kernel says that it is ours, and a trace is only written
 * if it is the caller's own.
 */
#ifndef DYNTRACE_TAKEOVER_H
#define DYNTRACE_TAKEOVER_H

#include "control/ctf/writer.h"
#include "control/proc/proc.h"

struct session;

struct takeover {
	bool found; /* there was something; false: nothing was done */
	/* it was killed before the first probe was in, or after the last was out: there were no
	 * events */
	bool half;
	size_t sites;
	uint64_t events; /* saved */
	char trace[4096]; /* where; "" if none could be */
	char unsaved[512]; /* why not */
	/* there was one: of tracers without events nothing can be saved, and nothing is lost */
	bool has_trace;
	struct writer_part part; /* the last of that trace */
	bool left; /* something had to stay: `why` */
	char why[256];
};

#define TAKEOVER_TEXT 5120
/* What was found and done, in one line. */
void takeover_describe(const struct proc *proc, const struct takeover *takeover,
		       char text[TAKEOVER_TEXT]);

/* Cleans up. A process whose controller is alive is refused, with its pid. */
struct error *takeover_clean(struct proc *proc, struct takeover *ret_takeover);

/*
 * old_probes.c: the session, which hasn't begun, goes on where the dead controller's ended, with the
 * same trace: `dir`, which is that trace's directory, borrowed until the session is destroyed;
 * NULL: it isn't known, and a new trace is begun. Where it can be done, and what was there
 * `comes_back`, the old probes stay until new ones take their place, each in the stop in which that
 * happens, so that every hit is recorded once, by the old or by the new one; *ret_waits is true
 * then, and takeover_settle ends it, when all that was to be placed again has been. Else they are
 * taken out now, and what is hit until the new ones are in isn't recorded.
 */
struct error *takeover_inherit(struct session *session, struct trace_dir *dir, bool comes_back,
			       struct takeover *ret_takeover, bool *ret_waits);
struct error *takeover_settle(struct session *session, struct takeover *ret_takeover);
/* Everything was placed again: counts in the target go on from where the old ones ended. */
void takeover_give_counts(struct session *session);
bool takeover_waits(const struct session *session);

#endif
