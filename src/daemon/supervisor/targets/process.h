/*
 * process.h - what a process is called and which rights it has, by the kernel's word.
 *
 * Read from /proc/PID/{stat,status} and the links exe and ns/user only: reading those doesn't touch
 * the process's memory, and so can't be held up by it.
 */
#ifndef DYNTRACE_PROCESS_H
#define DYNTRACE_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "control/proc/proc_guise.h"
#include "daemon/supervisor/requests/identity.h"

struct process {
	struct identity user; /* whose rights it has: the effective ids */
	uint64_t start_time;
	char guise[PROC_GUISE_SIZE]; /* rights and program: proc_guise.h */
	uint64_t generation; /* changes with execve; 0: unknown */
	char name[64]; /* to be shown */
	char comm[64];
	char executable[64]; /* file name */
	bool alive;
	bool mixed; /* real, effective and saved ids differ */
	bool capable; /* has capabilities that its user doesn't have */
	bool dumpable;
	bool out_of_reach; /* in a user namespace that its user hasn't made */
};

/* ERROR_GONE: no such process. */
struct error *process_read(pid_t pid, struct process *ret_process);
/* Are its user's rights enough to trace it? */
bool process_is_plain(const struct process *process);
/* Could that user ptrace it without us, as far as ids tell? */
bool process_is_own(const struct process *process, const struct identity *who);
/* Has it begun no other program since? Its rights may be others. */
bool process_runs_same(const struct process *then, const struct process *now);
/* Is it the same process, with the same rights, running the same program (H33)? What was granted
 * for the one is granted for the other only then. */
bool process_is_same(const struct process *then, const struct process *now);
/* Is the name its comm, or the file name of its executable? */
bool process_is_called(const struct process *process, const char *name);

#endif
