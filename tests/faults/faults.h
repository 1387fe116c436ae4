/*
 * faults.h - operations on a session, and how each is judged after something in it has failed.
 */
#ifndef DYNTRACE_FAULTS_H
#define DYNTRACE_FAULTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "control/session/session.h"

#include "../programs/worker.h"
#include "inject.h"

#define FAULTS_NOTED (1 << 20)
#define FAULTS_OUTPUT 96

/* What one run has to say; in memory that all processes of the test share. */
struct verdict {
	struct fault_report report;
	bool acted; /* the operation was reached */
	bool failed; /* it gave an error: */
	char error[512];
	bool summed_up; /* the session ended: */
	uint64_t events; /* in its trace, by the summary */
	bool left; /* code of ours stays in the target, and it was said */
	char trouble[4096]; /* what is wrong; empty: nothing */
	/* per call, in a run that counts: hashes of the caller, and of all callers */
	struct {
		uint32_t caller, callers;
		uint8_t class;
	} noted[FAULTS_NOTED];
};

extern struct verdict *verdict;
extern struct shared *shared; /* with the target */

/* Which call fails in this run. */
struct wanted {
	unsigned classes;
	uint64_t nth;
	bool onward;
};

struct fixture {
	pid_t pid;
	struct proc *proc;
	struct session *session;
	struct session_options options;
	char output[FAULTS_OUTPUT];
	uint64_t called[FUNCTIONS]; /* calls when the operation was over */
	uint64_t text; /* the program's, before an operation that adds: a sum */
};

struct operation {
	const char *name;
	/* Brings the target to where the operation begins. NULL: a session with tracepoints. */
	void (*prepare)(struct fixture *f);
	struct error *(*act)(struct fixture *f);
	/* Judges more, when the session has ended; NULL: nothing. */
	void (*judge)(struct fixture *f);
	/* After an error of `act`: the tracepoint that may be there or not. NULL: none. */
	const char *subject;
	enum session_mode mode;
	struct writer_limits limits; /* of its trace */
	bool kills; /* a controller is killed before it: `prepare` runs in another process */
	bool ends; /* no session is left after it */
	bool begins; /* there is no session before it */
	bool stands; /* the target's threads stand still meanwhile */
	bool execs; /* the target begins programs */
	bool handles; /* the target has a handler of a fault (H42) */
	bool writes; /* the trace is read afterwards */
	bool adds; /* after an error the program's own text is as before (H32) */
};

extern const struct operation operations[];
extern const size_t operation_count;

/* Adds a sentence to verdict->trouble. */
__attribute__((format(printf, 1, 2))) void trouble(const char *format, ...);

/* In a process of its own: the operation with a failure, then judges what can be judged from
 * inside. */
void controller_run(const struct operation *operation, const struct wanted *wanted, pid_t pid,
		    const char *output);
/* In a process of its own: prepares, and dies. */
void controller_die(const struct operation *operation, pid_t pid, const char *output);
/* In a process of its own: takes out what was left. */
void controller_clean(pid_t pid);

/* The target's threads: stand still, go on. */
void target_stand(struct fixture *f);
void target_go(void);

#endif
