"""Variables of the program whose pages it protects, unmaps or cuts, as for guard pages and barriers in static arrays (X13): a hit that reads
there says that it can't, on every stack and with every mask, and the program doesn't notice."""
import os

import pytest

from harness import Program, Trace
from test_plain_loads import alone, build

UNKNOWN = 2 ** 64 - 1
HOWS = ["protect", "unmap", "guard", "cut"]  # of SOURCE
SOURCE = r"""
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <ucontext.h>
#include "handshake.h"
#define PAGE 4096
#define HOWS 4
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

struct pair { long first, second; };
static struct pair constant = { 5, 6 };
static char pages[HOWS][PAGE] __attribute__((aligned(PAGE)));
static struct { char stack[8 * PAGE], guard[PAGE]; } area __attribute__((aligned(PAGE)));
static struct { struct pair pair; char rest[PAGE - sizeof(struct pair)]; } global __attribute__((aligned(PAGE)));
static ucontext_t here, there;
static long calls;

__attribute__((noipa)) void take(const char *text, struct pair *pair)
{
	__asm__ volatile("nop; nop; nop; nop; nop" : : "r"(text), "r"(pair));
	calls++;
}
__attribute__((noipa)) void walk(void) { __asm__ volatile("nop; nop; nop; nop; nop"); }

static void call(char *page)
{
	take(page, (struct pair *)(page + 64));
}

static void spoil(int how)
{
	char *page = pages[how];
	int fd = how == 3 ? memfd_create("cut", 0) : -1;

	if ((how == 0 && mprotect(page, PAGE, PROT_NONE)) || (how == 1 && munmap(page, PAGE)) ||
	    (how == 2 && madvise(page, PAGE, MADV_GUARD_INSTALL) && munmap(page, PAGE)) ||
	    (how == 3 && mmap(page, PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) != page))
		_exit(5);
}

static void all(void)
{
	for (int how = 0; how < HOWS; how++) {
		strcpy(pages[how], "here");
		*(struct pair *)(pages[how] + 64) = (struct pair){ 1, -2 };
		for (int i = 0; i < 8; i++)
			call(pages[how]);
		spoil(how);
		call(pages[how]);
		call(pages[how]);
	}
	if (mprotect(&global, PAGE, PROT_NONE) || mprotect(area.guard, PAGE, PROT_NONE))
		_exit(5);
	take("here", &constant);
	walk();
	walk();
	printf("calls: %ld\n", calls);
}

int main(int argc, char **argv)
{
	const char *where = argv[argc - 1];
	sigset_t set;

	global.pair = (struct pair){ 3, 4 };
	if (!strcmp(where, "ignored"))
		signal(SIGSEGV, SIG_IGN);
	if (!strcmp(where, "blocked")) {
		sigfillset(&set);
		sigprocmask(SIG_BLOCK, &set, NULL);
	}
	handshake(argc, argv);
	if (!strcmp(where, "coroutine")) {
		getcontext(&there);
		there.uc_stack.ss_sp = area.stack;
		there.uc_stack.ss_size = sizeof(area.stack);
		there.uc_link = &here;
		makecontext(&there, all, 0);
		there.uc_mcontext.gregs[REG_RBP] = (long)(area.guard + 64); /* as a frame pointer */
		swapcontext(&here, &there);
	} else {
		all();
	}
	return 0;
}
"""


PLACES = ["own", "blocked", "ignored", "coroutine"]


@pytest.fixture(name="path")
def build_program(scratch):
    return build(scratch, "static", SOURCE)


def traced(dyntrace, processes, path, where, *words):
    """The trace of a run, which is as one without a tracer."""
    without = alone(path, where)
    assert without == ("calls: 41\n", 0)
    target = Program(processes, path, [where]).wait_ready()
    tracing = dyntrace.start_trace(target.pid, *words).wait_told()
    assert target.finish(without[1]) == without[0]
    tracing.process.communicate(timeout=30)
    trace = Trace(tracing.output)
    assert trace.lost == 0
    return trace


@pytest.mark.parametrize("where", PLACES)
def test_values(dyntrace, processes, path, where):
    trace = traced(dyntrace, processes, path, where, "--function", "take", "--deref", 1, "-t", "var:global.pair")
    found = [event.fields for event in trace.events]
    for how in range(len(HOWS)):
        for fields in found[10 * how:10 * how + 8]:
            assert (fields["text"], fields["pair"]["value"], fields["unreadable"]) == ("here", [{"first": 1, "second": -2}], "")
        for fields in found[10 * how + 8:10 * how + 10]:
            assert fields["text"].startswith("(unreadable 0x") and (fields["pair"]["value"], fields["unreadable"]) == ([], "pair")
    assert all(fields["global_pair"] == {"first": 3, "second": 4} for fields in found[:-1])
    assert found[-1]["unreadable"] == "first, second" and found[-1]["text"] == "here" and len(found) == 10 * len(HOWS) + 1


@pytest.mark.parametrize("where", PLACES)
def test_conditions(dyntrace, processes, path, where):
    trace = traced(dyntrace, processes, path, where, "--function", "take", "--filter", "text[0] == 'h' && text[1] == 'e'")
    assert [event.fields["text"] for event in trace.events] == ["here"] * (8 * len(HOWS) + 1)


@pytest.mark.parametrize("where", PLACES)
def test_backtraces(dyntrace, processes, path, where):
    trace = traced(dyntrace, processes, path, where, "--probe", "walk", "-t", "backtrace:8")
    assert len(trace.events) == 2
    for event in trace.events:
        assert (event.fields["backtrace"][-1] == UNKNOWN) == (where == "coroutine") and len(event.fields["backtrace"]) >= 4
