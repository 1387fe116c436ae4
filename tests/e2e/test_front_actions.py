"""The agent's handlers of SIGSEGV and SIGBUS stand in front of the program's, and nobody notices: what the program asks, sets and sends
itself has the results that it has without a tracer (X4, X12, X16)."""
import os
import subprocess

import pytest

from harness import Program, until
from test_plain_loads import GONE, alone, build, has_handlers

PROGRAM = r"""
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include "handshake.h"
""" + GONE + r"""
extern char **environ;
struct kernel_action { void *handler; unsigned long flags; void *restorer; unsigned long mask; };

static void say(const char *what, long number)
{
	char line[128];
	int length = snprintf(line, sizeof(line), "%s: %ld\n", what, number);

	if (write(1, line, (size_t)length) != length)
		_exit(4);
}

static void tell_ignored(void)
{
	for (int number = 1; number < 32; number++) {
		struct sigaction action;

		if (!sigaction(number, NULL, &action) && action.sa_handler == SIG_IGN)
			say("ignored", number);
	}
}

static void nothing(int number) { gone(); }
static void other(int number) { }

static void run_again(char **words, int how)
{
	pid_t pid = 0;
	int status = -1;

	if (how == 'e')
		execv("/proc/self/exe", words);
	if (how == 's' && posix_spawn(&pid, "/proc/self/exe", NULL, NULL, words, environ))
		_exit(5);
	if (how == 'v' && !(pid = vfork())) {
		execv("/proc/self/exe", words);
		_exit(6);
	}
	waitpid(pid, &status, 0);
	say("ended", status);
	gone();
}

/* A signal that is ignored ends no wait. */
static void wait_for_child(void)
{
	int ends[2];
	pid_t parent = getpid();

	if (pipe(ends) || fork() == 0) {
		char path[64], text[256] = "";

		snprintf(path, sizeof(path), "/proc/%d/stat", parent);
		while (!strstr(text, ") S ")) {
			FILE *file = fopen(path, "r");

			if (!file || !fgets(text, sizeof(text), file))
				_exit(1);
			fclose(file);
		}
		kill(parent, SIGSEGV);
		kill(parent, SIGBUS);
		say("written", write(ends[1], "x", 1));
		_exit(0);
	}
	struct pollfd ready = { .fd = ends[0], .events = POLLIN };
	int result = poll(&ready, 1, -1);
	waitpid(-1, NULL, 0);
	say("poll", result);
}

static void try_flags(int number)
{
	static const int flags[] = { SA_RESTART, SA_NODEFER | SA_ONSTACK, SA_RESETHAND, 0x800, 0x400, 0x7f8 };

	for (size_t i = 0; i < 2 * sizeof(flags) / sizeof(flags[0]); i++) {
		struct kernel_action action = { i & 1 ? (void *)nothing : SIG_DFL, flags[i / 2] | 0x4000000, NULL, ~0UL }, now = { 0 };

		syscall(SYS_rt_sigaction, number, &action, NULL, 8);
		syscall(SYS_rt_sigaction, number, NULL, &now, 8);
		say("flags", now.flags);
		say("mask", now.mask);
		say("same", now.handler == action.handler);
		gone();
	}
}

/* The kernel takes the lower half of a signal's number, and of a call's. */
static void try_numbers(void)
{
	struct kernel_action action = { SIG_DFL, 0, NULL, 0 }, now = { 0 };
	long wide = 1L << 32;

	say("asks", syscall(SYS_rt_sigaction, SIGSEGV + wide, NULL, &now, 8));
	say("default", now.handler == SIG_DFL);
	say("sets", syscall(SYS_rt_sigaction, SIGBUS + wide, &action, NULL, 8));
	gone();
	say("asks", syscall(SYS_rt_sigaction + wide, SIGSEGV, NULL, &now, 8));
	say("default", now.handler == SIG_DFL);
	say("sets", syscall(SYS_rt_sigaction + wide, SIGSEGV, &action, NULL, 8));
	gone();
}

static void send_fault(int number)
{
	siginfo_t info = { .si_signo = number, .si_code = SEGV_MAPERR, .si_addr = (void *)0x1234 };

	say("lives", syscall(SYS_rt_tgsigqueueinfo, getpid(), getpid(), number, &info));
}

/* A child of vfork has actions of its own, and finds those of its parent in them at first. */
static void try_in_vfork(void (*own)(int))
{
	struct sigaction first = { .sa_handler = own, .sa_flags = SA_NODEFER }, second = { .sa_handler = other }, was;
	int status = -1;

	sigaddset(&first.sa_mask, SIGUSR2);
	sigaction(SIGSEGV, &first, NULL);
	pid_t pid = vfork();
	if (!pid) {
		for (int i = 0; i < 2; i++) {
			say("sets", sigaction(SIGSEGV, &second, &was));
			say("was its parent's", was.sa_handler == own);
			say("was its own", was.sa_handler == second.sa_handler);
			say("flags", was.sa_flags);
			say("masks", sigismember(&was.sa_mask, SIGUSR2) + 2 * sigismember(&was.sa_mask, SIGUSR1));
		}
		gone();
		_exit(0);
	}
	waitpid(pid, &status, 0);
	say("ended", status);
	sigaction(SIGSEGV, NULL, &was);
	say("is its own", was.sa_handler == own);
	gone();
}

static void note(int number) { say("handled", number); }

static void take_away(int number)
{
	say("takes away", number);
	signal(SIGFPE, SIG_DFL);
	signal(SIGILL, SIG_DFL);
}

static void install_note(void)
{
	signal(SIGFPE, note);
	signal(SIGILL, note);
	signal(SIGUSR1, take_away);
}

/* The last one's handler begins first, and takes the others' actions away, which are about to begin. */
static void try_together(void)
{
	sigset_t set, old;

	sigemptyset(&set);
	sigaddset(&set, SIGFPE);
	sigaddset(&set, SIGILL);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, &old);
	raise(SIGFPE);
	raise(SIGILL);
	raise(SIGUSR1);
	sigprocmask(SIG_SETMASK, &old, NULL);
}

/* A forked process that has hit nothing yet, and what its children do with their own actions. */
static void try_in_forked(void)
{
	char *words[] = { "again", "again", NULL };
	struct sigaction was;
	int status = -1;
	pid_t pid = fork();

	if (pid) {
		waitpid(pid, &status, 0);
		say("ended", status);
		return;
	}
	signal(SIGSEGV, nothing);
	if (posix_spawn(&pid, "/proc/self/exe", NULL, NULL, words, environ))
		_exit(5);
	waitpid(pid, &status, 0);
	sigaction(SIGSEGV, NULL, &was);
	say("is its own", was.sa_handler == nothing);
	if (!(pid = vfork())) {
		signal(SIGSEGV, other);
		signal(SIGBUS, other);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	sigaction(SIGSEGV, NULL, &was);
	say("is its own", was.sa_handler == nothing);
	sigaction(SIGBUS, NULL, &was);
	say("is default", was.sa_handler == SIG_DFL);
	raise(SIGSEGV);
	gone();
	_exit(0);
}

int main(int argc, char **argv)
{
	const char *what = argv[argc - 1];
	char *again[] = { "again", "again", NULL };

	if (strcmp(what, "again") == 0) {
		tell_ignored();
		return 0;
	}
	if (strncmp(what, "before", 6) == 0)
		signal(SIGBUS, SIG_IGN);
	if (strcmp(what, "together-before") == 0)
		install_note();
	handshake(argc, argv);
	gone();
	gone();
	if (strcmp(what, "together") == 0)
		install_note();
	if (strncmp(what, "together", 8) == 0)
		try_together();
	if (strncmp(what, "ignore", 6) == 0) {
		signal(SIGSEGV, SIG_IGN);
		gone();
		signal(SIGBUS, SIG_IGN);
		gone();
	}
	if (strncmp(what, "ignore-", 7) == 0)
		run_again(again, what[7]);
	if (strcmp(what, "ignore") == 0)
		wait_for_child();
	if (strcmp(what, "ignores-first") == 0) {
		signal(SIGSEGV, nothing);
		signal(SIGBUS, SIG_DFL);
		raise(SIGSEGV);
	}
	if (strcmp(what, "flags") == 0) {
		try_flags(SIGSEGV);
		try_flags(SIGBUS);
	}
	if (strcmp(what, "numbers") == 0)
		try_numbers();
	if (strcmp(what, "forked-vfork") == 0)
		try_in_forked();
	if (strcmp(what, "vfork") == 0)
		try_in_vfork(nothing);
	if (strcmp(what, "vfork-default") == 0)
		try_in_vfork(SIG_DFL);
	if (strcmp(what, "sent") == 0)
		send_fault(SIGSEGV);
	if (strcmp(what, "sent-bus") == 0)
		send_fault(SIGBUS);
	gone();
	tell_ignored();
	handshake(argc, argv);
	return 0;
}
"""


