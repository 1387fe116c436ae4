/*
 * takeover.h - clean up, or continue, what a killed controller left in a process.
 *
 * The process runs on with the probes and the agent, and events fill its buffers. Only the dead
 * controller could write the code memory (H25), so it can't be used again: the bytes of the sites
 * are restored, the events in the buffers go to the dead controller's trace, and everything is
 * unmapped. New tracepoints begin with a new agent.
 *
 * Nothing found in the process is trusted (H24): sites are restored only to the bytes of the file
 * on disk, memory is unmapped only where the kernel says that it is ours, and a trace is only
 * written if it is the caller's own.
 */
#ifndef DYNTRACE_TAKEOVER_H
#define DYNTRACE_TAKEOVER_H

#include "control/ctf/writer.h"
#include "control/proc/proc.h"

struct session;

struct takeover {
	bool found; /* false: the process was clean, nothing was done */
	/* the controller was killed before its first probe was placed, or after its last one was
	 * removed: no events */
	bool half;
	bool ended; /* the controller wasn't killed: it ended, and had to leave its probes, off */
	size_t sites;
	uint64_t events; /* saved events */
	uint64_t unwritten; /* events that were read, but that no file took */
	char trace[4096]; /* where events were saved; "": none could be */
	char unsaved[512]; /* why not all of them; "": they were */
	bool has_trace; /* false: its tracers recorded no events, so none are lost */
	struct writer_part part; /* the last part of that trace */
	bool left; /* code of ours stays in the process: `why` */
	char why[256];
};

#define TAKEOVER_TEXT 5120
/* Describes what was found and done, in one line. */
void takeover_describe(const struct proc *proc, const struct takeover *takeover,
		       char text[TAKEOVER_TEXT]);

/* The pid of the controller that traces the process itself, and not one that it was forked from; 0:
 * none is found. *ret_daemon: it is one of a daemon's. */
pid_t takeover_controller(struct proc *proc, bool *ret_daemon);

/* Cleans up. Refuses a process whose controller is alive, and names its pid. */
struct error *takeover_clean(struct proc *proc, struct takeover *ret_takeover);

/*
 * old_probes.c: lets a session that hasn't begun continue the dead controller's trace. `dir`: that
 * trace's directory, borrowed until the session is destroyed; NULL: unknown, a new trace is made.
 * `comes_back`: the same tracepoints will be placed again. Then the old probes stay, where
 * possible, until new ones replace them, each in one stop, so that every hit is recorded once;
 * *ret_waits is true, and takeover_settle ends the takeover when all tracepoints are placed again.
 * Otherwise the old probes are removed now, and hits before the new ones are placed aren't
 * recorded.
 */
struct error *takeover_inherit(struct session *session, struct trace_dir *dir, bool comes_back,
			       struct takeover *ret_takeover, bool *ret_waits);
struct error *takeover_settle(struct session *session, struct takeover *ret_takeover);
/* After everything was placed again: adds the dead controller's counts to the new ones. */
void takeover_give_counts(struct session *session);
/* Does the session still have old probes to replace? */
bool takeover_waits(const struct session *session);

#endif
