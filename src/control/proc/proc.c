#include "proc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "control/fence/filters.h"
#include "judged.h"
#include "proc_guise.h"
#include "unreleased.h"
#include "proc_status.h"
#include "valgrind.h"

#define _cleanup_proc_ _cleanup_(cleanup_proc)
#define ANCESTORS_MAX 64

static char *read_exe(pid_t pid)
{
	char path[96], link[4096];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/exe", pid, proc_status_live_thread(pid));
	ssize_t n = readlink(path, link, sizeof(link) - 1);
	link[n > 0 ? n : 0] = '\0';
	return strdup(link);
}

static struct error *no_such_process(pid_t pid)
{
	return error_new(ERROR_GONE, "no process %d", pid);
}

static struct error *open_pidfd(pid_t pid, struct proc *proc)
{
	struct thread_status status;
	struct error *err;

	proc->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (proc->pidfd >= 0)
		return NULL;
	if (errno == ESRCH)
		return no_such_process(pid);
	int number = errno;
	/* /proc/TID exists for every thread, but only a leader's is a process */
	err = proc_status_read(pid, pid, &status);
	if (!err && status.tgid && status.tgid != pid)
		return error_new(ERROR_FAILED, "%d is a thread of process %d: use %d", pid,
				 status.tgid, status.tgid);
	error_free(err);
	return error_errno(number, "cannot open process %d", pid);
}

struct error *proc_open_plain(pid_t pid, struct proc **ret_proc)
{
	_cleanup_proc_ struct proc *proc = calloc(1, sizeof(*proc));
	struct thread_status status;
	struct thread_stat stat;
	struct error *err;

	if (!proc)
		return error_new(ERROR_FAILED, "out of memory");
	*proc = (struct proc){ .pid = pid, .pidfd = -1, .mem_fd = -1 };
	if (pid <= 0)
		return no_such_process(pid);
	/* first: all that is read from here on is of that program, or no stop succeeds */
	proc->generation = proc_guise_generation(pid, proc_status_live_thread(pid));
	if ((err = open_pidfd(pid, proc)) || (err = proc_status_read_stat(pid, pid, &stat)) ||
	    (err = proc_status_read(pid, pid, &status)))
		return err;
	proc->inner_pid = status.inner_pid ? status.inner_pid : pid;
	proc->nested = status.nested;
	proc->own_child = status.parent == getpid();
	proc->acting_uid = status.acting_uid;
	proc->start_time = stat.start_time;
	snprintf(proc->comm, sizeof(proc->comm), "%s", stat.comm);
	proc->exe = read_exe(pid);
	if (!proc->exe)
		return error_new(ERROR_FAILED, "out of memory");
	*ret_proc = take_ptr(&proc);
	return NULL;
}

void proc_close(struct proc *proc)
{
	if (!proc)
		return;
	unreleased_settle();
	if (proc->pidfd >= 0)
		close(proc->pidfd);
	if (proc->mem_fd >= 0)
		close(proc->mem_fd);
	answers_free(&proc->answers);
	free(proc->exe);
	free(proc);
}

bool proc_is_alive(const struct proc *proc)
{
	struct pollfd poll_fd = { .fd = proc->pidfd, .events = POLLIN };

	unreleased_settle();
	if (proc->reaped)
		return false;
	int ready;

	do /* a pending signal interrupts poll even with a timeout of 0 */
		ready = poll(&poll_fd, 1, 0);
	while (ready < 0 && errno == EINTR);
	return ready <= 0; /* what nobody can tell is alive (H32) */
}

bool proc_runs_same(const struct proc *proc, pid_t tid)
{
	return !proc->generation || proc_guise_generation(proc->pid, tid) == proc->generation;
}

/* The descriptor of its memory stands for one address space, and reads nothing once that is gone. A
 * process that shares it may keep it; then the generation tells, or, where only root may read that,
 * a user id that nobody gets but by execve. */
bool proc_has_left(const struct proc *proc)
{
	struct thread_status status;
	pid_t tid = proc_status_live_thread(proc->pid);
	char byte;

	if (!tid || !proc->generation || !proc_is_alive(proc))
		return false;
	if (proc->mem_fd >= 0 && pread(proc->mem_fd, &byte, 1, 0) == 0)
		return true;
	uint64_t now = proc_guise_generation(proc->pid, tid);
	if (now)
		return now != proc->generation;
	_cleanup_error_ struct error *err = proc_status_read(proc->pid, tid, &status);
	return !err && geteuid() != 0 && status.acting_uid != proc->acting_uid;
}

