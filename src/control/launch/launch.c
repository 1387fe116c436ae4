/*
 * launch.c - start a command.
 *
 * The child waits until we have seized it, then tries one name after the other. The kernel reports
 * the exec that succeeds (PTRACE_EVENT_EXEC, also for the interpreter of a script), and from there
 * the thread is taken to an event stop (S1) before its first instruction. PTRACE_O_EXITKILL holds
 * until the command is let go: if the controller dies first, no half started command stays behind.
 */
#include "launch.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "control/base/vec.h"
#include "control/proc/proc_end.h"
#include "control/proc/unreleased.h"
#include "control/proc/valgrind.h"
#include "control/stop/held.h"
#include "loader.h"

#define LAUNCH_OPTIONS (PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL)
#define LAUNCH_SHELL "/bin/sh"
#define LAUNCH_DEFAULT_PATH "/usr/local/bin:/bin:/usr/bin"
#define REMOVE_TRIES 8

struct launch {
	struct proc *proc;
	pid_t pid;
	bool gone; /* let go by launch_go */
	bool adopted; /* by launch_adopt */
	bool own_child; /* adopted, but a child of ours: another launch waits for its end */
	bool ended;
	int status;
};

/* ---- inherited signal state ------------------------------------------------------------------ */

static struct {
	bool known;
	sigset_t mask;
	bool ignored[_NSIG];
} inherited;

void launch_remember_signals(void)
{
	for (int signal = 1; signal < _NSIG; signal++) {
		struct sigaction action;

		inherited.ignored[signal] = !sigaction(signal, NULL, &action) &&
					    action.sa_handler == SIG_IGN;
	}
	sigprocmask(SIG_SETMASK, NULL, &inherited.mask);
	inherited.known = true;
}

static void restore_signals(void)
{
	if (!inherited.known)
		return;
	for (int signal = 1; signal < _NSIG; signal++) {
		struct sigaction action = { .sa_handler =
						    inherited.ignored[signal] ? SIG_IGN : SIG_DFL };

		sigaction(signal, &action, NULL);
	}
	sigprocmask(SIG_SETMASK, &inherited.mask, NULL);
}

/* ---- names ----------------------------------------------------------------------------------- */

struct names {
	char **items;
	size_t count;
	size_t room;
};

static void names_free(struct names *names)
{
	for (size_t i = 0; i < names->count; i++)
		free(names->items[i]);
	vec_free(names);
}

/* Lists all names that execvp would try, in its order. */
static struct error *list_names(const char *command, struct names *names)
{
	const char *path = getenv("PATH");
	char *name = NULL;

	if (strchr(command, '/') || !*command) {
		name = strdup(command);
		return name && vec_push(names, name) ? NULL :
						       error_new(ERROR_FAILED, "out of memory");
	}
	if (!path)
		path = LAUNCH_DEFAULT_PATH;
	for (const char *at = path;; at++) {
		size_t length = strcspn(at, ":");

		if (asprintf(&name, "%.*s%s%s", (int)length, at, length ? "/" : "", command) < 0 ||
		    !vec_push(names, name))
			return error_new(ERROR_FAILED, "out of memory");
		at += length;
		if (!*at)
			return NULL;
	}
}

/* ---- the child ------------------------------------------------------------------------------- */

struct start {
	char *const *argv;
	char **shell_argv; /* for a script without #! */
	struct names names;
	int go[2]; /* closed by the parent when the child is seized */
	int failed[2]; /* carries the child's errno; a successful exec just closes it */
};

static int run_script(const struct start *start, char *name)
{
	start->shell_argv[1] = name;
	execv(LAUNCH_SHELL, start->shell_argv);
	return errno;
}

/* Like execvp: skips names that don't exist, and remembers one that isn't permitted. */
static int try_names(const struct start *start)
{
	int worst = ENOENT;

	for (size_t i = 0; i < start->names.count; i++) {
		execv(start->names.items[i], start->argv);
		if (errno == ENOEXEC)
			return run_script(start, start->names.items[i]);
		if (errno == EACCES)
			worst = EACCES;
		else if (errno != ENOENT && errno != ENOTDIR && errno != ESTALE &&
			 errno != ENODEV && errno != ETIMEDOUT)
			return errno;
	}
	return worst;
}

/* Calls only functions that are safe between fork and exec. */
__attribute__((noreturn)) static void run_child(const struct start *start)
{
	char byte;
	int number;

	close(start->go[1]);
	while (read(start->go[0], &byte, 1) < 0 && errno == EINTR)
		;
	restore_signals();
	number = try_names(start);
	while (write(start->failed[1], &number, sizeof(number)) < 0 && errno == EINTR)
		;
	_exit(127);
}

