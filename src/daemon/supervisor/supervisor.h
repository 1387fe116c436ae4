/*
 * supervisor.h - what the files of the supervisor share.
 *
 * One process, one thread, one loop (loop.h). It answers what it knows itself, and hands the rest
 * on to the worker of the target (struct target), whose answers go back to who asked. It never
 * waits for anybody:
 *
 *	(D1) every socket is non-blocking, with a bounded queue; who doesn't read is dropped.
 *	(D2) of one peer at most one request is at work; the next isn't read before its answer was taken.
 *	(D3) a request ends exactly once, when none of its calls is left; if its peer has gone, nobody is told.
 *	(D4) whose rights count is what the kernel said of the socket when the peer connected.
 */
#ifndef DYNTRACE_SUPERVISOR_H
#define DYNTRACE_SUPERVISOR_H

#include "control/base/vec.h"
#include "control/wire/channel.h"
#include "control/proc/proc.h"
#include "identity.h"
#include "daemon/keeper/keeper.h"
#include "daemon/base/loop.h"

#define PEERS_MAX 4096
#define PEERS_OF_USER_MAX 2048
#define AGENTS_OF_USER_MAX 128 /* connections */
#define REGISTERED_OF_USER_MAX 256 /* processes */
#define PEER_QUEUE_MAX (64u << 20) /* one answer: a list of all tracepoints of all targets */
#define WATCHER_QUEUE_MAX (1u << 20)
#define WORKER_QUEUE_MAX (16u << 20)
#define TARGETS_MAX 1024
#define TRACEPOINTS_MAX 65536 /* of one target */
#define WAITING_MAX 1024
#define CALL_SECONDS 120 /* a worker that takes longer is stuck */
#define QUICK_SECONDS 15 /* clients don't wait longer than this for what should be quick */
#define HALF_MESSAGE_SECONDS 30 /* how long a peer may take for one */

struct supervisor_options {
	const char *socket; /* absolute */
	const char *output; /* where traces go, absolute */
	const char *group; /* who may connect; NULL: the default, if there is one */
	uint64_t buffer_size;
	int mode; /* enum session_mode */
	bool own_only;
	bool all_targets;
	bool stopped; /* recording is off at first */
	bool daemonized;
	const char *log; /* NULL: stderr, or beside the socket if daemonized */
};

/* A recording that couldn't go on, for who asks later. */
#define FAILURES_KEPT 64
struct failure {
	pid_t pid; /* 0: none */
	uint64_t start_time; /* of the process */
	char text[256];
};

struct supervisor {
	struct supervisor_options options;
	char *run_dir;
	struct identity self;
	bool has_group;
	gid_t group;
	struct loop loop;
	/* agents: any user's, for WIRE_REGISTER alone */
	struct loop_source listener, agents, signals;
	struct loop_timer sweep;
	VEC(struct peer *) peers;
	VEC(struct target *) targets;
	VEC(struct waiting *) waiting;
	uint64_t last_waiting; /* number of the last that was kept */
	struct exec_events *execs;
	struct failure failures[FAILURES_KEPT];
	size_t failure_count; /* that there ever were */
	bool recording;
	uint64_t end_at;
	bool ending; /* told to: no new requests; over when the last target is let go */
	int lock_fd;
};

/* ---- listen.c: the socket, its lock ---------------------------------------------------------- */

struct error *listen_open(struct supervisor *supervisor);
void listen_close(struct supervisor *supervisor);

/* ---- peer.c: who is connected ---------------------------------------------------------------- */

struct peer {
	struct supervisor *supervisor;
	struct loop_source source;
	struct channel channel;
	struct identity who;
	struct request *request; /* at work; NULL: none */
	bool again; /* a request may have come already */
	bool is_agent; /* may register, and nothing else */
	bool watches;
	pid_t watched; /* 0: all */
	char *watched_name; /* NULL: by pid, or all */
	uint64_t half_since; /* when half a message came; 0: none */
};