struct error *proc_gone(const struct proc *proc)
{
	bool has_ended = !proc_is_alive(proc) || proc_status_ends(proc->pid);

	return error_new(ERROR_GONE,
			 has_ended ? "process %d has ended" :
				     "process %d has begun another program",
			 proc->pid);
}

/* ---- refusals ------------------------------------------------------------------------------- */

char proc_ptrace_scope(void)
{
	char scope = '0';
	_cleanup_close_ int fd = open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC);

	return fd >= 0 && read(fd, &scope, 1) == 1 ? scope : '0';
}

static struct error *refuse_not_permitted(const struct proc *proc)
{
	struct thread_status status;
	_cleanup_error_ struct error *err = proc_status_read(proc->pid, proc->pid, &status);
	char scope = proc_ptrace_scope();

	if (scope == '3')
		return error_new(
			ERROR_NOT_PERMITTED,
			"not permitted to trace process %d (%s): kernel.yama.ptrace_scope is 3, "
			"which forbids it to everybody until the next boot with another value",
			proc->pid, proc->comm);
	if (!err && status.uid != geteuid()) {
		const struct passwd *user = getpwuid(status.uid);
		char number[16];

		snprintf(number, sizeof(number), "%u", status.uid);
		const char *name = user ? user->pw_name : number;
		if (!status.uid)
			return error_new(
				ERROR_NOT_PERMITTED,
				"not permitted to trace process %d (%s) of user %s: run as root",
				proc->pid, proc->comm, name);
		return error_new(
			ERROR_NOT_PERMITTED,
			"not permitted to trace process %d (%s) of user %s: run as root or as %s",
			proc->pid, proc->comm, name, name);
	}
	if (scope != '0')
		return error_new(
			ERROR_NOT_PERMITTED,
			"not permitted to trace process %d (%s): kernel.yama.ptrace_scope is %c "
			"(run as root)",
			proc->pid, proc->comm, scope);
	return error_new(
		ERROR_NOT_PERMITTED,
		"not permitted to trace process %d (%s): it has rights that you don't have (%s)",
		proc->pid, proc->comm,
		geteuid() ? "run as root" : "run with all capabilities, outside this container");
}

/* For opening /proc/PID/mem the kernel checks the same rights as for ptrace. */
static struct error *check_permission(struct proc *proc)
{
	proc->mem_fd = proc_status_open(proc->pid, "mem", O_RDWR);
	if (proc->mem_fd >= 0)
		return NULL;
	if (errno == EACCES || errno == EPERM)
		return refuse_not_permitted(proc);
	if (errno == ESRCH)
		return no_such_process(proc->pid);
	return error_errno(errno, "cannot open the memory of process %d", proc->pid);
}

static struct error *check_kind(const struct proc *proc)
{
	struct thread_stat stat;
	struct error *err = proc_status_read_stat(proc->pid, proc->pid, &stat);

	if (err)
		return err;
	if (stat.flags & STATUS_PF_KTHREAD)
		return error_new(ERROR_FAILED,
				 "process %d (%s) is a kernel thread: it has no program to trace",
				 proc->pid, proc->comm);
	if (!proc_status_live_thread(proc->pid))
		return error_new(
			ERROR_GONE,
			"process %d (%s) has ended (it is a zombie): nothing is left to trace",
			proc->pid, proc->comm);
	return NULL;
}

/* The first word of the auxiliary vector is a type, a small number. In a 32-bit process the same 8
 * bytes hold two words, so the upper half isn't 0. */
static struct error *check_word_size(const struct proc *proc)
{
	_cleanup_close_ int fd = proc_status_open(proc->pid, "auxv", O_RDONLY);
	uint64_t type;

	if (fd < 0 || read(fd, &type, sizeof(type)) != sizeof(type) || type >> 32 == 0)
		return NULL;
	return error_new(ERROR_FAILED,
			 "process %d (%s) is a 32-bit program: only x86-64 programs can be traced",
			 proc->pid, proc->comm);
}

/* The process and its ancestors, up to the first that hasn't that many filters. */
static size_t list_ancestors(pid_t pid, int filters, pid_t *ret_pids)
{
	size_t count = 0;

	while (pid > 0 && count < ANCESTORS_MAX) {
		struct thread_status status;
		_cleanup_error_ struct error *gone = proc_status_read(pid, pid, &status);

		if (gone || status.seccomp != 2 || status.filters != filters)
			break;
		ret_pids[count++] = pid;
		pid = status.parent;
	}
	return count;
}

