"""Backtraces that trampolines take themselves, with rows that the agent keeps: every one has the callers that backtrace() of libc finds."""
import collections
import os
import subprocess

import pytest

from fixtures import ROOT
from harness import compile_once

CHAINS = os.path.join(ROOT, "tests", "programs", "chains.cpp")
BUILDS = {
    "gcc-O2": ["g++", "-O2", "-fomit-frame-pointer"],
    "gcc-O0": ["g++", "-O0"],
    "gcc-O3": ["g++", "-O3", "-fomit-frame-pointer"],
    "clang-O2": ["clang++", "-O2", "-fomit-frame-pointer"],
    "static": ["g++", "-O2", "-fomit-frame-pointer", "-static"],
}
LIBRARY = """
volatile int sum;
__attribute__((noinline)) static void inner(void (*f)(int), int n)
{ volatile char room[SIZE]; room[n] = 1; f(n); sum += room[n]; }
void deep(void (*f)(int), int n) { if (n) deep(f, n - 1); else inner(f, n); sum++; }
"""
LOADER = """
#include <dlfcn.h>
#include <execinfo.h>
#include <stdio.h>
volatile int sink;
__attribute__((noinline)) void leaf(int n) { sink += n; sink += 2; }
__attribute__((noinline)) void show(int n)
{
	void *a[60];
	int c = backtrace(a, 60);
	for (int i = 0; i < 3; i++)
		leaf(n);
	for (int i = 1; i < c; i++)
		printf("%lx ", (long)a[i]);
	printf("\\n");
}
int main(int n, char **v)
{
	void *a[2];
	backtrace(a, 2);
	for (int i = 1; i < n; i++) {
		void *l = dlopen(v[i], RTLD_NOW);
		void (*f)(void (*)(int), int) = (void (*)(void (*)(int), int))dlsym(l, "deep");
		f(show, 5);
		dlclose(l);
	}
	return 0;
}
"""


def compiled(scratch, kind):
    return compile_once([*BUILDS[kind], "-g", CHAINS, "-lpthread"], os.path.join(scratch, "chains-" + kind))


def expected(output):
    """{tid: [callers of show()]}"""
    found = collections.defaultdict(list)
    for line in output.splitlines():
        tid, _, frames = line.partition(": ")
        found[int(tid)].append([int(frame, 16) for frame in frames.split()])
    return found


def by_thread(events, first):
    """{tid: [frames from number `first` on]}"""
    found = collections.defaultdict(list)
    for event in events:
        found[event.tid].append(event.fields["backtrace"][first:])
    return found


@pytest.mark.parametrize("kind", BUILDS)
def test_chains(dyntrace, scratch, kind):
    """(T5) Thousands of chains of calls of three threads, through frames of all kinds; some have rows at one place of the cache."""
    result, trace = dyntrace.trace("--function", "leaf", "-t", "backtrace:100", "--", compiled(scratch, kind), "600", "2")
    wanted = expected(result.stdout)
    assert sorted(len(chains) for chains in wanted.values()) == [600] * 3
    assert by_thread(trace.named("leaf_entry"), 2) == wanted


@pytest.mark.parametrize("kind", ["gcc-O2", "clang-O2"])
def test_chains_with_exits(dyntrace, scratch, kind):
    """Callers return through stubs, and exits have backtraces, too: from the caller on."""
    words = ["-e", "--function", "leaf", "--function", "_Z*step_*", "-t", "backtrace:100"]
    result, trace = dyntrace.trace(*words, "--", compiled(scratch, kind), "100", "2")
    wanted = expected(result.stdout)
    assert by_thread(trace.named("leaf_entry"), 2) == wanted
    assert by_thread(trace.named("leaf_exit"), 1) == wanted


