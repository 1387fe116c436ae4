"""Plain loads go on after a signal's handler has returned, also one that runs with SIGSEGV and SIGBUS blocked (X6): its first instruction has
a probe of dyntrace's own, by which no hit inside of it loads from memory that may have gone."""
import os
import re
import signal

import pytest

from harness import Program, await_sleeps, status, stracing, until
from stepper import Stepper
from test_plain_loads import alone, build, has_handlers
FUTEX = 202
PROGRAM = r"""
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include "handshake.h"
#define CALLS 1000
#define TURNS 3

static char *gone;
static int handled;
static long early;

__attribute__((noipa)) void take(const char *text, long where)
{
	__asm__ volatile("nop; nop; nop; nop; nop" : : "r"(text), "r"(where) : "memory");
}

/* Memory that could be read a moment before goes away inside. */
__attribute__((noipa)) void on_signal(int number)
{
	handled += number == SIGUSR2;
	if (early)
		return;
	take(gone, 1);
	mprotect(gone, 4096, PROT_NONE);
	take(gone, 2);
	mprotect(gone, 4096, PROT_READ | PROT_WRITE);
}

static void install(int blocks)
{
	struct sigaction action = { .sa_handler = on_signal };

	if (blocks)
		sigfillset(&action.sa_mask);
	sigaction(SIGUSR2, &action, NULL);
}

/* Calls without a pause until the test says go. */
static void call_all_the_time(const char *text, int go)
{
	struct pollfd told = { .fd = go, .events = POLLIN };

	do {
		for (int i = 0; i < CALLS; i++)
			take(text, 4);
	} while (poll(&told, 1, 0) <= 0);
}

int main(int argc, char **argv)
{
	long blocks = handshake_option(argc, argv, "blocks", 0), late = handshake_option(argc, argv, "late", 0);
	char *text = strdup("in the heap");

	early = handshake_option(argc, argv, "early", 0);

	gone = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	strcpy(gone, "here");
	if (!late)
		install((int)blocks);
	printf("%p\n", (void *)on_signal);
	fflush(stdout);
	handshake(argc, argv);
	if (handshake_option(argc, argv, "hot", 0)) {
		call_all_the_time(text, (int)handshake_option(argc, argv, "go-fd", -1));
		handshake(argc, argv);
	}
	if (late)
		install((int)blocks);
	take(text, 0);
	take(gone, 0);
	handshake(argc, argv);
	for (int turn = 0; turn < TURNS; turn++) {
		if (early)
			mprotect(gone, 4096, PROT_NONE);
		raise(SIGUSR2);
		mprotect(gone, 4096, PROT_READ | PROT_WRITE);
		for (int i = 0; i < CALLS; i++)
			take(text, 3);
	}
	handshake(argc, argv);
	sigset_t blocked;
	struct sigaction now;
	sigprocmask(SIG_BLOCK, NULL, &blocked);
	sigaction(SIGUSR2, NULL, &now);
	printf("%d handled, %d %d\n", handled, sigismember(&blocked, SIGSEGV), sigismember(&now.sa_mask, SIGSEGV));
	return 0;
}
"""


def first_byte(pid, address):
    with open(f"/proc/{pid}/mem", "rb") as memory:
        memory.seek(address)
        return memory.read(1)


READS = ["-e", "trace=process_vm_readv"]  # of strace


def reads(path):
    """Values that were read by system calls."""
    with open(path) as file:
        return len(re.findall("process_vm_readv", file.read()))


def await_loads(tracing, pid):
    """dyntrace sleeps in its loop when all that the program has asked for is done: a debugger between would be in its way."""
    until(lambda: has_handlers(pid), "handlers in front")
    await_sleeps(tracing.process, 2)
    until(lambda: status(pid, "TracerPid") == "0", "nobody holds the process")


