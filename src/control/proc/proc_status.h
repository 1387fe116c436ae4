/*
 * proc_status.h - the state of one thread, from /proc.
 *
 * Reads /proc/PID/task/TID/{stat,status}. Fails with ERROR_GONE when the thread is gone.
 */
#ifndef DYNTRACE_PROC_STATUS_H
#define DYNTRACE_PROC_STATUS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "control/base/error.h"

struct proc;

/* From stat, which is cheaper to read. */
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
	pid_t inner_pid; /* pid of the process in its innermost pid namespace */
	pid_t inner_tid; /* of the thread, there */
	bool nested; /* that namespace isn't the reader's: ids there are other numbers */
	uid_t uid; /* real */
	uid_t acting_uid; /* for files: the effective one, unless the thread chose another */
	int seccomp; /* 0 off, 1 strict, 2 filter */
	int filters; /* number of its seccomp filters; 0 before Linux 5.9 */
	bool locked; /* VmLck > 0 */
	uint64_t pending; /* signals, this thread's and the process's: bit n - 1 is signal n */
	uint64_t blocked;
	uint64_t ignored; /* SIG_IGN */
	uint64_t caught;
};

#define STATUS_PF_KTHREAD 0x00200000u

struct error *proc_status_read_stat(pid_t pid, pid_t tid, struct thread_stat *ret_stat);
struct error *proc_status_read(pid_t pid, pid_t tid, struct thread_status *ret_status);
/* Processor time of a thread so far, in ns (schedstat). False: gone, or the kernel doesn't
 * count. */
bool proc_status_read_ran(pid_t pid, pid_t tid, uint64_t *ret_ns);

/* Their text; a field that isn't there is 0. False: not understood. */
bool proc_status_parse_stat(const char *text, struct thread_stat *ret_stat);
struct thread_status proc_status_parse(const char *text);

/* Finds a thread that is neither zombie nor dead, preferably the leader, and one that is about to
 * end only if there is no other: of a killed process that is a thread in the kernel, which may
 * still write to a file. 0: the process has ended. */
pid_t proc_status_live_thread(pid_t pid);

/* Has the process ended, or are all its threads about to? Its memory may be gone before it is. */
bool proc_status_ends(pid_t pid);

/* Opens /proc/PID/NAME, or the same file of a live thread if the leader is a zombie. Failure: -1
 * and errno. */
int proc_status_open(pid_t pid, const char *name, int flags);

/* Bits of an entry of /proc/PID/pagemap: in memory, or swapped; of a file, or shared. */
#define PROC_PAGE_EXISTS (3ULL << 62)
#define PROC_PAGE_OF_FILE (1ULL << 61)
/* Reads the entries of so many pages from that address on, by an open /proc/PID/pagemap. False:
 * not all could be read. */
bool proc_status_pages(int pagemap_fd, uint64_t from, uint64_t *ret_entries, size_t count);

/* Reads a small file below /proc whole, as a string. Caller frees. Failure: NULL and errno. */
char *proc_status_slurp(int fd, size_t *ret_length);

/* When the process began, in ns of CLOCK_MONOTONIC; at least 1. */
uint64_t proc_status_born(const struct proc *proc);

#endif