/* ---- the parent ------------------------------------------------------------------------------ */

static struct error *exec_failed(const char *name, int number)
{
	if (number == ENOENT && !strchr(name, '/'))
		return error_new(ERROR_NOT_FOUND,
				 "%s: no such command: check its spelling and PATH", name);
	if (number == ENOENT && !access(name, F_OK))
		return error_new(ERROR_NOT_FOUND,
				 "%s: its interpreter does not exist (the program behind #! in its "
				 "first line, or its dynamic loader)",
				 name);
	if (number == ENOENT || number == ENOTDIR)
		return error_new(ERROR_NOT_FOUND, "%s: no such command", name);
	if (number == EACCES || number == EPERM)
		return error_new(
			ERROR_NOT_PERMITTED,
			"%s: may not be executed (is it a program, with execute permission?)",
			name);
	return error_new(ERROR_NOT_PERMITTED, "cannot start %s: %s", name, strerror(number));
}

static void note_end(struct launch *launch, int status)
{
	launch->ended = true;
	launch->status = status;
	if (launch->proc) {
		launch->proc->reaped = true;
		launch->proc->reaped_status = status;
		launch->proc->held_tid = 0;
	}
}

/* Waits for the next report of the command. False: it has ended. */
static bool next_stop(struct launch *launch, int *ret_status)
{
	int status = 0;
	pid_t got;

	do
		got = waitpid(launch->pid, &status, __WALL);
	while (got < 0 && errno == EINTR);
	if (got == launch->pid && WIFSTOPPED(status)) {
		*ret_status = status;
		return true;
	}
	if (got < 0 && launch->proc) /* a stop of ours has taken the report of its end */
		proc_end_status(launch->proc, &status);
	note_end(launch, status);
	return false;
}

/* Lets the command run on from the stop it reported, and delivers the signal if it was one. */
static void pass_on(const struct launch *launch, int status, int request)
{
	int signal = status >> 16 ? 0 : WSTOPSIG(status);

	/* a group-stop: stay stopped until SIGCONT */
	if (status >> 16 == PTRACE_EVENT_STOP && WSTOPSIG(status) != SIGTRAP)
		request = PTRACE_LISTEN;
	ptrace((enum __ptrace_request)request, launch->pid, 0, signal);
}

/* Waits for the exec that succeeds. False: the child ended without one. */
static bool await_exec(struct launch *launch)
{
	int status;

	while (next_stop(launch, &status)) {
		if (status >> 16 == PTRACE_EVENT_EXEC)
			return true;
		pass_on(launch, status, PTRACE_CONT);
	}
	return false;
}

/* Takes the command from any stop to an event stop, without executing an instruction. */
static bool to_event_stop(struct launch *launch)
{
	int status, signal = 0;

	do {
		ptrace(PTRACE_INTERRUPT, launch->pid, 0, 0);
		ptrace(PTRACE_CONT, launch->pid, 0, signal);
		if (!next_stop(launch, &status))
			return false;
		signal = status >> 16 ? 0 : WSTOPSIG(status);
	} while (status >> 16 != PTRACE_EVENT_STOP);
	return true;
}

static struct error *take_child(struct launch *launch, struct start *start)
{
	int number = 0;

	close(start->failed[1]);
	start->failed[1] = -1;
	close(start->go[0]);
	start->go[0] = -1;
	if (ptrace(PTRACE_SEIZE, launch->pid, 0, LAUNCH_OPTIONS))
		return error_errno(errno, "cannot trace a child process");
	close(start->go[1]);
	start->go[1] = -1;
	if (!await_exec(launch)) {
		if (read(start->failed[0], &number, sizeof(number)) == sizeof(number))
			return exec_failed(start->argv[0], number);
		return error_new(ERROR_GONE, "%s ended before it began", start->argv[0]);
	}
	if (!to_event_stop(launch))
		return error_new(ERROR_GONE, "%s ended before it began", start->argv[0]);
	return NULL;
}

static struct error *check_word_size(const struct launch *launch, const char *name)
{
	char path[64];
	uint64_t type = 0;

	snprintf(path, sizeof(path), "/proc/%d/auxv", launch->pid);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && read(fd, &type, sizeof(type)) == sizeof(type) && type >> 32)
		return error_new(ERROR_FAILED,
				 "%s is a 32-bit program: only x86-64 programs can be traced",
				 name);
	return NULL;
}

static struct error *start_child(struct launch *launch, struct start *start)
{
	struct error *err;

