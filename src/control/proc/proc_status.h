/*
 * proc_status.h - what /proc says of one thread.
 *
 * Reads /proc/PID/task/TID/{stat,status}. Fails with ERROR_GONE when the thread is gone.
 */
#ifndef DYNTRACE_PROC_STATUS_H
#define DYNTRACE_PROC_STATUS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "control/base/error.h"

/* The cheap one, from stat. */
struct thread_stat {
	char state; /* R, S, D, T, t, Z, X, I */
	char comm[64];
	uint32_t flags; /* PF_* of the kernel */
	uint64_t start_time;
};

/* From status. */
struct thread_status {
	pid_t tgid;
	pid_t parent;
	pid_t tracer; /* 0: none */
	pid_t inner_pid; /* of the process, in its innermost pid namespace */
	uid_t uid; /* real */
	int seccomp; /* 0 off, 1 strict, 2 filter */
	bool locked; /* VmLck isn't 0 */
	uint64_t pending; /* signals, this thread's and the process's: bit n - 1 is signal n */
	uint64_t blocked;
	uint64_t caught;
};

#define STATUS_PF_KTHREAD 0x00200000u

struct error *proc_status_read_stat(pid_t pid, pid_t tid, struct thread_stat *ret_stat);
struct error *proc_status_read(pid_t pid, pid_t tid, struct thread_status *ret_status);

/* A thread that is neither zombie nor dead, the leader if it qualifies; 0: the process has ended. */
pid_t proc_status_live_thread(pid_t pid);

/* Opens /proc/PID/NAME, or the same file of a live thread where the leader is a zombie. -1 and
 * errno. */
int proc_status_open(pid_t pid, const char *name, int flags);

/* The whole of a small file below /proc, as a string. Caller frees. NULL and errno. */
char *proc_status_slurp(int fd, size_t *ret_length);

#endif
