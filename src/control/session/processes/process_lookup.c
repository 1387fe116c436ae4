/*
 * process_lookup.c
 *
 * The usual process has the target's pid namespace: its pid leads to it, and the number in its
 * memory confirms that. Otherwise all processes in other namespaces than ours are looked at, once
 * for all records that were made before: on a machine with many processes that takes milliseconds,
 * so it is done a tenth of the time at most. A process that lives during the whole look is in the
 * kernel's list.
 */
#include "process_lookup.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <x86intrin.h>

#include "control/base/cleanup.h"
#include "control/proc/proc_status.h"
#include "follow_state.h"
#include "shared/sorted.h"

/* Of Linux 6.11: the id in our namespace of a task, by its id in the namespace. */
#define PID_FROM_PIDNS _IOR(0xb7, 0x6, int)
#define KNOWN_MANY 4096 /* from here on, processes that have ended are forgotten */
#define LOOK_SHARE 10 /* one part of this many of the time is spent on looking at all processes, */
#define LOOK_CREDIT 64 /* but for so many looks */

/* A process in another pid namespace than ours, by the last look. */
struct inside {
	pid_t pid;
	uint32_t number; /* 0: its memory can't be read */
	uint32_t inner; /* its pid there; only without a number */
};

struct process_lookup {
	VEC(struct traced_process) known; /* by number */
	VEC(struct inside) inside;
	uint64_t looked, next; /* clocks: when the last look began, and when another one may */
	unsigned early; /* looks before that */
	bool whole; /* the last look had enough memory */
	bool target_is_ours; /* the target is in our pid namespace, and stays there */
	size_t many; /* known processes at which ended ones are looked for */
};

bool process_lookup_create(struct session *session)
{
	session->lookup = calloc(1, sizeof(*session->lookup));
	if (!session->lookup)
		return false;
	session->lookup->many = KNOWN_MANY;
	session->lookup->target_is_ours = process_lookup_is_ours(session->proc->pid);
	return true;
}

void process_lookup_free(struct session *session)
{
	if (session->lookup) {
		vec_free(&session->lookup->known);
		vec_free(&session->lookup->inside);
	}
	free(session->lookup);
}

/* ---- namespaces ----------------------------------------------------------------------------- */

uint32_t process_lookup_nspid(const char *path)
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

/* False: it can't be read. */
static bool find_namespace(pid_t pid, struct stat *ret_stat)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/ns/pid", pid);
	return !stat(path, ret_stat);
}

static bool same_namespace(pid_t a, pid_t b)
{
	struct stat x, y;

	return find_namespace(a, &x) && find_namespace(b, &y) && x.st_ino == y.st_ino &&
	       x.st_dev == y.st_dev;
}

/* Where the namespace is closed to us, the pid there tells: nearly always it is another one. */
bool process_lookup_is_ours(pid_t pid)
{
	char path[64];
	struct stat theirs, ours;

	if (find_namespace(pid, &theirs) && find_namespace(getpid(), &ours))
		return theirs.st_ino == ours.st_ino && theirs.st_dev == ours.st_dev;
	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	return process_lookup_nspid(path) == (uint32_t)pid;
}

enum lookup process_lookup_id(pid_t like, uint32_t inner, uint32_t *ret_id)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/ns/pid", like);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return LOOKUP_UNKNOWN;
	int answer = ioctl(fd, PID_FROM_PIDNS, (unsigned long)inner);
	if (answer <= 0)
		return errno == ESRCH ? LOOKUP_ENDED : LOOKUP_UNKNOWN;
	*ret_id = (uint32_t)answer;
	return LOOKUP_FOUND;
}

uint32_t process_lookup_inner(pid_t like, uint32_t inner)
{
	char path[64];
	DIR *entries = opendir("/proc");
	uint32_t found = 0;

	for (struct dirent *entry; entries && !found && (entry = readdir(entries));) {
		pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);

		snprintf(path, sizeof(path), "/proc/%d/status", pid);
		if (pid > 0 && process_lookup_nspid(path) == inner && same_namespace(pid, like))
			found = (uint32_t)pid;
	}
	if (entries)
		closedir(entries);
	return found;
}