@pytest.mark.parametrize("late", [0, 1])
@pytest.mark.parametrize("blocks", [0, 1])
def test_loads_go_on(dyntrace, processes, scratch, blocks, late):
    path = build(scratch, "handlers", PROGRAM)
    words = ["--blocks", blocks, "--late", late]
    target = Program(processes, path, words).wait_ready()
    handler = int(target.process.stdout.readline(), 16)
    before = first_byte(target.pid, handler)
    tracing = dyntrace.start_trace(target.pid, "--function", "take").wait_told()
    target.go().wait_ready()
    if blocks:
        until(lambda: first_byte(target.pid, handler) != before, "a probe at the handler")
    await_loads(tracing, target.pid)
    calls = os.path.join(scratch, "calls")
    with stracing(processes, target.pid, calls, *READS):
        target.go().wait_ready()
    trace = tracing.stop()
    assert first_byte(target.pid, handler) == before
    assert target.finish().splitlines()[-1] == alone(path, *words)[0].splitlines()[-1] == f"3 handled, 0 {blocks}"
    assert trace.lost == 0
    texts = [(event.fields["where"], event.fields["text"][:11]) for event in trace.named("take_entry")]
    assert texts == [(0, "in the heap"), (0, "here")] + ([(1, "here"), (2, "(unreadable")] + [(3, "in the heap")] * 1000) * 3
    assert reads(calls) < 100


def test_tracepoint_at_the_handler(dyntrace, processes, scratch):
    """The handler's own tracepoint reads memory that has gone, at the instruction that has the probe of dyntrace's own."""
    path = build(scratch, "handlers", PROGRAM)
    target = Program(processes, path, ["--blocks", 1, "--early", 1]).wait_ready()
    handler = int(target.process.stdout.readline(), 16)
    before = first_byte(target.pid, handler)
    tracing = dyntrace.start_trace(target.pid, "--function", "take", "--function", "on_signal", "-t", "var:gone").wait_told()
    until(lambda: first_byte(target.pid, handler) != before, "a probe at the handler")
    await_loads(tracing, target.pid)
    target.go().wait_ready()
    target.go().wait_ready()
    trace = tracing.stop()
    assert target.finish().splitlines()[-1] == "3 handled, 0 1"
    assert [event.fields["gone"][:11] for event in trace.named("on_signal_entry")] == ["(unreadable"] * 3
    assert {event.fields["gone"] for event in trace.named("take_entry")} == {"here"} and trace.lost == 0


@pytest.mark.parametrize("blocks", [0, 1])
def test_loads_begin_while_a_thread_hits(dyntrace, processes, scratch, blocks):
    """The thread is inside the agent nearly all the time: it reads by system calls until plain loads begin."""
    path, calls = build(scratch, "handlers", PROGRAM), os.path.join(scratch, "calls")
    target = Program(processes, path, ["--hot", 1, "--blocks", blocks]).wait_ready()
    target.go()
    tracing = dyntrace.start_trace(target.pid, "--function", "take", "--every", "10").wait_told()
    await_loads(tracing, target.pid)
    with stracing(processes, target.pid, calls, *READS):
        target.go().wait_ready()
        target.go().wait_ready()
        target.go().wait_ready()
    assert reads(calls) < 100
    trace = tracing.stop()
    assert target.finish().splitlines()[-1] == f"3 handled, 0 {blocks}" and trace.lost == 0


OPEN_INSIDE = r"""
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include "handshake.h"

static char *gone;

__attribute__((noipa)) void take(const char *text, long where)
{
	__asm__ volatile("nop; nop; nop; nop; nop" : : "r"(text), "r"(where) : "memory");
}

/* Runs with the mask of the wait, and changes it. */
static void on_signal(int number)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	for (int i = 0; i < 3; i++)
		take(gone, 1);
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = on_signal };
	sigset_t all, none;

	gone = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	strcpy(gone, "here");
	sigaction(SIGUSR2, &action, NULL);
	handshake(argc, argv);
	take(gone, 0); /* a thread without a hit counts as blocked in a wait, for good */
	sigfillset(&all);
	sigemptyset(&none);
	sigprocmask(SIG_BLOCK, &all, NULL);
	raise(SIGUSR2);
	sigsuspend(&none);
	take(gone, 2);
	mprotect(gone, 4096, PROT_NONE);
	take(gone, 3);
	handshake(argc, argv);
	return 0;
}
"""


