"""Strings in the heap on stacks that nobody knows, of threads that have an alternate stack (X18): read without a system call, and a page
that goes away harms nobody, though the stack has no room for a signal's frame."""
import os
import re
import subprocess

import pytest

from harness import ROOT, compile_once, status, stracing, until
from test_loads_after_handlers import await_loads, first_byte
from test_plain_loads import has_handlers

SOURCE = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "call_on.h"

#define HITS 2000
#define ROUNDS 40
#define LEFT 1200 /* bytes of the small stack below a call */
#define SS_AUTODISARM (1U << 31)

static volatile long sink;
static char alternate[1 << 16] __attribute__((aligned(4096)));
static char *page;

__attribute__((noinline)) void text(const char *s) { sink += (long)s; sink++; }

static char *map(size_t size)
{
	return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/* The end of a stack with little room, above a page that nobody may touch. */
static char *small_stack(void)
{
	char *pages = map(8192);

	mprotect(pages, 4096, PROT_NONE);
	return pages + 4096 + (LEFT & ~15);
}

static void set_alternate(char *at, size_t size, unsigned flags)
{
	stack_t stack = { .ss_sp = at, .ss_size = size, .ss_flags = (int)flags };

	if (syscall(SYS_sigaltstack, &stack, NULL))
		perror("sigaltstack");
}

static void here(void) { text(page); }

/* Its page is known, and goes away before the hit. */
static void gone(void)
{
	strcpy(page, "a page");
	for (int i = 0; i < 3; i++)
		text(page);
	mprotect(page, 4096, PROT_NONE);
	text(page);
	mprotect(page, 4096, PROT_READ | PROT_WRITE);
}

static void rounds(void)
{
	for (int i = 0; i < ROUNDS; i++)
		gone();
}

static void many(void)
{
	for (int i = 0; i < HITS; i++)
		text(page);
}

static void wait_for_a_word(const char *told)
{
	puts(told);
	fflush(stdout);
	getchar();
}

static char *closed, *below;
static const char *how;

/* The thread says once more that this is its alternate stack, on which its handler is. */
static void again(void)
{
	set_alternate(alternate, sizeof(alternate), 0);
	rounds();
}

static void attached(void)
{
	wait_for_a_word("ready");
	call_on(small_stack(), rounds);
	wait_for_a_word("done");
}

static void on_nothing(int number) {}

/* A handler that blocks everything: dyntrace looks at all handlers again. */
static void looked_at_again(void)
{
	struct sigaction action = { .sa_handler = on_nothing };

	sigfillset(&action.sa_mask);
	sigaction(SIGUSR2, &action, NULL);
	attached();
}

/* Another thread or process may be the one that works on. */
static void work_aside(void)
{
	char *large = map(1 << 16);
	int state = -1;
	pid_t child;

	if (!strncmp(how, "attached", 8)) {
		call_on(large + (1 << 16) - 64, attached);
	} else if (!strcmp(how, "looked at again")) {
		call_on(large + (1 << 16) - 64, looked_at_again);
	} else if (!strncmp(how, "own stack", 9)) {
		call_on(below, rounds);
	} else if (!strcmp(how, "forked in a handler of faults")) {
		child = fork();
		if (!child)
			call_on(small_stack(), rounds);
		else if (waitpid(child, &state, 0) != child || state)
			_exit(8);
	} else {
		call_on(small_stack(), !strncmp(how, "again", 5) ? again : rounds);
	}
}

/* Opens the page at which the program has faulted, after work on another stack. */
static void on_fault_aside(int number)
{
	static int count;

	if (++count > 2) /* it came back to a frame that isn't its own */
		_exit(7);
	work_aside();
	mprotect(closed, 4096, PROT_READ | PROT_WRITE);
}

static void on_fault_opens(int number) { mprotect(closed, 4096, PROT_READ | PROT_WRITE); }

static void fault(void (*handler)(int), int flags)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = flags };

	closed = map(4096);
	sigaction(SIGSEGV, &action, NULL);
	mprotect(closed, 4096, PROT_READ);
	*(volatile char *)closed = 1;
}