@pytest.fixture(name="path")
def build_program(scratch):
    return build(scratch, "actions", PROGRAM)


@pytest.mark.parametrize("what", ["nothing", "ignore", "ignore-exec", "ignore-spawn", "ignore-vfork", "ignores-first", "flags",
                                  "numbers", "sent", "sent-bus", "vfork", "vfork-default", "forked-vfork", "together", "together-before"])
def test_actions(dyntrace, processes, path, what):
    without = alone(path, what)
    target = Program(processes, path, [what]).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--function", "take")
    until(lambda: has_handlers(target.pid), "handlers in front")
    assert target.finish(without[1]) == without[0]
    tracing.process.communicate(timeout=30)


def test_ignored_before(dyntrace, processes, path):
    """(X12) A process that ignores one of the signals has no handler of ours."""
    target = Program(processes, path, ["before"]).wait_ready()
    dyntrace.start_trace(target.pid, "--function", "take").wait_told()
    assert not has_handlers(target.pid)
    assert target.finish() == alone(path, "before")[0]


ENDS = r"""
#include <signal.h>
#include <sys/mman.h>
#include "handshake.h"
__attribute__((noipa)) void take(const char *text) { __asm__ volatile("nop; nop; nop; nop; nop" : : "r"(text)); }
/* its first instruction, which a probe moves, faults */
__asm__(".text\n.globl store\n.type store, @function\nstore: movl $1, 16(%rsi)\nnop\nnop\nnop\nret\n.size store, . - store");
void store(const char *text, char *to);

int main(int argc, char **argv)
{
	const char *what = argv[argc - 1];
	char *page = mmap((void *)0x10000000, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

	handshake(argc, argv);
	for (int i = 0; i < 8; i++)
		take("here");
	if (strcmp(what, "moved") == 0)
		store("here", page);
	if (strcmp(what, "own") == 0)
		page[24] = 1;
	if (strcmp(what, "queued") == 0)
		sigqueue(getpid(), SIGBUS, (union sigval){ .sival_int = 42 });
	handshake(argc, argv);
	return 0;
}
"""