/*
 * Filters are inherited, and only ever added. If we have as many as the first process, we have
 * those that all processes of our container begin with, and so has a process with that many. Where
 * the first process is the host's (podman run --pid=host), an ancestor of both of us with that many
 * says the same.
 */
bool proc_has_our_filters(pid_t pid, int filters)
{
	pid_t ours[ANCESTORS_MAX], theirs[ANCESTORS_MAX];
	struct thread_status first;

	if (filters <= 0)
		return false;
	size_t our_count = list_ancestors(getpid(), filters, ours);
	_cleanup_error_ struct error *unknown = proc_status_read(1, 1, &first);
	if (our_count && !unknown && first.seccomp == 2 && first.filters == filters)
		return true;
	size_t their_count = our_count ? list_ancestors(pid, filters, theirs) : 0;
	for (size_t i = 0; i < our_count; i++) {
		for (size_t j = 0; j < their_count; j++) {
			if (ours[i] == theirs[j])
				return true;
		}
	}
	return false;
}

static struct error *check_seccomp(struct proc *proc, int mode, int filters)
{
	if (mode == 1)
		return error_new(
			ERROR_FAILED,
			"process %d (%s) restricts its own system calls (seccomp strict mode), so a "
			"probe's calls could kill it: run it without seccomp to trace it",
			proc->pid, proc->comm);
	if (mode != 2)
		return NULL;
	proc->filtered = true;
	if (filters_may_read() || judged_is(proc))
		return NULL;
	if (proc_has_our_filters(proc->pid, filters)) {
		proc->inherits = true;
		return NULL;
	}
	return error_new(
		ERROR_FAILED,
		"process %d (%s) restricts its own system calls (seccomp filter), and only root, "
		"outside of containers and without a filter, can read what it allows: run 'dyntrace "
		"trace' as root, or the process without the filter",
		proc->pid, proc->comm);
}

static struct error *check_thread(struct proc *proc, pid_t tid)
{
	struct thread_status status;
	_cleanup_error_ struct error *gone = proc_status_read(proc->pid, tid, &status);

	if (gone)
		return NULL;
	if (status.tracer) {
		struct thread_stat tracer = { .comm = "?" };
		_cleanup_error_ struct error *unknown =
			proc_status_read_stat(status.tracer, status.tracer, &tracer);

		return error_new(
			ERROR_FAILED,
			"process %d (%s) is already traced by pid %d (%s): end that one first",
			proc->pid, proc->comm, status.tracer, tracer.comm);
	}
	return check_seccomp(proc, status.seccomp, status.filters);
}

static struct error *check_all(struct proc *proc)
{
	struct tids tids = { 0 };
	struct error *err;

	if ((err = check_kind(proc)) || (err = check_permission(proc)) ||
	    (err = check_word_size(proc)) || (err = valgrind_refuse(proc)) ||
	    (err = threads_list(proc, &tids)))
		return err;
	for (size_t i = 0; !err && i < tids.count; i++)
		err = check_thread(proc, tids.items[i]);
	vec_free(&tids);
	return err;
}

struct error *proc_open(pid_t pid, struct proc **ret_proc)
{
	return proc_open_asking(pid, NULL, ret_proc);
}

struct error *proc_open_asking(pid_t pid, const struct asker *asker, struct proc **ret_proc)
{
	_cleanup_proc_ struct proc *proc = NULL;
	struct error *err = proc_open_plain(pid, &proc);

	if (err)
		return err;
	proc->asker = asker;
	if (asker) /* no thread has a filter, as long as none is seen */
		proc->verdict.magic = VERDICT_MAGIC;
	if ((err = check_all(proc)) || (err = judged_renew(proc)))
		return err;
	*ret_proc = take_ptr(&proc);
	return NULL;
}

struct error *proc_open_forked(pid_t pid, const struct proc *parent, struct proc **ret_proc)
{
	_cleanup_proc_ struct proc *proc = NULL;
	struct error *err = proc_open_plain(pid, &proc);

	if (err)
		return err;
	proc_take_after(proc, parent);
	if ((err = check_all(proc)) || (err = judged_renew(proc)))
		return err;
	*ret_proc = take_ptr(&proc);
	return NULL;
}