def test_blocked_again_behind_a_handler(dyntrace, processes, scratch):
    """(X17) A thread that is open in a handler alone, which the mask of a wait let in, is blocked when the handler has returned."""
    target = Program(processes, build(scratch, "inside", OPEN_INSIDE), []).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--function", "take").wait_told()
    await_loads(tracing, target.pid)
    target.go().wait_ready()
    trace = tracing.stop()
    target.finish()
    assert [(event.fields["where"], event.fields["text"][:11]) for event in trace.events] == [(0, "here")] + [(1, "here")] * 3 + [(2, "here"), (3, "(unreadable")]


NESTED = r"""
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include "handshake.h"
#define TURNS 3

static char *gone;

__attribute__((noipa)) void take(const char *text, long where)
{
	__asm__ volatile("nop; nop; nop; nop; nop" : : "r"(text), "r"(where) : "memory");
}

static void look(long where)
{
	take(gone, where);
	mprotect(gone, 4096, PROT_NONE);
	take(gone, where + 1);
	mprotect(gone, 4096, PROT_READ | PROT_WRITE);
}

static void on_first(int number) { look(20 + (number != SIGUSR1)); }
static void on_second(int number) { look(10 + (number != SIGUSR2)); }

/* It has the signals of faults blocked. The second signal comes before its first instruction, unless that is blocked, too. */
static void install_first(int blocks_second)
{
	struct sigaction action = { .sa_handler = on_first };

	sigaddset(&action.sa_mask, SIGSEGV);
	sigaddset(&action.sa_mask, SIGBUS);
	if (blocks_second)
		sigaddset(&action.sa_mask, SIGUSR2);
	sigaction(SIGUSR1, &action, NULL);
}

static void install_second(void)
{
	struct sigaction action = { .sa_handler = on_second };

	sigaction(SIGUSR2, &action, NULL);
}

int main(int argc, char **argv)
{
	long order = handshake_option(argc, argv, "order", 0);
	sigset_t both;

	sigemptyset(&both);
	sigaddset(&both, SIGUSR1);
	sigaddset(&both, SIGUSR2);
	gone = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	strcpy(gone, "here");
	if (order != 2)
		install_first(order == 3);
	if (order != 1)
		install_second();
	printf("%p\n", (void *)on_second);
	fflush(stdout);
	handshake(argc, argv);
	if (order == 1)
		install_second();
	else if (order >= 2)
		install_first(0);
	take(gone, 0);
	handshake(argc, argv);
	for (int turn = 0; turn < TURNS; turn++) {
		sigprocmask(SIG_BLOCK, &both, NULL);
		raise(SIGUSR1);
		raise(SIGUSR2);
		look(30);
		sigprocmask(SIG_UNBLOCK, &both, NULL);
	}
	puts("done");
	handshake(argc, argv);
	return 0;
}
"""


@pytest.mark.parametrize("order", [0, 1, 2, 3], ids=["both", "second later", "first later", "first again"])
def test_handler_on_top_of_one_that_blocks(dyntrace, processes, scratch, order):
    """(X6) A handler that blocks nothing begins before the first instruction of one that blocks SIGSEGV and SIGBUS."""
    target = Program(processes, build(scratch, "nested", NESTED), ["--order", order]).wait_ready()
    second = int(target.process.stdout.readline(), 16)
    before = first_byte(target.pid, second)
    tracing = dyntrace.start_trace(target.pid, "--function", "take").wait_told()
    await_loads(tracing, target.pid)
    target.go().wait_ready()
    if order:
        until(lambda: first_byte(target.pid, second) != before, "a probe at the second handler")
    await_loads(tracing, target.pid)
    target.go().wait_ready()
    trace = tracing.stop()
    assert first_byte(target.pid, second) == before
    assert target.finish().splitlines()[-1] == "done" and trace.lost == 0
    texts = [(event.fields["where"], event.fields["text"][:11]) for event in trace.named("take_entry")]
    turn = [(at + i, text) for at in (30, 10, 20) for i, text in enumerate(("here", "(unreadable"))]
    assert texts == [(0, "here")] + turn * 3