void peer_accept(struct loop_source *source, uint32_t events);
void peer_accept_agent(struct loop_source *source, uint32_t events);
/* Sends, and drops who doesn't read. The peer may be gone afterwards. */
void peer_send(struct peer *peer, struct wire_out *out);
void peer_drop(struct peer *peer, const char *why);
/* Its request has ended: on with the next. */
void peer_go_on(struct peer *peer);
void peer_sweep(struct supervisor *supervisor, uint64_t now, bool *ret_again);

/* ---- permissions.c: what is asked ---------------------------------------------------------------- */

struct request {
	struct supervisor *supervisor;
	struct peer *peer; /* NULL: gone, or the request is the supervisor's own */
	struct request *parent; /* NULL, or has this one as a call */
	uint32_t sequence; /* the peer's */
	enum wire_kind kind;
	struct identity who;
	/* the message as it was asked, with `who` in it: for workers and the journal */
	struct wire_out bytes;
	struct wire_message message;
	unsigned calls; /* unanswered */
	unsigned done, failed;
	struct strbuf errors;
	enum error_kind error_kind;
	struct strbuf summary; /* for the log */
};

void request_begin(struct peer *peer, const struct wire_message *message);
/* From nobody: what was asked before, as the journal or a waiting entry has it. */
struct error *request_again(struct supervisor *supervisor, const char *bytes, size_t length,
			    struct request **ret_request);
/* One more result; consumes the error (NULL: success). */
void request_note(struct request *request, struct error *error);
/* Ends it if nothing is open. */
void request_settle(struct request *request);
/* Who asked is told, and waits no longer; consumes the error. The request goes on. */
void request_leave(struct request *request, struct error *error);
/* WIRE_ITEM and WIRE_NOTE to who asked, with the pid of the target that says it. */
void request_forward(struct request *request, const struct wire_message *answer, pid_t pid);
struct error *request_may(const struct request *request, pid_t pid, const struct process *process);
/* Its user's rights aren't enough to trace it. `target` NULL: it doesn't have the agent. */
bool target_needs_root(const struct target *target, const struct process *process);

/* ---- targets.c: processes with the agent ----------------------------------------------------- */

struct call {
	struct request *request; /* NULL: the supervisor's own */
	enum wire_kind kind;
	uint32_t sequence;
	uint64_t since;
	size_t entry; /* of the journal, when it is read again; SIZE_MAX: none */
};

struct entry { /* of the journal: what was asked, successfully */
	enum wire_kind kind;
	char *bytes;
	size_t length;
	VEC(char *) names; /* WIRE_ADD: that it made */
};

struct target {
	struct supervisor *supervisor;
	pid_t pid;
	struct process process;
	const char *loaded; /* "injected", "linked", "preloaded" */
	struct loop_source source; /* its worker's socket, or its pidfd while it has none */
	struct channel channel;
	bool has_worker;
	pid_t worker; /* 0: of an earlier supervisor's */
	bool leaving; /* its worker was told to end */
	bool leaves_again; /* ... and was killed instead: the next one is told, too */
	bool gone; /* its worker has said that it is done */
	bool attached; /* the worker has said so */
	bool told; /* who watches was told */
	uint32_t sequence;
	VEC(struct call) calls;
	size_t tracepoints;
	char *trace; /* its directory; NULL: none yet */
	char *old_trace; /* that of a worker that died, for the next; NULL: none */
	struct identity owner; /* whose the trace is */
	bool stopped; /* not recording */
	VEC(struct entry) entries;
	size_t replay; /* the next entry to ask for again; SIZE_MAX: none */
	uint64_t first_death;
	unsigned deaths; /* of workers, lately */
	VEC(uint64_t) waited; /* numbers of the waiting tracepoints that it was asked for */
};

struct target *target_find(struct supervisor *supervisor, pid_t pid);
/* The process's target, with a worker; started if there is none. `who`: NULL, or its worker and
 * keeper are for. */
struct error *target_start(struct supervisor *supervisor, pid_t pid, const struct process *process,
			   struct target **ret_target);
/* Note that the worker owes an answer; what is queued for it is to be sent. */
bool target_push_call(struct target *target, struct request *request, enum wire_kind kind,
		      size_t entry);
void target_set_events(struct target *target);

