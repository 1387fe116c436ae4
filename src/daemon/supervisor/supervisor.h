/*
 * supervisor.h - the supervisor: one process, one thread, one loop (loop.h).
 *
 * It answers what it knows itself, and hands the rest to the worker of the target (target.h), whose
 * answers go back to the client. It never waits for anybody:
 *
 *	(D1) Every socket is non-blocking and has a bounded queue; a peer that doesn't read is
 *	     dropped.
 *	(D2) Of one peer at most one request is at work. The next isn't read before its answer was
 *	     taken.
 *	(D3) A request ends exactly once, when it has no open call. If its peer has gone, nobody is
 *	     told.
 *	(D4) The rights that count are those that the kernel gave for the socket when the peer
 *	     connected.
 *	(D5) Requests are sent again, to a new worker or by a new supervisor, only while the process
 *	     has the rights and runs the program that it had when they were allowed, and only if
 *	     their client may still ask for them (H33).
 *
 * Rules D6 and D11 are in users.h, rules D7 and D10 in targets/trace_keeper.h, rule D8 in
 * requests/owners.h, rules D9, D13 and D15 in targets/worker_calls.h, rule D14 in
 * targets/target_mode.h, rules D16 to D18 in daemon/profiles/profiles.h.
 *
 * Each file of this folder has a header of its own; here is what all of them share.
 */
#ifndef DYNTRACE_SUPERVISOR_H
#define DYNTRACE_SUPERVISOR_H

#include "control/base/vec.h"
#include "control/ctf/writer.h"
#include "daemon/base/loop.h"
#include "daemon/profiles/profiles.h"
#include "events.h"
#include "log_share.h"
#include "daemon/supervisor/requests/identity.h"
#include "users.h"

struct supervisor_options {
	const char *socket; /* absolute */
	const char *output; /* folder of the traces, absolute */
	const char *group; /* whose members may connect; NULL: the default, if it exists */
	uint64_t buffer_size;
	int mode; /* enum session_mode */
	struct writer_limits limits; /* of each trace */
	double overhead; /* the budget of each target, a share; 0: none */
	uint64_t snapshots_kept; /* of those that hits ask for; 0: the default */
	const char *profiles; /* folder of profiles, absolute */
	const char *metrics; /* file for Prometheus, absolute; NULL: none */
	bool own_only;
	bool all_targets;
	bool stopped; /* recording is off at first */
	bool daemonized;
	const char *log; /* NULL: stderr, or beside the socket if daemonized */
};

struct supervisor {
	struct supervisor_options options;
	pid_t metrics_pid; /* of the process that writes that file; 0: none */
	char *run_dir; /* PATH.d: the supervisor's own folder */
	struct identity self;
	bool has_group;
	gid_t group;
	struct loop loop;
	/* agents: any user's, for WIRE_REGISTER alone */
	struct loop_source listener, agents, signals;
	struct loop_timer sweep;
	VEC(struct peer *) peers;
	VEC(struct account *) users; /* with connections */
	struct users_limits limits;
	VEC(struct target *) targets;
	struct profiles profiles; /* as read at the start */
	VEC(struct waiting *) waiting;
	uint64_t last_waiting; /* number of the waiting tracepoint that was kept last */
	struct exec_events *execs; /* NULL: nothing has waited yet */
	struct failures failures;
	struct log_shares log_shares, failure_shares;
	bool recording;
	uint64_t end_at;
	bool ending; /* no new requests; over when the last target has been let go */
	int lock_fd;
	int asker; /* the process that reads filters (asker.h); -1: none yet */
};

/* Root, and the daemon's own user: limits leave room for them. */
bool supervisor_is_master(const struct supervisor *supervisor, uid_t uid);
struct error *supervisor_run(const struct supervisor_options *options);
/* Something has a time limit now. */
void supervisor_sweep_soon(struct supervisor *supervisor);
/* Ends the loop if the daemon is ending and has no target. */
void supervisor_end_if_idle(struct supervisor *supervisor);

#endif