	if (pipe2(start->go, O_CLOEXEC) || pipe2(start->failed, O_CLOEXEC))
		return error_errno(errno, "cannot start %s", start->argv[0]);
	launch->pid = fork();
	if (launch->pid < 0)
		return error_errno(errno, "cannot start %s", start->argv[0]);
	if (!launch->pid)
		run_child(start);
	if ((err = take_child(launch, start)) || (err = check_word_size(launch, start->argv[0])) ||
	    (err = proc_open_plain(launch->pid, &launch->proc)) ||
	    (err = valgrind_refuse(launch->proc)))
		return err;
	launch->proc->held_tid = launch->pid;
	launch->proc->inherits = true;
	return NULL;
}

struct error *launch_start(char *const argv[], struct launch **ret_launch)
{
	struct start start = { .argv = argv, .go = { -1, -1 }, .failed = { -1, -1 } };
	struct launch *launch = calloc(1, sizeof(*launch));
	size_t argc = 0;
	struct error *err;

	while (argv[argc])
		argc++;
	start.shell_argv = calloc(argc + 2, sizeof(char *));
	if (launch && start.shell_argv && argc) {
		start.shell_argv[0] = (char *)LAUNCH_SHELL;
		memcpy(start.shell_argv + 2, argv + 1, (argc - 1) * sizeof(char *));
		err = list_names(argv[0], &start.names);
	} else {
		err = argc ? error_new(ERROR_FAILED, "out of memory") :
			     error_new(ERROR_USAGE, "no command was given");
	}
	if (!err)
		err = start_child(launch, &start);
	for (size_t i = 0; i < 2; i++) {
		cleanup_close(&start.go[i]);
		cleanup_close(&start.failed[i]);
	}
	names_free(&start.names);
	free(start.shell_argv);
	if (err) {
		launch_free(launch);
		return err;
	}
	*ret_launch = launch;
	return NULL;
}

struct error *launch_adopt(struct proc *before, struct launch **ret_launch)
{
	pid_t pid = before->pid;
	struct launch *launch = calloc(1, sizeof(*launch));
	struct error *err = NULL;

	if (!launch) {
		ptrace(PTRACE_DETACH, pid, 0, 0);
		return error_new(ERROR_FAILED, "out of memory");
	}
	launch->pid = pid;
	launch->adopted = true;
	launch->own_child = before->own_child;
	if (!to_event_stop(launch))
		err = error_new(ERROR_GONE, "process %d has ended", pid);
	if (!err)
		err = check_word_size(launch, "it");
	if (!err)
		err = proc_open_plain(pid, &launch->proc);
	if (!err)
		err = valgrind_refuse(launch->proc);
	if (launch->ended) {
		before->reaped = true;
		before->reaped_status = launch->status;
	}
	if (err) {
		launch_free(launch);
		return err;
	}
	launch->proc->held_tid = pid;
	*ret_launch = launch;
	return NULL;
}

struct proc *launch_proc(struct launch *launch)
{
	return launch->proc;
}

/* ---- running to a breakpoint ----------------------------------------------------------------- */

static struct error *command_ended(const struct launch *launch)
{
	if (launch->adopted || !launch->ended)
		return error_new(ERROR_GONE, "process %d has ended", launch->pid);
	return error_new(ERROR_GONE, "the command %s %d before it could be traced",
			 WIFSIGNALED(launch->status) ? "was killed by signal" :
						       "ended with exit status",
			 WIFSIGNALED(launch->status) ? WTERMSIG(launch->status) :
						       WEXITSTATUS(launch->status));
}

/* Runs to the breakpoint at `at`, which the caller has written. Passes other reports on. */
static struct error *run_to_break(struct launch *launch, taddr at,
				  struct user_regs_struct *ret_regs)
{
	int status = PTRACE_EVENT_STOP << 16 | SIGTRAP << 8 | 0x7f;

	for (;;) {
		pass_on(launch, status, PTRACE_CONT);
		if (!next_stop(launch, &status))
			return command_ended(launch);
		if (status >> 16 || WSTOPSIG(status) != SIGTRAP)
			continue;
		if (ptrace(PTRACE_GETREGS, launch->pid, 0, ret_regs))
			return command_ended(launch);
		if (ret_regs->rip == at.v + 1)
			return NULL;
	}
}

/* Executes one instruction: the one that the breakpoint covered. */
static struct error *step(struct launch *launch)
{
	int status;

	ptrace(PTRACE_SINGLESTEP, launch->pid, 0, 0);
	while (next_stop(launch, &status)) {
		if (!(status >> 16) && WSTOPSIG(status) == SIGTRAP)
			return NULL;
		pass_on(launch, status, PTRACE_SINGLESTEP);
	}
	return command_ended(launch);
}