/* worker_calls.c: hands the request to the target's worker. */
void target_call(struct target *target, struct request *request);
/* Has it begun another program? Then its worker is told to end. */
void target_look(struct target *target);
/* A process says that it has the agent. */
struct error *target_register(struct supervisor *supervisor, pid_t pid,
			      const struct process *process, const char *loaded,
			      struct target **ret_target);
void target_free(struct target *target);
/* Told to end: lets the process go. */
void target_leave(struct target *target);
/* The keeper of the trace that a dead worker left, for the next; -1: there is none. */
int target_old_keeper(struct target *target);
/* Asks for the next entry of the journal again. */
void target_replay(struct target *target);
/* Workers that an earlier supervisor left, and those that died with it. */
void targets_find_again(struct supervisor *supervisor);
/* Its worker's socket has ended. The target may be gone afterwards. */
void target_worker_ended(struct target *target);

/* stuck.c */
bool target_is_stopped(const struct target *target); /* its worker is */
void targets_sweep(struct supervisor *supervisor, uint64_t now, bool *ret_again);

/* ---- spawn.c: processes with other rights ---------------------------------------------------- */

/* A worker; its socket is connected. */
struct error *spawn_worker(struct supervisor *supervisor, struct target *target, int *ret_fd);
/* A keeper with that user's rights; the worker's end of its socket. */
struct error *spawn_keeper(struct supervisor *supervisor, const struct identity *who,
			   const char *folder, const char *name, enum keeper_way way, int *ret_fd);
char *spawn_socket_path(const struct supervisor *supervisor, pid_t pid);

/* ---- journal.c: what has to be done again after a crash -------------------------------------- */

/* A request succeeded; the names that it made are the reply's. */
void journal_note(struct target *target, const struct request *request,
		  const struct wire_message *reply);
void journal_drop(struct target *target); /* nothing is to be done again */
/* the file of one that has gone */
void journal_forget(const struct supervisor *supervisor, pid_t pid);
void journal_free(struct target *target);
/* Reads it; false: there is none for this process. */
bool journal_read(struct target *target);
/* The pids that there are journals of. */
void journal_pids(const struct supervisor *supervisor, struct tids *ret_pids);

/* ---- events.c: notifications ----------------------------------------------------------------- */

void events_tell(struct supervisor *supervisor, pid_t pid, const char *program, const char *event,
		 const char *detail);
/* The same of what happened before, at that time; 0: now. */
void events_tell_at(struct supervisor *supervisor, uint64_t ns, pid_t pid, const char *program,
		    const char *event, const char *detail);
void events_forward(struct target *target, const struct wire_message *event);
/* The last failure of that process's recording; NULL: none. */
const struct failure *events_failure(const struct supervisor *supervisor, pid_t pid);

/* ---- waiting.c: tracepoints of programs that don't run --------------------------------------- */

struct waiting {
	uint64_t number;
	char *program;
	char *name; /* of the tracepoint, if it was given one */
	char *bytes; /* the request */
	size_t length;
	struct identity who;
};

/* Keeps the request for every process of that name that comes. */
struct error *waiting_add(struct supervisor *supervisor, const struct request *request,
			  const char *program);
/* A process has begun: is anything waiting for it? `request`: NULL, or isn't over before that is
 * done. */
void waiting_process(struct supervisor *supervisor, pid_t pid, struct request *request);
/* Those of a name and pattern (NULL: all) as items; gives how many there were. */
size_t waiting_list(struct supervisor *supervisor, struct request *request, const char *program);
size_t waiting_remove(struct supervisor *supervisor, const struct identity *who,
		      const char *program, const char *pattern);
void waiting_read(struct supervisor *supervisor);
void waiting_free(struct supervisor *supervisor);

/* ---- exec_events.c: programs that are begun -------------------------------------------------- */

/* Something waits, or nothing does any more. */
void exec_events_update(struct supervisor *supervisor);
void exec_events_free(struct supervisor *supervisor);

/* ---- supervisor.c ---------------------------------------------------------------------------- */

struct error *supervisor_run(const struct supervisor_options *options);
/* Something has a time limit now. */
void supervisor_sweep_soon(struct supervisor *supervisor);
/* The last target has been let go? */
void supervisor_end_if_idle(struct supervisor *supervisor);

#endif