@pytest.mark.parametrize("words", [["var:n"], ["var:n", "comm"], ["comm", "var:n"]], ids=["number", "text", "both"])
def test_chains_beside_values(dyntrace, scratch, words):
    """The frames stand behind fields of any length, and before others."""
    contexts = [word for context in (*words, "backtrace:100", "reg:rax", "reg:rsp") for word in ("-t", context)]
    result, trace = dyntrace.trace("--function", "leaf", *contexts, "--", compiled(scratch, "gcc-O2"), "100", "0")
    events = trace.named("leaf_entry")
    assert by_thread(events, 2) == expected(result.stdout)
    assert len({event.fields["n"] for event in events}) > 90
    assert len({event.fields["rsp"] for event in events}) > 50 and not any(event.fields["rsp"] % 8 for event in events)


def test_depth_ends_anywhere(dyntrace, scratch):
    """The most frames that are wanted may end a backtrace at a frame of any kind."""
    path = compiled(scratch, "gcc-O2")
    for most in (1, 2, 3, 7, 20):
        result, trace = dyntrace.trace("--function", "leaf", "-t", f"backtrace:{most}", "--", path, "100", "0")
        (wanted,) = expected(result.stdout).values()
        assert [event.fields["backtrace"][2:] for event in trace.named("leaf_entry")] == [frames[:max(0, most - 2)] for frames in wanted]


CHAIN = """
#include <stdlib.h>
volatile int sink;
__attribute__((noinline)) void pong(int n);
__attribute__((noinline)) void ping(int n) { sink += n; if (n) pong(n - 1); }
void pong(int n) { sink -= n; if (n) ping(n - 1); }
int main(int n, char **v) { ping(atoi(v[1])); return 0; }
"""


@pytest.mark.parametrize("length, is_whole", [(1000, True), (3000, False)])
def test_tail_calls_with_exits(dyntrace, scratch, length, is_whole):
    """A chain of tail calls is a chain of stubs: one of thousands isn't followed at each hit."""
    path = os.path.join(scratch, "chain")
    subprocess.run(["gcc", "-O2", "-g", "-x", "c", "-", "-o", path], input=CHAIN, text=True, check=True)
    words = ["-e", "--function", "ping", "--function", "pong", "--function", "main", "-t", "backtrace"]
    _, trace = dyntrace.trace(*words, "--", path, str(length))
    first, last = trace.named("ping_entry")[0], trace.named("ping_entry")[-1]
    assert len(trace.events) == 2 * (length + 2)
    assert len(first.fields["backtrace"]) > 2
    if is_whole:
        assert last.fields["backtrace"][1:] == first.fields["backtrace"][1:]
    else:
        assert last.fields["backtrace"][1:] == [2**64 - 1]


def test_libraries_with_other_frames_at_one_address(dyntrace, scratch):
    """(T4) A library goes, and another comes to its address, whose calls return to the same addresses: its frames have other sizes, and
    are right at once."""
    libraries = []
    for i, size in enumerate((300, 700)):
        libraries.append(os.path.join(scratch, f"lib{i}.so"))
        subprocess.run(["gcc", "-O1", "-g", "-fomit-frame-pointer", "-shared", "-fPIC", f"-DSIZE={size}", "-x", "c", "-", "-o", libraries[-1]],
                       check=True, input=LIBRARY, text=True)
    path = os.path.join(scratch, "loader")
    subprocess.run(["gcc", "-O1", "-g", "-fomit-frame-pointer", "-x", "c", "-", "-o", path], check=True, input=LOADER, text=True)
    order = [libraries[i] for i in (0, 1, 0, 0, 1)]
    result, trace = dyntrace.trace("--function", "leaf", "-t", "backtrace:60", "--", path, *order)
    wanted = [[int(frame, 16) for frame in line.split()] for line in result.stdout.splitlines()]
    assert len(wanted) == len(order) and len({tuple(frames) for frames in wanted}) == 1, "they were to be at one address"
    assert [event.fields["backtrace"][2:] for event in trace.named("leaf_entry")] == [frames for frames in wanted for _ in range(3)]