INSTALLS = r"""
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include "handshake.h"

static char *gone;
static int count;
static char **arguments;

__attribute__((noipa)) void take(const char *text, long where)
{
	__asm__ volatile("nop; nop; nop; nop; nop" : : "r"(text), "r"(where) : "memory");
}

static void on_wait(int number) { handshake(count, arguments); }

static void on_signal(int number)
{
	take(gone, 1);
	mprotect(gone, 4096, PROT_NONE);
	take(gone, 2);
	mprotect(gone, 4096, PROT_READ | PROT_WRITE);
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = on_signal };

	count = argc;
	arguments = argv;
	gone = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	strcpy(gone, "here");
	signal(SIGUSR1, on_wait);
	sigfillset(&action.sa_mask);
	handshake(argc, argv);
	take(gone, 0);
	handshake(argc, argv);
	sigaction(SIGUSR2, &action, NULL);
	take(gone, 0);
	raise(SIGUSR2);
	puts("done");
	handshake(argc, argv);
	return 0;
}
"""


def test_guard_that_is_interrupted(dyntrace, processes, scratch):
    """(X6) The thread has just told dyntrace of a handler that blocks SIGSEGV, and another handler waits on top of the guard: the controller looks
    at the actions meanwhile, and doesn't see it yet."""
    target = Program(processes, build(scratch, "installs", INSTALLS), []).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--function", "take").wait_told()
    target.go().wait_ready()
    await_loads(tracing, target.pid)
    stepper = Stepper(target.pid)
    target.go()
    stepper.step()
    while not (stepper.is_in_ours() and stepper.is_at_call(FUTEX)):
        stepper.step()
    os.kill(target.pid, signal.SIGUSR1)
    stepper.end()
    target.wait_ready()
    await_sleeps(tracing.process, 20)  # it looks twice per second at most
    target.go().wait_ready()
    trace = tracing.stop()
    assert target.finish() == "done\n" and trace.lost == 0
    assert [(event.fields["where"], event.fields["text"][:11]) for event in trace.events] == [(0, "here")] * 2 + [(1, "here"), (2, "(unreadable")]


DIVIDES = r"""
#define _GNU_SOURCE
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include "handshake.h"

static char *gone;

__attribute__((noipa)) void take(const char *text, long where)
{
	__asm__ volatile("nop; nop; nop; nop; nop" : : "r"(text), "r"(where) : "memory");
}

/* Its first instruction faults, which the probe moves. */
long divide(long dividend, long unused, long high, long divisor);
__asm__(".globl divide\n"
	".type divide, @function\n"
	"divide:\n"
	"	idivq %rcx\n"
	"	nop; nop; nop; nop\n"
	"	ret\n"
	".size divide, . - divide\n");

/* Lets it divide by 1 instead, with SIGSEGV blocked. */
static void on_signal(int number, siginfo_t *info, void *context)
{
	ucontext_t *interrupted = context;

	for (int i = 0; i < 3; i++)
		take(gone, 1);
	interrupted->uc_mcontext.gregs[REG_RCX] = 1;
	sigaddset(&interrupted->uc_sigmask, SIGSEGV);
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO };

	gone = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	strcpy(gone, "here");
	sigaction(SIGFPE, &action, NULL);
	handshake(argc, argv);
	take(gone, 0);
	divide(0, 0, 0, 0);
	take(gone, 2);
	mprotect(gone, 4096, PROT_NONE);
	take(gone, 3);
	handshake(argc, argv);
	return 0;
}
"""


def test_blocked_behind_the_handler_of_a_moved_instruction(dyntrace, processes, scratch):
    """(X17) The same where dyntrace itself returns from the handler, as it has shown it the program's own address."""
    target = Program(processes, build(scratch, "divides", DIVIDES), []).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--function", "take", "--function", "divide").wait_told()
    await_loads(tracing, target.pid)
    target.go().wait_ready()
    trace = tracing.stop()
    target.finish()
    assert [(event.fields["where"], event.fields["text"][:11]) for event in trace.named("take_entry")] == [(0, "here")] + [(1, "here")] * 3 + [(2, "here"), (3, "(unreadable")]
