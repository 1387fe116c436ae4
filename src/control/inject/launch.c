/*
 * launch.c
 *
 * The child waits on a pipe until it is seized, then tries execve along PATH. The exec event stops it at the first
 * instruction of the new image (for a #! script: of its interpreter). What went wrong before comes back
 * through a second pipe, which a successful execve closes.
 */
#include "launch.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../base/cleanup.h"
#include "../sym/sym.h"

#define INT3 0xcc
#define LOADER_STOPS_MAX 1000

struct launch {
	struct proc *proc;
	pid_t pid;
	bool held; /* in our ptrace stop */
	bool ended;
	int status;
};

/* ---- the child -------------------------------------------------------------------------------- */

/* What the child says when execve failed: errno. */
static void child_fail(int fd, int number)
{
	ssize_t written = write(fd, &number, sizeof(number));

	_exit(written == sizeof(number) ? 127 : 126);
}

static void child_run(char *const argv[], int go_fd, int error_fd)
{
	char byte;

	/* As execvp searches; what has no #! and isn't ELF goes to /bin/sh as a shell does it. */
	if (read(go_fd, &byte, 1) != 1)
		_exit(127);
	execvp(argv[0], argv);
	child_fail(error_fd, errno);
}

/* ---- the parent ------------------------------------------------------------------------------- */

static struct error *cannot_start(const char *name, int number)
{
	if (number == ENOENT || number == ENOTDIR)
		return error_new(ERROR_NOT_FOUND, "%s: no such command", name);
	if (number == EACCES || number == EPERM)
		return error_new(ERROR_NOT_PERMITTED, "%s: may not be executed (is it a program, with execute permission?)",
				 name);
	return error_errno(number, "cannot start %s", name);
}

static int wait_for(pid_t pid, int *ret_status)
{
	int got;

	do {
		got = waitpid(pid, ret_status, __WALL);
	} while (got < 0 && errno == EINTR);
	return got;
}

static bool is_exec_stop(int status)
{
	return WIFSTOPPED(status) && status >> 8 == (SIGTRAP | PTRACE_EVENT_EXEC << 8);
}

/* Runs the seized child up to its exec event. *ret_status says how it ended if it didn't get there. */
static bool run_to_exec(pid_t pid, int *ret_status)
{
	int status;

	while (wait_for(pid, &status) == pid && WIFSTOPPED(status)) {
		if (is_exec_stop(status))
			return true;
		int event = status >> 16;
		int number = event ? 0 : WSTOPSIG(status);

		ptrace(PTRACE_CONT, pid, 0, number);
	}
	*ret_status = status;
	return false;
}

static void kill_child(pid_t pid)
{
	int status;

	kill(pid, SIGKILL);
	while (wait_for(pid, &status) == pid && !WIFEXITED(status) && !WIFSIGNALED(status))
		;
}

static struct error *trace_child(pid_t pid, const char *name, int go_fd, int error_fd)
{
	int number = 0, status = 0;

	if (ptrace(PTRACE_SEIZE, pid, 0, PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD)) {
		number = errno;
		kill_child(pid);
		return error_errno(number, "cannot trace %s", name);
	}
	if (write(go_fd, "", 1) != 1 || !run_to_exec(pid, &status)) {
		if (read(error_fd, &number, sizeof(number)) == sizeof(number))
			return cannot_start(name, number);
		return error_new(ERROR_FAILED, "%s ended before it had begun", name);
	}
	return NULL;
}

static struct error *start_child(char *const argv[], pid_t *ret_pid)
{
	int go[2], fail[2];

	if (pipe2(go, O_CLOEXEC))
		return error_errno(errno, "cannot make a pipe");
	if (pipe2(fail, O_CLOEXEC)) {
		close(go[0]);
		close(go[1]);
		return error_errno(errno, "cannot make a pipe");
	}
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		close(go[1]);
		child_run(argv, go[0], fail[1]);
	}
	close(go[0]);
	close(fail[1]);
	struct error *error = pid < 0 ? error_errno(errno, "cannot fork") :
					trace_child(pid, argv[0], go[1], fail[0]);
	close(go[1]);
	close(fail[0]);
	if (!error)
		*ret_pid = pid;
	return error;
}

struct error *launch_start(char *const argv[], struct launch **ret_launch)
{
	struct launch *launch = calloc(1, sizeof(*launch));
	struct error *error = launch ? start_child(argv, &launch->pid) :
				       error_new(ERROR_FAILED, "out of memory");

	if (error) {
		free(launch);
		return error;
	}
	launch->held = true;
	error = proc_open_plain(launch->pid, &launch->proc);
	if (error) {
		launch_free(launch);
		return error_wrap(error, "cannot trace %s", argv[0]);
	}
	*ret_launch = launch;
	return NULL;
}

struct proc *launch_proc(struct launch *launch)
{
	return launch->proc;
}

/* ---- up to where libraries are loaded --------------------------------------------------------- */

struct loader {
	taddr brk; /* _dl_debug_state, which ld.so calls when its list of libraries changes */
	taddr debug; /* struct r_debug */
	uint8_t byte; /* what int3 replaced */
};

/* ld.so is the one module besides the program and the vdso that is there at the first instruction. */
static struct error *find_loader(struct launch *launch, struct loader *ret_loader, bool *ret_found)
{
	struct maps maps = { 0 };
	struct modules modules = { 0 };
	struct error *error = maps_read(launch->proc, &maps);