/* A program that went on with the breakpoint would die. Its page was written before, and can be
 * written again. */
static struct error *remove_break(struct launch *launch, taddr at, uint8_t byte)
{
	struct error *err = mem_write(launch->proc, at, &byte, 1);

	for (int i = 1; err && i < REMOVE_TRIES && error_kind(err) != ERROR_GONE; i++) {
		error_free(err);
		err = mem_write(launch->proc, at, &byte, 1);
	}
	return err;
}

/* Sets a breakpoint, runs to it, removes it, and sets rip to its address. */
static struct error *run_to(struct launch *launch, taddr at)
{
	static const uint8_t trap = 0xcc;
	struct user_regs_struct regs;
	uint8_t byte;
	struct error *err;

	if ((err = mem_read(launch->proc, at, &byte, 1)) ||
	    (err = mem_write(launch->proc, at, &trap, 1)) ||
	    (err = run_to_break(launch, at, &regs)) || (err = remove_break(launch, at, byte)))
		return err;
	regs.rip = at.v;
	if (ptrace(PTRACE_SETREGS, launch->pid, 0, &regs))
		return command_ended(launch);
	return NULL;
}

struct error *launch_run_to(struct launch *launch, taddr at)
{
	assert(!launch->gone);
	mem_set_stopped_thread(launch->proc, launch->pid);
	struct error *err = run_to(launch, at);
	mem_set_stopped_thread(launch->proc, 0);
	if (!err && !to_event_stop(launch))
		err = command_ended(launch);
	return err;
}

struct error *launch_run_to_loaded(struct launch *launch, bool *ret_loaded)
{
	struct loader loader;
	bool found = false;
	assert(!launch->gone);
	struct error *err = loader_find(launch->proc, &loader, &found);

	if (!err && !found)
		*ret_loaded = false;
	if (err || !found)
		return err;
	mem_set_stopped_thread(launch->proc, launch->pid);
	for (bool done = false; !err && !done;) {
		err = run_to(launch, loader.notify);
		if (!err)
			err = loader_look(launch->proc, &loader, &done);
		if (!err && !done)
			err = step(launch);
	}
	mem_set_stopped_thread(launch->proc, 0);
	if (!err && !to_event_stop(launch))
		err = command_ended(launch);
	if (!err)
		*ret_loaded = true;
	return err;
}

/* ---- release and end ------------------------------------------------------------------------- */

/* A process of others that is being killed is waited for: only then its parent sees its end. */
static long detach(const struct launch *launch)
{
	long failed = ptrace(PTRACE_DETACH, launch->pid, 0, 0);
	int number = errno;

	if (failed && number == ESRCH && launch->adopted && !launch->own_child)
		unreleased_add(launch->pid, false);
	errno = number;
	return failed;
}

struct error *launch_go(struct launch *launch)
{
	launch->gone = true;
	if (launch->ended || launch->proc->reaped || launch->proc->held_tid != launch->pid)
		return NULL; /* it has ended or was let go: launch_poll reports the end */
	launch->proc->held_tid = 0;
	if (detach(launch) && errno != ESRCH)
		return error_errno(errno, "cannot let process %d run", launch->pid);
	return NULL;
}

struct error *launch_poll(struct launch *launch, bool *ret_ended, int *ret_status)
{
	int status = 0;

	if (launch->proc && launch->proc->reaped && !launch->ended)
		note_end(launch, launch->proc->reaped_status);
	if (!launch->ended) {
		pid_t got = waitpid(launch->pid, &status, WNOHANG | __WALL);

		int number = errno;
		/* a part of ours that held it under another struct proc may have seen its end */
		bool taken = got < 0 && number == ECHILD && launch->proc &&
			     proc_end_status(launch->proc, &status);
		if (got < 0 && !taken && number != EINTR)
			return error_errno(number, "cannot wait for process %d", launch->pid);
		if (taken || (got == launch->pid && !WIFSTOPPED(status)))
			note_end(launch, status);
	}
	*ret_ended = launch->ended;
	if (launch->ended)
		*ret_status = launch->status;
	return NULL;
}

void launch_free(struct launch *launch)
{
	if (!launch)
		return;
	if (launch->proc && launch->proc->reaped)
		launch->ended = true;
	if (launch->adopted && !launch->gone && !launch->ended) {
		detach(launch);
	} else if (launch->pid > 0 && !launch->gone && !launch->ended) {
		kill(launch->pid, SIGKILL);
		while (waitpid(launch->pid, NULL, __WALL) < 0 && errno == EINTR)
			;
	}
	proc_close(launch->proc);
	free(launch);
}