static void fault_aside(void) { fault(on_fault_aside, SA_ONSTACK | SA_NODEFER); }

static void on_signal_aside(int number) { work_aside(); }

/* Its handler is there before dyntrace comes. */
static void watched_aside(void)
{
	struct sigaction action = { .sa_handler = on_signal_aside, .sa_flags = SA_ONSTACK };

	sigaction(SIGUSR1, &action, NULL);
	wait_for_a_word("ready");
	call_on(small_stack(), rounds);
	raise(SIGUSR1);
	wait_for_a_word("done");
}

static sigjmp_buf before;

static void on_fault_jumps(int number) { siglongjmp(before, 1); }

static void fault_opens(void) { fault(on_fault_opens, SA_ONSTACK); }

/* After a handler of faults, which returns or jumps away. */
static void watched(void)
{
	strcpy(page, "in the heap");
	text(page);
	text(page);
	wait_for_a_word("ready");
	for (int i = 0; i < 3 && strcmp(how, "watched"); i++)
		text(page);
	if (!strcmp(how, "watched after a handler"))
		fault_opens();
	if (!strcmp(how, "watched after a handler elsewhere"))
		call_on(map(1 << 16) + (1 << 16) - 64, fault_opens);
	if (!strcmp(how, "watched after a jump") && !sigsetjmp(before, 1))
		fault(on_fault_jumps, SA_ONSTACK);
	if (strcmp(how, "watched"))
		text(page);
	call_on(small_stack(), many);
	wait_for_a_word("done");
}

static void handle_one(int number, void (*handler)(int), int flags)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = flags };

	sigaction(number, &action, NULL);
	raise(number);
}

static void handle(void (*handler)(int), int flags) { handle_one(SIGUSR1, handler, flags); }

/* The kernel gives the thread back the alternate stack that it had when the handler began. */
static void on_signal_with_another(int number)
{
	set_alternate(alternate, sizeof(alternate), 0);
	call_on(small_stack(), rounds);
}

static void on_fault(int number) { _exit(5); }

/* A handler for faults, on the alternate stack or not. */
static void set_handler(int flags)
{
	struct sigaction action = { .sa_handler = on_fault, .sa_flags = flags };

	sigaction(SIGSEGV, &action, NULL);
}

/* Its memory has data now, but the thread still has it as its alternate stack, where no handler of the program's runs. */
static int uses_data_for_its_own(void)
{
	memset(alternate, 'd', sizeof(alternate));
	rounds();
	rounds();
	for (size_t i = 0; i < sizeof(alternate); i++) {
		if (alternate[i] != 'd')
			return 6;
	}
	return 0;
}

static volatile int ended;

static char *toggle(char *unused)
{
	for (int i = 0; !ended; i++)
		set_handler(i % 2 ? SA_ONSTACK : 0);
	return NULL;
}

static char *in_thread(char *stack)
{
	char *own = map(1 << 16);

	page = map(4096);
	set_alternate(own, 1 << 16, 0);
	call_on(stack, rounds);
	set_alternate(own, 1 << 16, SS_DISABLE);
	munmap(own, 1 << 16);
	call_on(stack, rounds);
	return NULL;
}