NAMED = """
template <typename F> __attribute__((noipa)) void leaf(F) {}
namespace ns {
namespace {
struct tag {};
template <typename T> __attribute__((noipa)) int hidden(T) { leaf(1); return 1; }
}
struct s {
	__attribute__((noipa)) int operator()(int) const { leaf(1); return 1; }
	__attribute__((noipa)) operator bool() { leaf(1); return true; }
	__attribute__((noipa)) bool operator<(s) { leaf(1); return true; }
};
__attribute__((noipa)) auto lambda() { return [](int) __attribute__((noipa)) { leaf(1); return 1; }; }
template <typename T> __attribute__((noipa)) auto deduced(T a) -> decltype(a + 1) { leaf(1); return a; }
template <typename T> __attribute__((noipa)) int (*pointer(T))(int) { leaf(1); return nullptr; }
}
int main()
{
	ns::s s;
	ns::hidden(ns::tag());
	return !(s(1) + bool(s) + (s < s) + ns::lambda()(1) + ns::deduced(1) + !ns::pointer(1) == 6);
}
"""
NAMES = ["ns::(anonymous namespace)::hidden<ns::(anonymous namespace)::tag>", "ns::s::operator()", "ns::s::operator bool", "ns::s::operator<",
         "ns::lambda()::{lambda(int)#1}::operator()(int) const", "decltype ({parm#1}+(1)) ns::deduced<int>(int)",
         "int (*ns::pointer<int>(int))(int)"]


def test_names_of_cxx_callers(dyntrace, scratch):
    """Frames have the names of functions, not what stands before the first parenthesis."""
    source, path = os.path.join(scratch, "named.cc"), os.path.join(scratch, "named")
    with open(source, "w") as file:
        file.write(NAMED)
    subprocess.run(["g++", "-O1", "-fno-inline", "-o", path, source], check=True)
    result, _ = dyntrace.trace("--function", "leaf<int>", "-t", "backtrace:2", "--print", "--", path)
    frames = [line.partition("backtrace = [ ")[2].partition(", ")[2].rpartition("+0x")[0] for line in result.stdout.splitlines()]
    assert frames == NAMES


BORROWED = """
#include <execinfo.h>
#include <stdio.h>
__asm__(".globl with_rbp\\n.type with_rbp, @function\\nwith_rbp:\\n.cfi_startproc\\npush %rbp\\n.cfi_def_cfa_offset 16\\n.cfi_offset %rbp, -16\\n"
	"mov %rdi, %rbp\\ncall saver\\npop %rbp\\n.cfi_def_cfa_offset 8\\nret\\n.cfi_endproc\\n.size with_rbp, . - with_rbp");
void with_rbp(long rbp);
__attribute__((noipa)) void leaf(void) { __asm__ volatile(""); }
__attribute__((noipa)) void saver(void)
{
	void *a[20];
	int c = backtrace(a, 20);
	for (int i = 1; i < c; i++)
		printf("%lx ", (long)a[i]);
	printf("\\n");
	leaf();
}
int main(void)
{
	static const long values[] = { -1, 0, 1, -1, 1L << 47, -2 };
	leaf(); /* by the first hit the thread's stack is known */
	for (int i = 0; i < 6; i++)
		with_rbp(values[i]);
	return 0;
}
"""


def test_any_word_in_rbp(dyntrace, scratch):
    """(T9) What a caller keeps in rbp is no sign of memory that can't be read, also where the rows aren't kept yet."""
    source, path = os.path.join(scratch, "borrowed.c"), os.path.join(scratch, "borrowed")
    with open(source, "w") as file:
        file.write(BORROWED)
    subprocess.run(["gcc", "-O1", "-fno-omit-frame-pointer", "-o", path, source], check=True)
    result, trace = dyntrace.trace("--function", "leaf", "-t", "backtrace:20", "--", path)
    callers = [[int(frame, 16) for frame in line.split()] for line in result.stdout.splitlines()]
    assert len(callers) == 6 and [event.fields["backtrace"][2:] for event in trace.events[1:]] == callers