def end_under_debugger(processes, target):
    """What a core dump would show: the signal at the last stop before the end, and where the thread was."""
    words = ["handle all nostop noprint pass", "handle SIGSEGV SIGBUS stop print pass"]
    shown = ["p $_siginfo.si_signo", "p $_siginfo.si_code", "p/x $_siginfo._sifields._sigfault.si_addr", "info symbol $pc", "p $rsi == 0x10000000"]
    debugger = processes.start(["gdb", "-nx", "-q", "-batch", "-p", target.pid, *[part for word in words for part in ("-ex", word)],
                                "-ex", "echo ready\\n", *[part for _ in range(2) for word in ("continue", *shown) for part in ("-ex", word)]],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    while debugger.stdout.readline() != "ready\n":
        assert debugger.poll() is None
    target.go()
    lines = debugger.communicate(timeout=60)[0].splitlines()
    stops = [i for i, line in enumerate(lines) if "received signal" in line]
    return [line.partition(" = ")[2] or line for line in lines[stops[-1]:] if line.startswith("$") or " in section " in line]


@pytest.mark.parametrize("what", ["moved", "own", "queued"])
def test_core_dumps_show_the_program(dyntrace, processes, scratch, what):
    path = build(scratch, "ends", ENDS)
    alone_target = Program(processes, path, [what]).wait_ready()
    without = end_under_debugger(processes, alone_target)
    target = Program(processes, path, [what]).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--function", "take", "--function", "store")
    until(lambda: has_handlers(target.pid), "handlers in front")
    found = end_under_debugger(processes, target)
    if what == "queued":  # the sender's pid
        without[2] = found[2]
    assert found == without
    tracing.process.communicate(timeout=30)