int main(int argc, char **argv)
{
	char *stack = small_stack(), *second = map(1 << 16);
	pthread_t thread;

	how = argv[1];
	page = map(4096);
	below = (char *)(((uintptr_t)&thread - 20000) & ~63UL);
	if (!strncmp(how, "small", 5))
		set_alternate(alternate, 2048, 0);
	else if (!strcmp(how, "disarmed"))
		set_alternate(alternate, sizeof(alternate), SS_AUTODISARM);
	else if (strcmp(how, "none") && strcmp(how, "thread") && strcmp(how, "in a handler"))
		set_alternate(alternate, sizeof(alternate), 0);
	if (!strcmp(how, "watched aside")) {
		set_handler(SA_ONSTACK);
		watched_aside();
		return 0;
	}
	if (!strncmp(how, "watched", 7)) {
		set_handler(SA_ONSTACK);
		watched();
		return 0;
	}
	if (!strcmp(how, "thread")) {
		set_handler(SA_ONSTACK);
		pthread_create(&thread, NULL, (void *(*)(void *))in_thread, stack);
		pthread_join(thread, NULL);
		return 0;
	}
	if (!strcmp(how, "data after a handler"))
		fault(on_fault_opens, SA_ONSTACK | SA_RESETHAND);
	if (!strncmp(how, "data", 4))
		return uses_data_for_its_own();
	if (!strcmp(how, "attached in a handler of faults")) {
		fault_aside();
		return 0;
	}
	if (!strcmp(how, "own"))
		set_handler(0);
	else if (strcmp(how, "default"))
		set_handler(SA_ONSTACK);
	if (!strcmp(how, "looked at again")) {
		printf("%p\n", (void *)on_nothing);
		wait_for_a_word("ready");
		call_on(stack, rounds);
		handle(on_signal_aside, SA_ONSTACK | SA_RESETHAND);
		return 0;
	}
	if (!strcmp(how, "attached in a handler")) {
		handle(on_signal_aside, SA_ONSTACK | SA_RESETHAND); /* nobody sees that it may run */
		return 0;
	}
	if (!strcmp(how, "toggled"))
		pthread_create(&thread, NULL, (void *(*)(void *))toggle, NULL);
	if (!strcmp(how, "aside before"))
		handle(on_signal_aside, SA_ONSTACK);
	if (!strcmp(how, "in a handler")) {
		set_alternate(alternate, sizeof(alternate), SS_DISABLE);
		handle(on_signal_with_another, 0);
	} else if (!strcmp(how, "small in a handler")) {
		handle(on_signal_with_another, 0);
	} else {
		call_on(stack, rounds);
	}
	if (!strcmp(how, "later"))
		set_handler(0);
	if (!strcmp(how, "taken")) {
		set_alternate(alternate, sizeof(alternate), SS_DISABLE);
		mprotect(alternate, sizeof(alternate), PROT_NONE);
	}
	if (!strcmp(how, "moved")) {
		set_alternate(second, 1 << 16, 0);
		mprotect(alternate, sizeof(alternate), PROT_NONE);
	}
	if (!strcmp(how, "on it"))
		call_on(alternate + (LEFT & ~15), rounds); /* not in a handler */
	else if (!strcmp(how, "disarmed") || !strncmp(how, "aside", 5))
		handle(on_signal_aside, SA_ONSTACK);
	else if (!strcmp(how, "own stack in a handler of SIGILL"))
		handle_one(SIGILL, on_signal_aside, SA_ONSTACK);
	else if (strstr(how, "in a handler of faults"))
		fault_aside();
	else
		call_on(stack, rounds);
	ended = 1;
	if (!strcmp(how, "toggled"))
		pthread_join(thread, NULL);
	return 0;
}
"""
HITS = 2000
ROUNDS = 40


@pytest.fixture(name="program")
def program_fixture(scratch):
    source = os.path.join(scratch, "alternate.c")
    with open(source, "w") as file:
        file.write(SOURCE)
    return compile_once(["gcc", "-g", "-O2", "-I", os.path.join(ROOT, "tests", "programs"), source, "-pthread"], os.path.join(scratch, "alternate"))


@pytest.mark.parametrize("how", ["kept", "none", "small", "taken", "moved", "on it", "disarmed", "thread", "own", "later", "toggled", "in a handler", "small in a handler", "default", "data", "data after a handler", "aside", "aside before",
                                 "in a handler of faults", "again in a handler of faults", "forked in a handler of faults", "own stack in a handler of faults", "own stack in a handler of SIGILL"])
def test_page_goes_away(dyntrace, program, how):
    """Whatever the alternate stack is, and whoever is on it: a load that fails is told, and the program goes on."""
    result, trace = dyntrace.trace("--function", "text", "--", program, how)
    assert result.returncode == 0 and result.stdout == ""
    check_rounds(trace, 3 if how == "aside before" else 2)


def check_rounds(trace, times):
    texts = [event.fields["s"] for event in trace.named("text_entry")]
    assert len(texts) == times * ROUNDS * 4
    assert all(text == "a page" if i % 4 < 3 else text.startswith("(unreadable 0x") for i, text in enumerate(texts))
    assert trace.lost == 0


def go(target):
    target.stdin.write("\n")
    target.stdin.flush()


def test_handler_that_goes_aside(dyntrace, processes, program):
    """Another signal's handler on the alternate stack, which is there before dyntrace (X19)."""
    with processes.start([program, "watched aside"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as target:
        tracing = dyntrace.start_trace(target.pid, "--function", "text").wait_told()
        assert target.stdout.readline() == "ready\n"
        go(target)
        assert target.stdout.readline() == "done\n"
        trace = tracing.stop()
        go(target)
    assert target.returncode == 0
    check_rounds(trace, 2)


@pytest.mark.parametrize("how", ["attached in a handler", "attached in a handler of faults"])
def test_handler_from_before(dyntrace, processes, program, how):
    """dyntrace comes while a handler has left its frame on the alternate stack (X19)."""
    with processes.start([program, how], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as target:
        assert target.stdout.readline() == "ready\n"
        tracing = dyntrace.start_trace(target.pid, "--function", "text").wait_told()
        until(lambda: has_handlers(target.pid), "handlers in front")
        go(target)
        assert target.stdout.readline() == "done\n"
        trace = tracing.stop()
        go(target)
    assert target.returncode == 0
    check_rounds(trace, 1)


@pytest.mark.parametrize("turn", range(4))
def test_handler_without_an_action(dyntrace, processes, program, turn):
    """A handler of another signal that is on the alternate stack, and has gone from the actions when dyntrace looks at them again (X19): not
    before the system call whose guard has woken dyntrace (X6), which it did in one turn of four on an idle machine."""
    with processes.start([program, "looked at again"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as target:
        handler = int(target.stdout.readline(), 16)
        before = first_byte(target.pid, handler)
        assert target.stdout.readline() == "ready\n"
        tracing = dyntrace.start_trace(target.pid, "--function", "text").wait_told()
        await_loads(tracing, target.pid)
        go(target)
        assert target.stdout.readline() == "ready\n"
        until(lambda: first_byte(target.pid, handler) != before, "a probe at the handler")
        await_loads(tracing, target.pid)
        go(target)
        assert target.stdout.readline() == "done\n"
        trace = tracing.stop()
        go(target)
    assert target.returncode == 0
    check_rounds(trace, 2)


@pytest.mark.parametrize("how", ["watched", "watched after a handler", "watched after a handler elsewhere", "watched after a jump"])
def test_makes_no_call(dyntrace, processes, program, scratch, how):
    """A string in the heap takes no system call, also after a handler of faults on the alternate stack (X19)."""
    output = os.path.join(scratch, "calls")
    with processes.start([program, how], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as target:
        tracing = dyntrace.start_trace(target.pid, "--function", "text").wait_told()
        assert target.stdout.readline() == "ready\n"
        until(lambda: status(target.pid, "TracerPid") == "0", "dyntrace has let go")
        with stracing(processes, target.pid, output, "-f"):
            go(target)
            assert target.stdout.readline() == "done\n"
        trace = tracing.stop()
        go(target)
    texts = [event.fields["s"] for event in trace.named("text_entry")]
    assert texts == ["in the heap"] * (HITS if how == "watched" else HITS + 4)
    with open(output) as file:
        names = re.findall(r"^\d+\s+(\w+)\(", file.read(), re.MULTILINE)
    # a few for the first hits, and for each chunk
    assert len(names) < HITS / 10