/* ---- numbers -------------------------------------------------------------------------------- */

/* The sessions of one pool: the root, and those of its programs. */
static const struct session *session_at(const struct session *root, size_t i)
{
	return i ? root->follow->execs.items[i - 1].session : root;
}

static size_t session_count(const struct session *root)
{
	return root->follow->execs.count + 1;
}

/* The number that the process has, if it maps that session's memory; else 0, or nonsense. */
static uint32_t read_number(const struct session *session, int memory)
{
	uint32_t number;

	if (!session->agent ||
	    pread(memory, &number, sizeof(number),
		  (off_t)(session->agent->state_at.v + offsetof(struct dt_state, process))) !=
		    (ssize_t)sizeof(number))
		return 0;
	return number;
}

/* *ret_closed: its memory can't be read; *ret_there: there is such a process. */
static bool has_number(const struct session *root, pid_t pid, uint32_t number, bool *ret_closed,
		       bool *ret_there)
{
	_cleanup_close_ int memory = proc_status_open(pid, "mem", O_RDONLY);
	bool found = false;

	*ret_closed = memory < 0 && (errno == EACCES || errno == EPERM);
	*ret_there = memory >= 0 || *ret_closed;
	for (size_t i = 0; memory >= 0 && i < session_count(root) && !found; i++)
		found = read_number(session_at(root, i), memory) == number;
	return found;
}

/* Notes the numbers of a process in another pid namespace. */
static void look_at(const struct session *root, pid_t pid)
{
	struct process_lookup *lookup = root->lookup;
	_cleanup_close_ int memory = proc_status_open(pid, "mem", O_RDONLY);
	struct inside one = { .pid = pid };
	char path[64];

	if (memory < 0 && (errno == EACCES || errno == EPERM)) {
		snprintf(path, sizeof(path), "/proc/%d/status", pid);
		one.inner = process_lookup_nspid(path);
		lookup->whole &= vec_push(&lookup->inside, one);
	}
	for (size_t i = 0; memory >= 0 && i < session_count(root); i++) {
		one.number = read_number(session_at(root, i), memory);
		if (one.number)
			lookup->whole &= vec_push(&lookup->inside, one);
	}
}

static void look(struct session *root)
{
	struct process_lookup *lookup = root->lookup;

	lookup->looked = __rdtsc();
	lookup->inside.count = 0;
	DIR *entries = opendir("/proc");
	lookup->whole = entries != NULL;
	for (struct dirent *entry; entries && (entry = readdir(entries));) {
		pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);

		if (pid > 0 && !process_lookup_is_ours(pid))
			look_at(root, pid);
	}
	if (entries)
		closedir(entries);
	uint64_t now = __rdtsc();
	lookup->next = now + LOOK_SHARE * (now - lookup->looked);
}

/* `certain`: most likely it is in another namespace than the target. */
static enum lookup find_inside(struct session *root, uint32_t pid, uint64_t since, bool certain,
			       struct traced_process *process)
{
	struct process_lookup *lookup = root->lookup;
	bool perhaps = false;

	if (lookup->looked <= since) {
		bool is_early = __rdtsc() < lookup->next && !certain;

		if (is_early && lookup->early == LOOK_CREDIT)
			return LOOKUP_UNKNOWN;
		lookup->early += is_early;
		if (!is_early && lookup->early)
			lookup->early--;
		look(root);
	}
	for (size_t i = 0; i < lookup->inside.count; i++) {
		const struct inside *one = &lookup->inside.items[i];

		perhaps |= !one->number && one->inner == pid;
		if (one->number != process->number)
			continue;
		process->pid = one->pid;
		process->inside = true;
		return LOOKUP_FOUND;
	}
	return perhaps || !lookup->whole ? LOOKUP_UNKNOWN : LOOKUP_ENDED; /* K3 */
}

/* ---- the usual process ---------------------------------------------------------------------- */