	if (!error)
		error = modules_read(launch->proc, &maps, &modules);
	for (size_t i = 0; i < modules.count && !error; i++) {
		struct module *module = modules.items[i];
		struct symtab *symtab;

		if (module->is_executable || module->is_vdso)
			continue;
		error = module_symtab(launch->proc, module, &symtab);
		if (error)
			break;
		const struct symbol *brk = symtab_find(symtab, "_dl_debug_state");
		const struct symbol *debug = symtab_find(symtab, "_r_debug");
		if (!brk || !debug)
			continue;
		ret_loader->brk = taddr_add(module->bias, (int64_t)brk->address);
		ret_loader->debug = taddr_add(module->bias, (int64_t)debug->address);
		*ret_found = true;
	}
	modules_free(&modules);
	maps_free(&maps);
	return error;
}

static struct error *gone(struct launch *launch, int status)
{
	launch->ended = true;
	launch->held = false;
	launch->status = status;
	return error_new(ERROR_GONE, "the command ended while its libraries were loaded");
}

/* Goes on until the int3 at the loader's hook, passing signals on. */
static struct error *run_to_hook(struct launch *launch, taddr hook)
{
	struct user_regs_struct regs;
	int number = 0, status;

	for (int i = 0; i < LOADER_STOPS_MAX; i++) {
		if (ptrace(PTRACE_CONT, launch->pid, 0, number) || wait_for(launch->pid, &status) < 0)
			return error_errno(errno, "cannot let the command go on");
		if (!WIFSTOPPED(status))
			return gone(launch, status);
		number = status >> 16 ? 0 : WSTOPSIG(status);
		if (ptrace(PTRACE_GETREGS, launch->pid, 0, &regs))
			return error_errno(errno, "cannot read the command's registers");
		if (number == SIGTRAP && regs.rip == hook.v + 1) {
			regs.rip = hook.v;
			if (ptrace(PTRACE_SETREGS, launch->pid, 0, &regs))
				return error_errno(errno, "cannot set the command's registers");
			return NULL;
		}
	}
	return error_new(ERROR_FAILED, "the command's loader doesn't get on");
}

/* From the trap's own stop, which would deliver SIGTRAP, to an event stop at the same instruction. */
static struct error *swallow_trap(struct launch *launch)
{
	int status;

	if (ptrace(PTRACE_INTERRUPT, launch->pid, 0, 0) || ptrace(PTRACE_CONT, launch->pid, 0, 0) ||
	    wait_for(launch->pid, &status) < 0)
		return error_errno(errno, "cannot hold the command");
	return WIFSTOPPED(status) ? NULL : gone(launch, status);
}

/* One step over the restored instruction at the hook. */
static struct error *step_over(struct launch *launch)
{
	int status;

	if (ptrace(PTRACE_SINGLESTEP, launch->pid, 0, 0) || wait_for(launch->pid, &status) < 0)
		return error_errno(errno, "cannot let the command go on");
	return WIFSTOPPED(status) ? NULL : gone(launch, status);
}

static struct error *is_loaded(struct launch *launch, const struct loader *loader, bool *ret_loaded)
{
	struct r_debug debug;
	struct error *error = mem_read(launch->proc, loader->debug, &debug, sizeof(debug));

	*ret_loaded = !error && debug.r_state == RT_CONSISTENT && debug.r_map;
	return error;
}

struct error *launch_run_to_loaded(struct launch *launch, bool *ret_loaded)
{
	const uint8_t trap = INT3;
	struct loader loader;
	bool found = false, loaded = false;
	struct error *error = find_loader(launch, &loader, &found);

	*ret_loaded = false;
	if (error || !found)
		return error;
	error = mem_read(launch->proc, loader.brk, &loader.byte, 1);
	while (!error && !loaded) {
		error = mem_write(launch->proc, loader.brk, &trap, 1);
		if (!error)
			error = run_to_hook(launch, loader.brk);
		if (error)
			return error;
		error = mem_write(launch->proc, loader.brk, &loader.byte, 1);
		if (!error)
			error = is_loaded(launch, &loader, &loaded);
		if (!error && !loaded)
			error = step_over(launch);
	}
	if (!error)
		error = swallow_trap(launch);
	*ret_loaded = !error;
	return error;
}

/* ---- the end ---------------------------------------------------------------------------------- */

struct error *launch_go(struct launch *launch)
{
	if (!launch->held)
		return NULL;
	launch->held = false;
	if (ptrace(PTRACE_DETACH, launch->pid, 0, 0))
		return error_errno(errno, "cannot let the command go on");
	return NULL;
}

struct error *launch_poll(struct launch *launch, bool *ret_ended, int *ret_status)
{
	int status;

	if (!launch->ended) {
		pid_t got = waitpid(launch->pid, &status, WNOHANG);

		if (got < 0 && errno != EINTR)
			return error_errno(errno, "cannot wait for the command");
		if (got == launch->pid && (WIFEXITED(status) || WIFSIGNALED(status))) {
			launch->ended = true;
			launch->status = status;
		}
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
	if (launch->held && !launch->ended)
		kill_child(launch->pid);
	proc_close(launch->proc);
	free(launch);
}
