/*
 * thread_liveness.c - is a thread that wrote a chunk still alive?
 *
 * Thread records hold ids of the pid namespace of their process (process_lookup.h finds it). If
 * that is ours, too, an empty signal asks the kernel, which is a hundred times cheaper than /proc;
 * except for a group leader, which takes signals after its end as long as other threads live. In
 * another namespace the thread's ids here are looked up first (H36): by an ioctl of the namespace,
 * or, before Linux 6.11, by NSpid of all threads. A thread that isn't found has ended, if the list
 * of threads was whole: threads that end meanwhile make the kernel leave out others. A live thread
 * that is taken for dead would write to a chunk that has another owner.
 */
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <x86intrin.h>

#include "control/base/cleanup.h"
#include "process_lookup.h"
#include "thread_liveness.h"

#define SCAN_AGAIN (1ULL << 26) /* cycles, some 20 ms */

/* The state letter of /proc/PID/task/TID/stat; 0: no such thread. */
static char thread_state(uint32_t pid, uint32_t tid)
{
	char path[64], line[256];

	snprintf(path, sizeof(path), "/proc/%u/task/%u/stat", pid, tid);
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	if (!file || !fgets(line, sizeof(line), file))
		return 0;
	const char *paren = strrchr(line, ')');
	return paren && paren[1] == ' ' ? paren[2] : 0;
}

/* ---- looking up in /proc -------------------------------------------------------------------- */

struct thread_ids {
	uint32_t inner, outer;
};

/* Ids of all threads of one process, as of one moment. One scan serves all threads that had been
 * there before it. */
struct thread_table {
	struct thread_ids *items;
	size_t count, room;
	uint32_t pid; /* outer */
	uint64_t clock; /* when the scan began */
	bool whole; /* no thread came or ended meanwhile */
};

bool thread_liveness_create(struct session *session)
{
	session->threads = calloc(1, sizeof(*session->threads));
	return session->threads != NULL;
}

void thread_liveness_free(struct session *session)
{
	if (session->threads)
		vec_free(session->threads);
	free(session->threads);
}

/* The number of threads, by the links of /proc/PID/task; 0: unknown. */
static size_t count_threads(const char *tasks)
{
	struct stat stat_now;

	return stat(tasks, &stat_now) || stat_now.st_nlink < 2 ? 0 : stat_now.st_nlink - 2;
}

static void scan_threads(struct thread_table *table, uint32_t pid)
{
	char tasks[64], path[352];

	snprintf(tasks, sizeof(tasks), "/proc/%u/task", pid);
	table->pid = pid;
	table->clock = __rdtsc();
	table->count = 0;
	size_t before = count_threads(tasks);
	DIR *entries = opendir(tasks);
	table->whole = entries && before;
	for (struct dirent *entry; entries && (entry = readdir(entries));) {
		struct thread_ids ids = { .outer = (uint32_t)strtoul(entry->d_name, NULL, 10) };

		if (!ids.outer)
			continue;
		snprintf(path, sizeof(path), "%s/%s/status", tasks, entry->d_name);
		ids.inner = process_lookup_nspid(path);
		table->whole &= vec_push(table, ids);
	}
	if (entries)
		closedir(entries);
	table->whole &= table->count == before && count_threads(tasks) == before;
}

/* Threads of a process in another namespace. */
static enum lookup find_in_proc(struct session *session, const struct reader_thread *thread,
				uint32_t pid, uint32_t *ret_tid)
{
	struct thread_table *table = session->threads;

	if (table->pid != pid || table->clock <= thread->since ||
	    (!table->whole && __rdtsc() - table->clock > SCAN_AGAIN))
		scan_threads(table, pid);
	for (size_t i = 0; i < table->count; i++) {
		if (table->items[i].inner != thread->tid)
			continue;
		*ret_tid = table->items[i].outer;
		return LOOKUP_FOUND;
	}
	return table->whole ? LOOKUP_ENDED : LOOKUP_UNKNOWN;
}

/* ---- callbacks ------------------------------------------------------------------------------ */

/* By ids of our namespace. */
static bool is_alive(uint32_t pid, uint32_t tid)
{
	if (tid != pid)
		return !syscall(SYS_tgkill, pid, tid, 0) || errno == EPERM;
	char state = thread_state(pid, tid);
	return state && state != 'Z' && state != 'X';
}

/* Of a process in another namespace. *ret_tid: the thread's id here, if it is found. */
static enum lookup find_inside(struct session *session, const struct reader_thread *thread,
			       uint32_t pid, uint32_t *ret_tid)
{
	uint32_t tid = 0;
	enum lookup found = process_lookup_id((pid_t)pid, thread->tid, &tid);

	if (found == LOOKUP_UNKNOWN)
		found = find_in_proc(session, thread, pid, &tid);
	else if (found == LOOKUP_FOUND && !is_alive(pid, tid))
		found = LOOKUP_ENDED; /* another process's thread may have the id now */
	if (found == LOOKUP_FOUND)
		*ret_tid = tid;
	return found;
}

bool thread_liveness_ask(void *context, const struct reader_thread *thread)
{
	struct session *session = context;
	struct traced_process process;
	uint32_t tid = thread->outer_tid;
	enum lookup found =
		process_lookup(session, thread->process, thread->pid, thread->since, &process);

	if (found == LOOKUP_FOUND && !process.inside)
		return is_alive((uint32_t)process.pid, thread->tid);
	/* it ended before it was looked up, or couldn't be looked up then */
	if (found == LOOKUP_FOUND && !tid)
		found = find_inside(session, thread, (uint32_t)process.pid, &tid);
	if (found == LOOKUP_FOUND)
		return is_alive((uint32_t)process.pid, tid);
	return found == LOOKUP_UNKNOWN && proc_is_alive(session->proc); /* K3 */
}

void thread_liveness_outer(void *context, struct reader_thread *thread)
{
	struct session *session = context;
	struct traced_process process;
	enum lookup found =
		process_lookup(session, thread->process, thread->pid, thread->since, &process);

	if (!process.inside)
		return; /* the ids are the same here */
	thread->outer_pid = found == LOOKUP_FOUND ? (uint32_t)process.pid : 0;
	thread->outer_tid = 0;
	if (found == LOOKUP_FOUND)
		find_inside(session, thread, thread->outer_pid, &thread->outer_tid);
}

bool thread_liveness_find(struct session *session, pid_t like, uint32_t *pid, uint32_t *tid)
{
	struct reader_thread who = { .pid = *pid, .tid = *tid, .since = __rdtsc() };
	uint32_t outer = 0;
	enum lookup found = process_lookup_id(like, *pid, &outer);

	if (found == LOOKUP_UNKNOWN)
		outer = process_lookup_inner(like, *pid);
	if (!outer || find_inside(session, &who, outer, tid) != LOOKUP_FOUND)
		return false;
	*pid = outer;
	return true;
}
