"""Values and backtraces on stacks that nobody knows: of coroutines, and of signal handlers. Where the memory stays mapped, trampolines
read it themselves (X13, T7), and take no more of the stack than the agent's call (T8)."""
import os
import re
import subprocess

import pytest

from harness import compile_once, status, stracing, until

SOURCE = r"""
#include <execinfo.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#define HITS 2000

static char still[1 << 17] __attribute__((aligned(4096)));
static ucontext_t here, there;
static volatile long sink;
static volatile int number;
struct item { char *name; struct { int first, second; } *pair; };
static struct { int first, second; } pair = { 7, -8 };
static struct item item = { "a literal", (void *)&pair };

__attribute__((noinline)) void text(const char *s) { sink += (long)s; sink++; }
__attribute__((noinline)) void member(struct item *i) { sink += (long)i; sink++; }
__attribute__((noinline)) void leaf(int n) { sink += n; sink++; }

__attribute__((noinline)) static void deep(int n)
{
	void *frames[64];

	if (n > 0) {
		deep(n - 1);
	} else {
		int count = backtrace(frames, 64);

		if (!number++)
			for (int i = 1; i < count; i++)
				printf("%lx%s", (long)frames[i], i + 1 < count ? " " : "\n");
		leaf(n);
	}
	sink++;
}

static void all(void)
{
	char *heap = strdup("in the heap");

	for (int i = 0; i < 20; i++)
		text(heap);
	text(NULL);
	text((char *)4711);
	for (int i = 0; i < HITS; i++) {
		text("twenty bytes of text");
		member(&item);
	}
	for (int i = 0; i < HITS; i++)
		deep(4);
	free(heap);
}

static void watched(void)
{
	text("twenty bytes of text");
	member(&item);
	deep(4);
	fflush(stdout);
	puts("ready");
	fflush(stdout);
	getchar();
	for (int i = 0; i < HITS; i++) {
		text("twenty bytes of text");
		member(&item);
		deep(4);
	}
	puts("done");
	fflush(stdout);
	getchar();
	_exit(0);
}

static void on(char *stack, size_t size, void (*run)(void))
{
	getcontext(&there);
	there.uc_stack.ss_sp = stack;
	there.uc_stack.ss_size = size;
	there.uc_link = &here;
	makecontext(&there, run, 0);
	swapcontext(&here, &there);
}

static void on_signal(int number) { all(); }

int main(int argc, char **argv)
{
	void *frames[2];
	char *map = mmap(NULL, sizeof(still), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_ONSTACK };
	stack_t alternate = { .ss_sp = still, .ss_size = sizeof(still) };

	backtrace(frames, 2);
	if (!strcmp(argv[1], "still"))
		on(still, sizeof(still), all);
	if (!strcmp(argv[1], "map"))
		on(map, sizeof(still), all);
	if (!strcmp(argv[1], "heap"))
		on(malloc(sizeof(still)), sizeof(still), all);
	if (!strcmp(argv[1], "small"))
		on(map, 8192, all);
	if (!strcmp(argv[1], "handler")) {
		sigaltstack(&alternate, NULL);
		sigaction(SIGUSR1, &action, NULL);
		raise(SIGUSR1);
	}
	if (!strcmp(argv[1], "watched"))
		on(still, sizeof(still), watched);
	return 0;
}
"""
HITS = 2000
UNKNOWN = 2 ** 64 - 1
OPTIONS = ["--function", "text", "-e", "--function", "member", "--probe", "leaf", "-t", "backtrace:30"]


@pytest.fixture(name="stacks")
def stacks_fixture(scratch):
    source = os.path.join(scratch, "stacks.c")
    with open(source, "w") as file:
        file.write(SOURCE)
    return compile_once(["gcc", "-g", "-O2", "-fomit-frame-pointer", source], os.path.join(scratch, "stacks"))


@pytest.mark.parametrize("where", ["still", "map", "heap", "small", "handler"])
def test_values(dyntrace, stacks, where):
    """All values are right, whoever reads them; the callers are those that backtrace() of libc finds."""
    result, trace = dyntrace.trace(*OPTIONS, "--", stacks, where)
    texts = [event.fields["s"] for event in trace.named("text_entry")]
    assert texts == ["in the heap"] * 20 + ["(null)", "(unreadable 0x1267)"] + ["twenty bytes of text"] * HITS
    assert len(trace.named("text_exit")) == len(texts)
    members = [event.fields["i"] for event in trace.named("member_entry")]
    assert len(members) == HITS and all(str(fields) == str(members[0]) for fields in members)
    callers = [int(frame, 16) for frame in result.stdout.splitlines()[0].split()]
    for event in trace.named("leaf"):
        found = event.fields["backtrace"][2:]  # deep() calls backtrace() and leaf() at different places
        if found[-1] == UNKNOWN:  # the code below a coroutine has no table
            assert where != "handler"
            found.pop()
        assert found == callers
    assert len(trace.named("leaf")) == HITS
    assert trace.lost == 0


def go(target):
    target.stdin.write("\n")
    target.stdin.flush()


def test_makes_no_call(dyntrace, processes, stacks, scratch):
    """Where memory stays mapped a hit makes no system call: neither for signals nor to read."""
    output = os.path.join(scratch, "calls")
    with processes.start([stacks, "watched"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as target:
        tracing = dyntrace.start_trace(target.pid, *OPTIONS).wait_told()
        while target.stdout.readline() != "ready\n":
            pass
        until(lambda: status(target.pid, "TracerPid") == "0", "dyntrace has let go")
        with stracing(processes, target.pid, output, "-f"):
            go(target)
            assert target.stdout.readline() == "done\n"
        trace = tracing.stop()
        go(target)
    assert [len(trace.named(name)) for name in ("text_entry", "member_entry", "leaf")] == [HITS] * 3
    assert trace.lost == 0
    with open(output) as file:
        names = re.findall(r"^\d+\s+(\w+)\(", file.read(), re.MULTILINE)
    # a few for the first hits, and for each chunk
    assert len(names) < HITS / 10
