/*
 * thread_liveness.c - is a thread that wrote a chunk still alive?
 *
 * Thread records hold ids of the target's pid namespace. If that is ours, too, an empty signal asks
 * the kernel, which is a hundred times cheaper than /proc; except for a group leader, which takes
 * signals after its end as long as other threads live. In another namespace the thread's ids here
 * are looked up first (H36): by an ioctl of the namespace, or, before Linux 6.11, by NSpid of all
 * threads. A thread that isn't found has ended, if the list of threads was whole: threads that end
 * meanwhile make the kernel leave out others. A live thread that is taken for dead would write to a
 * chunk that has another owner.
 */
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <x86intrin.h>

#include "control/base/cleanup.h"
#include "thread_liveness.h"

/* Of Linux 6.11: the id in our namespace of a task, by its id in the namespace. */
#define PID_FROM_PIDNS _IOR(0xb7, 0x6, int)
#define TGID_FROM_PIDNS _IOR(0xb7, 0x7, int)
#define SCAN_AGAIN (1ULL << 26) /* cycles, some 20 ms */

enum finding { FOUND, ENDED, UNKNOWN };

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

/* ---- ids of other namespaces ---------------------------------------------------------------- */

/* The last number of NSpid: the id in the innermost namespace. 0: unknown. */
static uint32_t inner_id(const char *path)
{
	char line[256];
	uint32_t id = 0;

	_cleanup_fclose_ FILE *file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		const char *last = strrchr(line, '\t');

		if (!strncmp(line, "NSpid:", 6) && last) {
			id = (uint32_t)strtoul(last, NULL, 10);
			break;
		}
	}
	return id;
}

static bool same_namespace(pid_t a, pid_t b)
{
	char path[64];
	struct stat x, y;

	snprintf(path, sizeof(path), "/proc/%d/ns/pid", a);
	if (stat(path, &x))
		return false;
	snprintf(path, sizeof(path), "/proc/%d/ns/pid", b);
	return !stat(path, &y) && x.st_ino == y.st_ino && x.st_dev == y.st_dev;
}

/* ---- looking up by the kernel --------------------------------------------------------------- */

/* Asks the namespace; UNKNOWN: this kernel can't tell. */
static enum finding ask_namespace(int fd, unsigned long what, uint32_t id, uint32_t *ret_id)
{
	int answer = ioctl(fd, what, (unsigned long)id);

	if (answer > 0)
		*ret_id = (uint32_t)answer;
	return answer > 0 ? FOUND : errno == ESRCH ? ENDED : UNKNOWN;
}

static enum finding find_by_kernel(const struct proc *proc, uint32_t pid, uint32_t tid,
				   uint32_t *ret_pid, uint32_t *ret_tid)
{
	char path[64];
	uint32_t outer_pid = 0, outer_tid = 0, group = 0;

	snprintf(path, sizeof(path), "/proc/%d/ns/pid", proc->pid);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return UNKNOWN;
	enum finding found = ask_namespace(fd, PID_FROM_PIDNS, pid, &outer_pid);
	if (found == FOUND)
		found = ask_namespace(fd, PID_FROM_PIDNS, tid, &outer_tid);
	if (found == FOUND)
		found = ask_namespace(fd, TGID_FROM_PIDNS, tid, &group);
	if (found == FOUND && group != outer_pid)
		found = ENDED; /* another process's thread has the id now */
	if (found == FOUND) {
		*ret_pid = outer_pid;
		*ret_tid = outer_tid;
	}
	return found;
}

/* ---- looking up in /proc -------------------------------------------------------------------- */

/* The entry of a /proc directory whose innermost id is `id`; 0: none. `like`: if not 0, only in the
 * namespace of that process. */
static uint32_t find_inner(const char *directory, uint32_t id, pid_t like)
{
	char path[320];
	DIR *entries = opendir(directory);
	uint32_t found = 0;

	for (struct dirent *entry; entries && !found && (entry = readdir(entries));) {
		pid_t number = (pid_t)strtol(entry->d_name, NULL, 10);

		snprintf(path, sizeof(path), "%s/%s/status", directory, entry->d_name);
		if (number > 0 && inner_id(path) == id && (!like || same_namespace(number, like)))
			found = (uint32_t)number;
	}
	if (entries)
		closedir(entries);
	return found;
}

static uint32_t find_process(const struct proc *proc, uint32_t pid)
{
	return pid == (uint32_t)proc->inner_pid ? (uint32_t)proc->pid :
						  find_inner("/proc", pid, proc->pid);
}

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
		ids.inner = inner_id(path);
		table->whole &= vec_push(table, ids);
	}
	if (entries)
		closedir(entries);
	table->whole &= table->count == before && count_threads(tasks) == before;
}

static enum finding find_in_proc(struct session *session, const struct reader_thread *thread,
				 uint32_t *ret_pid, uint32_t *ret_tid)
{
	struct thread_table *table = session->threads;
	uint32_t pid = find_process(session->proc, thread->pid);

	if (!pid)
		return UNKNOWN;
	if (table->pid != pid || table->clock <= thread->since ||
	    (!table->whole && __rdtsc() - table->clock > SCAN_AGAIN))
		scan_threads(table, pid);
	for (size_t i = 0; i < table->count; i++) {
		if (table->items[i].inner != thread->tid)
			continue;
		*ret_pid = pid;
		*ret_tid = table->items[i].outer;
		return FOUND;
	}
	return table->whole ? ENDED : UNKNOWN;
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

static enum finding find_outer(struct session *session, const struct reader_thread *thread,
			       uint32_t *ret_pid, uint32_t *ret_tid)
{
	enum finding found =
		find_by_kernel(session->proc, thread->pid, thread->tid, ret_pid, ret_tid);

	assert(session->proc->inner_pid > 0 && session->proc->pid > 0);
	return found == UNKNOWN ? find_in_proc(session, thread, ret_pid, ret_tid) : found;
}

bool thread_liveness_ask(void *context, const struct reader_thread *thread)
{
	struct session *session = context;
	const struct proc *proc = session->proc;
	uint32_t pid = thread->outer_pid, tid = thread->outer_tid;

	if (proc->inner_pid == proc->pid)
		return is_alive(thread->pid, thread->tid);
	/* it ended before it was looked up, or couldn't be looked up then */
	if (!tid && find_outer(session, thread, &pid, &tid) == ENDED)
		return false;
	return tid ? is_alive(pid, tid) : proc_is_alive(proc);
}

void thread_liveness_outer(void *context, struct reader_thread *thread)
{
	struct session *session = context;
	const struct proc *proc = session->proc;
	uint32_t pid = 0, tid = 0;

	if (proc->inner_pid == proc->pid)
		return;
	if (find_outer(session, thread, &pid, &tid) != FOUND)
		pid = find_process(proc, thread->pid);
	thread->outer_pid = pid;
	thread->outer_tid = tid;
}