/* Did the process run before the target had the agent? Then it is no fork of it. */
static bool is_older(const struct session *root, pid_t pid)
{
	struct thread_stat stat;
	_cleanup_error_ struct error *error = proc_status_read_stat(pid, pid, &stat);

	return !error && stat.start_time < root->agent->since && proc_status_live_thread(pid);
}

/* In the target's pid namespace. *ret_certain: that pid is another process's. */
static enum lookup find_beside(struct session *root, uint32_t pid, struct traced_process *process,
			       bool *ret_certain)
{
	const struct proc *proc = root->proc;
	bool ours = root->lookup->target_is_ours, closed = false;
	uint32_t outer = ours ? pid : 0;
	enum lookup found = ours ? LOOKUP_FOUND : process_lookup_id(proc->pid, pid, &outer);

	process->inside = !ours;
	if (found != LOOKUP_FOUND)
		return LOOKUP_UNKNOWN;
	bool same = has_number(root, (pid_t)outer, process->number, &closed, ret_certain);
	bool older = !same && is_older(root, (pid_t)outer);
	if (same || (closed && !older)) {
		process->pid = (pid_t)outer;
		return LOOKUP_FOUND;
	}
	process->inside |= older;
	return LOOKUP_UNKNOWN;
}

/* The processes into which the controller itself has put the agent. UNKNOWN: it is none. */
static enum lookup find_own(const struct session *root, struct traced_process *process)
{
	for (size_t i = 0; i < session_count(root); i++) {
		const struct session *session = session_at(root, i);

		if (!session->agent || session->agent->process != process->number)
			continue;
		/* for its whole life; if it ends now, nobody can tell any more */
		process->inside = session->proc->nested;
		if (!proc_is_alive(session->proc))
			return LOOKUP_ENDED;
		process->pid = session->proc->pid;
		return LOOKUP_FOUND;
	}
	return LOOKUP_UNKNOWN;
}

/* ---- known processes ------------------------------------------------------------------------ */

static size_t count_below(const struct process_lookup *lookup, uint32_t number)
{
	return sorted_count(lookup->known.count, i, lookup->known.items[i].number < number);
}

static void forget_ended(struct process_lookup *lookup)
{
	size_t kept = 0;

	if (lookup->known.count < lookup->many)
		return;
	for (size_t i = 0; i < lookup->known.count; i++) {
		pid_t pid = lookup->known.items[i].pid;

		if (pid && (!kill(pid, 0) || errno == EPERM))
			lookup->known.items[kept++] = lookup->known.items[i];
	}
	lookup->known.count = kept;
	lookup->many = 2 * kept + KNOWN_MANY;
}

static void keep(struct process_lookup *lookup, const struct traced_process *process)
{
	forget_ended(lookup);
	size_t at = count_below(lookup, process->number);
	if (!vec_reserve(&lookup->known, 1))
		return;
	struct traced_process *entry = &lookup->known.items[at];
	memmove(entry + 1, entry, (lookup->known.count - at) * sizeof(*entry));
	lookup->known.count++;
	*entry = *process;
}

enum lookup process_lookup(struct session *root, uint32_t number, uint32_t pid, uint64_t since,
			   struct traced_process *ret_process)
{
	struct process_lookup *lookup = root->lookup;
	struct traced_process process = { .number = number };
	size_t at = count_below(lookup, number);
	enum lookup found = LOOKUP_FOUND;
	bool certain = false;

	assert(!root->parent); /* F1 */
	if (at < lookup->known.count && lookup->known.items[at].number == number) {
		*ret_process = lookup->known.items[at];
		return ret_process->pid ? LOOKUP_FOUND : LOOKUP_ENDED;
	}
	if (!number) /* nonsense of the target's: the pid has to do */
		process.pid = (pid_t)pid;
	else if ((found = find_own(root, &process)) == LOOKUP_UNKNOWN)
		found = find_beside(root, pid, &process, &certain);
	if (found == LOOKUP_UNKNOWN)
		found = find_inside(root, pid, since, certain, &process);
	if (found != LOOKUP_UNKNOWN && number)
		keep(lookup, &process);
	*ret_process = process;
	return found;
}
